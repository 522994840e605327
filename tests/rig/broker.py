"""The sandbox's broker killed, and started again where it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from samza_dagster.sandbox import process
from samza_dagster.sandbox.lifecycle import Sandbox

BROKER = "broker"


def kill_broker(sandbox: Sandbox) -> Callable[[], None]:
    """SIGKILL; what starts it again has the same command, address and data."""
    (record,) = sandbox.registry.live(BROKER)
    command = Path(f"/proc/{record.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    directory = Path(os.readlink(f"/proc/{record.pid}/cwd"))
    record.send(signal.SIGKILL)
    record.wait(10)
    log = sandbox.directory / "broker" / "again.log"

    def again() -> None:
        process.spawn(BROKER, command, log=log, directory=directory, on_spawn=sandbox.registry.add)

    return again
