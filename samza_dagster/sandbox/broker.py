"""A Kafka broker (KRaft, controller and broker in one) on loopback and free ports."""

from __future__ import annotations

import base64
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException

from samza_dagster.errors import ActionFailed, DeadlineExceeded, MissingPrerequisite
from samza_dagster.sandbox import kafka_client, process
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.broker_settings import (
    authorizer_settings,
    broker_settings,
    cluster_settings,
    job_listener_settings,
)
from samza_dagster.sandbox.class_archive import ClassArchive, keep_file
from samza_dagster.sandbox.java_check import Java, find_java
from samza_dagster.sandbox.ports import LOOPBACK, free_ports, is_taken
from samza_dagster.sandbox.process import ProcessRecord

BROKER = "broker"
_ATTEMPTS = 5
"""Most attempts of a start to find free ports."""
_START_S = 60.0
_ARCHIVE_DRAFT = "classes.jsa"
_ARCHIVE_TARGET = "classes.target"
_FEATURES = "bootstrap.checkpoint"
_HEAP = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


@dataclass(frozen=True)
class Seat:
    """The place of a node in a cluster of `nodes`: its id and ports, and the shared settings."""

    node_id: int
    nodes: int
    ports: tuple[int, ...]
    voters: str  # `controller.quorum.voters`, with every node in it
    cluster_id: str


class Broker:
    """A broker with its data in `directory`; `settings` are added to its properties.

    Alone it is its own controller; with a `seat` it is a node of a cluster (`Brokers`). With
    `authorizer` it has a second listener, for clients that log in. With `job_address`
    (`host:port` of a forwarder) it has a listener for the job's own clients, which advertises
    that address alone. A restart after `close` keeps ports and data.
    """

    def __init__(
        self,
        directory: Path,
        *,
        seat: Seat | None = None,
        settings: Mapping[str, str] | None = None,
        authorizer: bool = False,
        job_address: str = "",
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._seat = seat
        self._settings = dict(settings or {})
        self._authorizer = authorizer
        self._job_address = job_address
        self._on_spawn = on_spawn
        self._ports = None if seat is None else seat.ports
        self._process: ProcessRecord | None = None

    @property
    def node_id(self) -> int:
        """Return `node.id`, the name of the node in a partition's leader and replicas."""
        return 1 if self._seat is None else self._seat.node_id

    @property
    def role(self) -> str:
        """Return the role of its process in a sandbox's record."""
        return BROKER if self._seat is None else f"{BROKER}-{self.node_id}"

    @property
    def bootstrap_servers(self) -> str:
        """Return `127.0.0.1:<port>`; known once started."""
        if self._ports is None:
            raise ActionFailed("the broker's address", seen="it wasn't started")
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def sasl_servers(self) -> str:
        """Return the address for logins; known once started, with an authorizer alone."""
        if self._ports is None or not self._authorizer:
            raise ActionFailed(
                "the broker's address for logins", seen="it wasn't started, or has no authorizer"
            )
        return f"{LOOPBACK}:{self._ports[2]}"

    @property
    def job_servers(self) -> str:
        """Return the address for the job's coordinator and containers; known once started."""
        own = self.sasl_servers if self._authorizer else self.bootstrap_servers
        return self._job_address or own

    @property
    def pid(self) -> int:
        """Return the id of the broker's process."""
        return self.process.pid

    @property
    def process(self) -> ProcessRecord:
        """Return the broker's process, for the record."""
        if self._process is None:
            raise ActionFailed("the broker's process", seen="it wasn't started")
        return self._process

    @property
    def log(self) -> Path:
        """Return the file of its output."""
        return self.directory / "broker.log"

    def start(self) -> Self:
        """Start the broker and wait until it answers a metadata request.

        It replaces ports that were taken meanwhile, except those of a seat. A node answers only
        with a majority of its cluster, so `launch` doesn't wait. Raises `DeadlineExceeded` after
        a minute, `ActionFailed` with the end of its log when it ended early,
        `MissingPrerequisite` without Java or when a fixed port is taken.
        """
        start_all((self,), self._on_other_ports if self._ports is None else None)
        return self

    def _on_other_ports(self) -> tuple[Self]:
        self._ports = None
        return (self,)

    @property
    def ports(self) -> tuple[int, ...]:
        """Return its ports for clients, controller, logins and the job, as far as it has them."""
        # Empty before the first start.
        return self._ports or ()

    def taken_ports(self) -> tuple[int, ...]:
        """Return its ports at which a process listens: another one, when this broker has ended."""
        return tuple(filter(is_taken, self.ports))

    def terminate(self) -> None:
        """Send SIGTERM to its process, if it runs, without a wait; `close` waits."""
        if self._process is not None:
            self._process.send(signal.SIGTERM)

    def close(self, grace_s: float = 20.0) -> None:
        """End the broker and confirm its end; the first broker leaves a class archive."""
        record, self._process = self._process, None
        if record is None:
            return
        if record.stop(grace_s=grace_s) and grace_s > 0:
            keep_archive(self.directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self) -> None:
        """Start its process without a wait, at free ports the first time and the same later."""
        ports = self._ports
        if ports is None:
            wanted = ports_of_one(authorizer=self._authorizer, job_address=self._job_address)
            ports = self._ports = free_ports(wanted)
        java = find_java()
        jars = jar_paths("kafka")
        archive = self._archive_options(java, jars)
        settings = broker_settings(ports[0], ports[1], self.directory / "data")
        if self._seat is not None:
            settings |= cluster_settings(self._seat.node_id, self._seat.nodes, self._seat.voters)
        if self._authorizer:
            settings |= authorizer_settings(*ports[:3])
        if self._job_address:
            settings |= job_listener_settings(settings, ports[-1], self._job_address)
        settings |= self._settings
        properties = self.directory / "server.properties"
        properties.parent.mkdir(parents=True, exist_ok=True)
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._cluster_id = self._format(java, jars, properties)
        command = [
            str(java.program), *_HEAP, *archive, *_QUIET,
            "-cp", ":".join(str(jar) for jar in jars), "kafka.Kafka", str(properties),
        ]  # fmt: skip
        self._process = process.spawn(
            self.role, command, log=self.log, directory=self.directory, on_spawn=self._on_spawn
        )

    def _archive_options(self, java: Java, jars: tuple[Path, ...]) -> tuple[str, ...]:
        name = "kafka-scram" if self._authorizer else "kafka"
        archive = ClassArchive.of(name, java, jars)
        if archive.exists:
            return archive.use_options()
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / _ARCHIVE_TARGET).write_text(str(archive.path))
        return archive.write_options(self.directory / _ARCHIVE_DRAFT)

    def _format(self, java: Java, jars: tuple[Path, ...], properties: Path) -> str:
        """Format the data directory once; return the cluster's id."""
        # Kafka's tool runs once per Java and Kafka: its other output (the feature levels of a new
        # cluster) is kept and copied into later clusters.
        data = self.directory / "data"
        marker = data / "meta.properties"
        if not marker.is_file():
            kept = ClassArchive.of("kafka", java, jars).path.with_suffix(".features")
            if not kept.is_file():
                self._run_format_tool(java, jars, properties)
                keep_file(data / _FEATURES, kept)
                marker.unlink()
            data.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, data / _FEATURES)
            cluster_id = short_uuid() if self._seat is None else self._seat.cluster_id
            marker.write_text(
                f"version=1\ncluster.id={cluster_id}\nnode.id={self.node_id}\n"
                f"directory.id={short_uuid()}\n"
            )
        lines = dict(line.split("=", 1) for line in marker.read_text().splitlines() if "=" in line)
        return lines["cluster.id"]

    def _run_format_tool(self, java: Java, jars: tuple[Path, ...], properties: Path) -> None:
        command = [
            str(java.program), "-Xmx128m", *_HEAP[2:], "-cp", ":".join(str(jar) for jar in jars),
            "kafka.tools.StorageTool", "format", "-t", short_uuid(), "-c", str(properties),
        ]  # fmt: skip
        record = process.spawn(
            "format", command, log=self.log, directory=self.directory, on_spawn=self._on_spawn
        )
        if not record.wait(_START_S):
            record.stop(grace_s=0.0)
        if not (self.directory / "data" / _FEATURES).is_file():
            raise ActionFailed("format the broker's data", seen=process.log_tail(self.log))

    def wait_until_ready(self, nodes: int = 1) -> None:
        """Wait until it answers and knows `nodes` nodes; raise as `start` does."""
        deadline = time.monotonic() + _START_S
        with kafka_client.admin(self.bootstrap_servers) as admin:
            while time.monotonic() < deadline:
                if not self.process.is_alive:
                    raise ActionFailed(
                        "start the broker", seen=process.log_tail(self.log), fix=f"see {self.log}"
                    )
                try:
                    metadata = admin.list_topics(timeout=0.5)
                except KafkaException:
                    continue
                if metadata.cluster_id != self._cluster_id:
                    raise ActionFailed(
                        "start the broker", seen="another cluster answers on its port"
                    )
                if self.node_id in metadata.brokers and len(metadata.brokers) >= nodes:
                    return
        raise DeadlineExceeded(
            "start the broker",
            seen=f"no answer in {_START_S:.0f} s; {process.log_tail(self.log, 3)}",
            fix=f"see {self.log}",
        )


def start_all(nodes: Sequence[Broker], again: Callable[[], Sequence[Broker]] | None) -> None:
    """Start the nodes of one cluster at once; return when each answers and knows all others.

    `again` returns nodes with other ports if theirs were taken; None: the ports stay. Raises as
    `Broker.start` does; no node is left running then.
    """
    for further in reversed(range(_ATTEMPTS)):
        try:
            for node in nodes:
                node.launch()
            for node in nodes:
                node.wait_until_ready(len(nodes))
        except BaseException as error:
            for node in nodes:
                node.close(grace_s=0.0)
            taken = tuple(port for node in nodes for port in node.taken_ports())
            if not isinstance(error, ActionFailed) or not taken:
                raise
            if again is None or not further:
                raise MissingPrerequisite(
                    "free ports for the broker",
                    seen=f"{taken} taken by another process",
                    fix="end that process, or start the sandbox anew on other ports",
                ) from error
            nodes = again()
        else:
            return


def ports_of_one(*, authorizer: bool, job_address: str) -> int:
    """Return the number of one broker's ports: for clients, its controller, logins, the job."""
    return 2 + authorizer + bool(job_address)


def keep_archive(directory: Path) -> None:
    """Keep the class archive that the broker of `directory` wrote at its end."""
    try:
        target = Path((directory / _ARCHIVE_TARGET).read_text())
    except FileNotFoundError:
        return
    ClassArchive(target).accept(directory / _ARCHIVE_DRAFT)


def short_uuid() -> str:
    """Return a random UUID in Kafka's form: 22 URL-safe base64 characters without a leading `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
