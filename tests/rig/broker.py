"""The sandbox's brokers: one is killed, and started again where it was.

Its ports are held meanwhile: somebody else's server on one of them would answer for it.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.sandbox import process
from samza_dagster.sandbox.broker import BROKER, short_uuid
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.waiting import until

_END_S = 30.0


@dataclass(frozen=True)
class SandboxBroker:
    """One of a sandbox's brokers: its node id, what its process is called, where it keeps its files."""

    node_id: int
    role: str
    directory: Path

    @property
    def data(self) -> Path:
        """Its partitions' logs."""
        return self.directory / "data"

    @property
    def servers(self) -> str:
        """Of its listener without a login, as an outsider finds it."""
        host, port = self.listeners["PLAINTEXT"]
        return f"{host}:{port}"

    @property
    def listeners(self) -> dict[str, tuple[str, int]]:
        """Name → address of what it listens at. Raises `OSError` before it was started."""
        properties = (self.directory / "server.properties").read_text()
        (found,) = re.findall(r"^listeners=(.*)$", properties, re.MULTILINE)
        each = re.findall(r"(\w+)://([\d.]+):(\d+)", found)
        return {name: (host, int(port)) for name, host, port in each}


def brokers_of(sandbox: Path, count: int) -> list[SandboxBroker]:
    """Of a sandbox by its directory, which needn't be up: one alone has no number."""
    root = sandbox / "broker"
    if count == 1:
        return [SandboxBroker(1, BROKER, root)]
    return [SandboxBroker(n, f"{BROKER}-{n}", root / str(n)) for n in range(1, count + 1)]


def kill_broker(
    sandbox: Sandbox, broker: SandboxBroker | None = None, how: signal.Signals = signal.SIGKILL
) -> Callable[[], None]:
    """Ends it, the only one if none is named; what starts it again has the same command,
    address and data. `how`: SIGTERM for an end in order.
    """
    broker = broker or brokers_of(sandbox.directory, 1)[0]
    (record,) = sandbox.registry.live(broker.role)
    command = Path(f"/proc/{record.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    record.send(how)
    until(f"the end of {broker.role}", lambda: record.wait(1), seconds=_END_S)
    held = [
        until(f"{host}:{port} is free", lambda h=host, p=port: _held(h, p), every=0.01)
        for host, port in broker.listeners.values()
    ]

    def again() -> None:
        for each in held:
            each.close()
        process.spawn(
            broker.role,
            command,
            log=broker.directory / "again.log",
            directory=broker.directory,
            on_spawn=sandbox.registry.add,
        )

    return again


def empty(broker: SandboxBroker) -> None:
    """Of one that is ended: a new disk in the place of its own, formatted for the same node."""
    kept = {name: broker.data / name for name in ("meta.properties", "bootstrap.checkpoint")}
    contents = {name: path.read_bytes() for name, path in kept.items() if path.exists()}
    shutil.rmtree(broker.data)
    broker.data.mkdir()
    for name, content in contents.items():
        (broker.data / name).write_bytes(content)
    meta = broker.data / "meta.properties"
    meta.write_text(
        re.sub(r"(?m)^directory\.id=.*$", f"directory.id={short_uuid()}", meta.read_text())
    )


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
