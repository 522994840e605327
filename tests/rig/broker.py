"""The sandbox's brokers: one is killed, and started again where it was.

Its ports are held meanwhile: somebody else's server on one of them would answer for it.
"""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import JOB_LISTENER
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.ports import LOOPBACK
from tests.rig.waiting import until

_END_S = 30.0


def brokers_of(sandbox: Sandbox) -> tuple[Broker, ...]:
    """Of one that was brought up in this process."""
    assert sandbox.brokers is not None
    return sandbox.brokers.nodes


def job_listeners(sandbox: Path, count: int) -> dict[int, Callable[[], tuple[str, int]]]:
    """By node id, where each takes the job's own clients; that raises `OSError` before its start.

    Of a sandbox by its directory, which needn't be up: one broker alone has no number.
    """
    root = sandbox / "broker"
    directories = {n: root if count == 1 else root / str(n) for n in range(1, count + 1)}

    def listener(directory: Path) -> tuple[str, int]:
        properties = (directory / "server.properties").read_text()
        port = re.search(rf"^listeners=.*{JOB_LISTENER}://[\d.]+:(\d+)", properties, re.MULTILINE)
        if port is None:
            raise OSError(f"{directory} is being written, by a broker that starts again")
        return LOOPBACK, int(port[1])

    return {n: lambda directory=each: listener(directory) for n, each in directories.items()}


def kill_broker(broker: Broker, how: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Ends it; what starts it again at the same ports, with the data that is there then.

    `how`: SIGTERM for an end in order.
    """
    record = broker.process
    record.send(how)
    until(f"the end of {broker.role}", lambda: record.wait(1), seconds=_END_S)
    held = [
        until(f"{port} is free", lambda port=port: _held(port), every=0.01) for port in broker.ports
    ]

    def again() -> None:
        for each in held:
            each.close()
        broker.launch()

    return again


def _held(port: int) -> socket.socket | None:
    """Bound and never listening: who connects is refused, who wants it gets another one.

    None while connections of the dead broker are in the way.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return None
    return holder
