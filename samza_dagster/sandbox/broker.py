"""One Kafka broker (KRaft, its own controller) on loopback and free ports."""

from __future__ import annotations

import base64
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from samza_dagster.errors import ActionFailed, DeadlineExceeded, MissingPrerequisite
from samza_dagster.sandbox import kafka_client, process
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.broker_settings import (
    authorizer_settings,
    broker_settings,
    job_listener_settings,
)
from samza_dagster.sandbox.class_archive import ClassArchive, keep_file
from samza_dagster.sandbox.home import artifacts_directory
from samza_dagster.sandbox.java_check import Java, find_java
from samza_dagster.sandbox.ports import LOOPBACK, free_ports, is_taken
from samza_dagster.sandbox.process import ProcessRecord

_ATTEMPTS = 5
_ARCHIVE_DRAFT = "classes.jsa"
_ARCHIVE_TARGET = "classes.target"
_FEATURES = "bootstrap.checkpoint"
_HEAP = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


class Broker:
    """A broker whose data lives in `directory`; `settings` are added to its properties.

    With `authorizer` it has a second listener, for clients that log in. With `job_address`
    (`host:port` of a forwarder) it has one for the job's own clients, which are told that
    address and no other. Started again after `close` it keeps its ports and its data.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        authorizer: bool = False,
        job_address: str = "",
        artifacts: Path | None = None,
        deadline_s: float = 60.0,
        on_spawn: Callable[[ProcessRecord], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory.absolute()
        self._settings = dict(settings or {})
        self._authorizer = authorizer
        self._job_address = job_address
        self._artifacts = (artifacts or artifacts_directory()).resolve()
        self._deadline_s = deadline_s
        self._on_spawn = on_spawn
        self._clock = clock
        self._ports: tuple[int, ...] | None = None
        self._process: ProcessRecord | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:<port>`; known once started."""
        if self._ports is None:
            raise ActionFailed("the broker's address", seen="it wasn't started")
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def sasl_servers(self) -> str:
        """The address for clients that log in; known once started, with an authorizer alone."""
        if self._ports is None or not self._authorizer:
            raise ActionFailed(
                "the broker's address for logins", seen="it wasn't started, or has no authorizer"
            )
        return f"{LOOPBACK}:{self._ports[2]}"

    @property
    def job_servers(self) -> str:
        """Where the job's coordinator and containers find it; known once started."""
        own = self.sasl_servers if self._authorizer else self.bootstrap_servers
        return self._job_address or own

    @property
    def pid(self) -> int:
        """Id of the broker's process."""
        return self.process.pid

    @property
    def process(self) -> ProcessRecord:
        """The broker's process, for the record."""
        if self._process is None:
            raise ActionFailed("the broker's process", seen="it wasn't started")
        return self._process

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.directory / "broker.log"

    def start(self) -> Self:
        """Starts it and waits until it answers a metadata request.

        Ports that are taken meanwhile are replaced by others. Raises `DeadlineExceeded`
        after `deadline_s`, `ActionFailed` with the end of its log when it ended early,
        `MissingPrerequisite` without Java or when a port to be kept is taken.
        """
        keep = self._ports is not None
        for attempt in range(1, _ATTEMPTS + 1):
            wanted = 2 + self._authorizer + bool(self._job_address)
            ports = self._ports if keep and self._ports is not None else free_ports(wanted)
            self._launch(ports)
            try:
                self._wait_until_ready(self._clock() + self._deadline_s)
            except BaseException as error:
                self.close(grace_s=0.0)
                if not isinstance(error, ActionFailed) or not any(map(is_taken, ports)):
                    raise
                if keep or attempt == _ATTEMPTS:
                    raise MissingPrerequisite(
                        "free ports for the broker",
                        seen=f"{ports} taken by another process",
                        fix="end that process, or start the sandbox anew on other ports",
                    ) from error
                self._ports = None
            else:
                return self
        raise AssertionError("unreachable")

    def close(self, grace_s: float = 20.0) -> None:
        """Ends it and confirms that it's gone; the first one leaves a class archive behind."""
        record, self._process = self._process, None
        if record is None:
            return
        if record.stop(grace_s=grace_s) and grace_s > 0:
            keep_archive(self.directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _launch(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        java = find_java()
        jars = jar_paths("kafka", directory=self._artifacts)
        archive = self._archive_options(java, jars)
        settings = broker_settings(ports[0], ports[1], self.directory / "data")
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
            "broker", command, log=self.log, directory=self.directory, on_spawn=self._on_spawn
        )

    def _archive_options(self, java: Java, jars: tuple[Path, ...]) -> tuple[str, ...]:
        name = "kafka-scram" if self._authorizer else "kafka"
        archive = ClassArchive.of(name, java, jars, self._artifacts)
        if archive.exists:
            return archive.use_options()
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / _ARCHIVE_TARGET).write_text(str(archive.path))
        return archive.write_options(self.directory / _ARCHIVE_DRAFT)

    def _format(self, java: Java, jars: tuple[Path, ...], properties: Path) -> str:
        """Formats the data directory once; returns the cluster's id.

        Kafka's tool is asked once per Java and Kafka: what it writes beside our own
        ids (the feature levels of a new cluster) is kept and laid into later ones.
        """
        data = self.directory / "data"
        marker = data / "meta.properties"
        if not marker.is_file():
            kept = ClassArchive.of("kafka", java, jars, self._artifacts).path.with_suffix(
                ".features"
            )
            if not kept.is_file():
                self._run_format_tool(java, jars, properties)
                keep_file(data / _FEATURES, kept)
                marker.unlink()
            data.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, data / _FEATURES)
            marker.write_text(
                f"version=1\ncluster.id={_short_uuid()}\nnode.id=1\ndirectory.id={_short_uuid()}\n"
            )
        lines = dict(line.split("=", 1) for line in marker.read_text().splitlines() if "=" in line)
        return lines["cluster.id"]

    def _run_format_tool(self, java: Java, jars: tuple[Path, ...], properties: Path) -> None:
        command = [
            str(java.program), "-Xmx128m", *_HEAP[2:], "-cp", ":".join(str(jar) for jar in jars),
            "kafka.tools.StorageTool", "format", "-t", _short_uuid(), "-c", str(properties),
        ]  # fmt: skip
        record = process.spawn(
            "format", command, log=self.log, directory=self.directory, on_spawn=self._on_spawn
        )
        if not record.wait(self._deadline_s):
            record.stop(grace_s=0.0)
        if not (self.directory / "data" / _FEATURES).is_file():
            raise ActionFailed("format the broker's data", seen=process.log_tail(self.log))

    def _wait_until_ready(self, deadline: float) -> None:
        from confluent_kafka import KafkaException

        with kafka_client.admin(self.bootstrap_servers) as admin:
            while self._clock() < deadline:
                if not self.process.is_alive:
                    raise ActionFailed(
                        "start the broker", seen=process.log_tail(self.log), fix=f"see {self.log}"
                    )
                try:
                    metadata = admin.list_topics(timeout=0.5)
                except KafkaException:
                    continue
                if metadata.brokers and metadata.cluster_id == self._cluster_id:
                    return
                if metadata.cluster_id != self._cluster_id:
                    raise ActionFailed(
                        "start the broker", seen="another cluster answers on its port"
                    )
        raise DeadlineExceeded(
            "start the broker",
            seen=f"no answer in {self._deadline_s:.0f} s; {process.log_tail(self.log, 3)}",
            fix=f"see {self.log}",
        )


def start_broker(directory: Path, *, settings: Mapping[str, str] | None = None) -> Broker:
    """Starts a broker whose data lives in `directory`; see `Broker.start`."""
    return Broker(directory, settings=settings).start()


def keep_archive(directory: Path) -> None:
    """Keeps the class archive that the broker of `directory` wrote as it ended by itself."""
    try:
        target = Path((directory / _ARCHIVE_TARGET).read_text())
    except FileNotFoundError:
        return
    ClassArchive(target).accept(directory / _ARCHIVE_DRAFT)


def _short_uuid() -> str:
    """A random UUID as Kafka writes it: 22 URL-safe base64 characters, none leading with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
