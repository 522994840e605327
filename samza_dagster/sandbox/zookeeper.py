"""A ZooKeeper server on loopback and a free port, from the jars of pyspark."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from samza_dagster.errors import ActionFailed, DeadlineExceeded, MissingPrerequisite
from samza_dagster.sandbox import process
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord

ZOOKEEPER = "zookeeper"
_START_S = 30.0
_TICK_MS = 200
"""The server grants sessions of 2 to 20 ticks: from 0.4 s, for tests with short sessions."""
_JARS = (
    "zookeeper",
    "slf4j-api",
    "netty",
    "jackson",
    "snappy",
    "metrics-core",
    "commons-io",
    "log4j",
)
_HEAP = ("-Xms64m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ZooKeeperServer:
    """A server with its data in `directory`; a restart after `close` keeps port and data.

    `settings` are additional lines of its `zoo.cfg`, `flags` its JVM's.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._settings = dict(settings or {})
        self._flags = flags
        self._on_spawn = on_spawn
        self._port = 0
        self._process: ProcessRecord | None = None

    @property
    def hosts(self) -> str:
        """Return `127.0.0.1:<port>`; known once started."""
        if not self._port:
            raise ActionFailed("ZooKeeper's address", seen="it wasn't started")
        return f"{LOOPBACK}:{self._port}"

    @property
    def process(self) -> ProcessRecord:
        """Return its process, for the record."""
        if self._process is None:
            raise ActionFailed("ZooKeeper's process", seen="it wasn't started")
        return self._process

    @property
    def log(self) -> Path:
        """Return the file of its output."""
        return self.directory / "zookeeper.log"

    def start(self) -> Self:
        """Start the server and wait until it answers.

        Raises `DeadlineExceeded` after half a minute, `ActionFailed` with the end of its log when
        it ended early, `MissingPrerequisite` without Java or pyspark.
        """
        java, jars = find_java(), _jars()
        self._port = self._port or free_ports(1)[0]
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        config.write_text(
            f"dataDir={self.directory / 'data'}\nclientPortAddress={LOOPBACK}\n"
            f"clientPort={self._port}\ntickTime={_TICK_MS}\nmaxSessionTimeout=60000\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n"
            + "".join(f"{name}={value}\n" for name, value in self._settings.items())
        )
        command = [
            *(str(java.program), *_HEAP, *self._flags, "-cp", ":".join(map(str, jars))),
            *("org.apache.zookeeper.server.ZooKeeperServerMain", str(config)),
        ]
        self._process = process.spawn(
            ZOOKEEPER, command, log=self.log, directory=self.directory, on_spawn=self._on_spawn
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close(grace_s=0.0)
            raise
        return self

    def close(self, grace_s: float = 10.0) -> None:
        """End the server and confirm its end."""
        record, self._process = self._process, None
        if record is not None:
            record.stop(grace_s=grace_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self.process.wait(0.05):
                raise ActionFailed(
                    "start ZooKeeper", seen=process.log_tail(self.log), fix=f"see {self.log}"
                )
            if _is_answering(self._port):
                return
        raise DeadlineExceeded(
            "start ZooKeeper",
            seen=f"no answer in {_START_S:.0f} s; {process.log_tail(self.log, 3)}",
            fix=f"see {self.log}",
        )


def _is_answering(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False


def _jars() -> tuple[Path, ...]:
    spec = find_spec("pyspark")
    where = list(spec.submodule_search_locations or ()) if spec is not None else []
    jars = [j for base in where for j in sorted(Path(base, "jars").glob("*.jar"))]
    found = tuple(jar for jar in jars if jar.name.startswith(_JARS))
    if not any(jar.name.startswith("zookeeper-") for jar in found):
        raise MissingPrerequisite(
            "the ZooKeeper that pyspark carries",
            seen=f"no zookeeper-*.jar in {where[0]}" if where else "pyspark isn't installed",
            fix="pip install 'samza_dagster[sandbox]'",
        )
    return found
