"""The sandbox's broker killed, and started again where it was.

Its ports are held meanwhile: somebody else's server on one of them would answer for it.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from samza_dagster.sandbox import process
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.waiting import until

BROKER = "broker"


def kill_broker(sandbox: Sandbox) -> Callable[[], None]:
    """SIGKILL; what starts it again has the same command, address and data."""
    (record,) = sandbox.registry.live(BROKER)
    command = Path(f"/proc/{record.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    directory = Path(os.readlink(f"/proc/{record.pid}/cwd"))
    record.send(signal.SIGKILL)
    record.wait(10)
    log = sandbox.directory / "broker" / "again.log"

    held = [
        until(f"{host}:{port} is free", lambda h=host, p=port: _held(h, p), every=0.01)
        for host, port in listeners(sandbox.directory).values()
    ]

    def again() -> None:
        for each in held:
            each.close()
        process.spawn(BROKER, command, log=log, directory=directory, on_spawn=sandbox.registry.add)

    return again


def listeners(sandbox: Path) -> dict[str, tuple[str, int]]:
    """Name → address of what the broker of a sandbox, by its directory, listens at.

    Raises `OSError` before it was started.
    """
    properties = (sandbox / "broker" / "server.properties").read_text()
    (found,) = re.findall(r"^listeners=(.*)$", properties, re.MULTILINE)
    each = re.findall(r"(\w+)://([\d.]+):(\d+)", found)
    return {name: (host, int(port)) for name, host, port in each}


def _held(host: str, port: int) -> socket.socket | None:
    """Bound and never listening: who connects is refused, who wants it gets another one.

    None while connections of the dead broker are in the way.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, port))
    except OSError:
        holder.close()
        return None
    return holder
