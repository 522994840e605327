"""A real broker for these tests, started in one place: `start_broker`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic

RUNNING = "SAMZA_DAGSTER_TEST_BOOTSTRAP"
CLASS_PATH = "SAMZA_DAGSTER_TEST_KAFKA_CLASSPATH"


class Broker(Protocol):
    bootstrap_servers: str

    def close(self) -> None: ...


def start_broker(directory: Path) -> Broker:
    """A broker with its data in `directory`; the same directory gives the same port again."""
    return _JavaBroker(directory)


class _JavaBroker:
    def __init__(self, directory: Path) -> None:
        java = shutil.which("java")
        class_path = os.environ.get(CLASS_PATH)
        assert java, "java isn't on the PATH"
        assert class_path, f"set {RUNNING} to a running broker, or {CLASS_PATH} to Kafka's jars"
        self._java = [java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java += ["-cp", class_path]
        self._log = directory / "broker.out"
        properties = directory / "server.properties"
        if not properties.exists():
            directory.mkdir(parents=True, exist_ok=True)
            properties.write_text(_properties(directory, *_free_ports(2)))
            cluster_id = subprocess.run(
                [*self._java, "kafka.tools.StorageTool", "random-uuid"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()[-1]
            subprocess.run(
                [
                    *self._java,
                    "kafka.tools.StorageTool",
                    "format",
                    "--standalone",
                    "-t",
                    cluster_id,
                    "-c",
                    str(properties),
                ],
                check=True,
                capture_output=True,
            )
        text = properties.read_text()
        self.bootstrap_servers = text.split("listeners=PLAINTEXT://", 1)[1].split(",", 1)[0]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(properties)], stdout=output, stderr=output
            )
        self._wait()

    def _wait(self) -> None:
        host, port = self.bootstrap_servers.split(":")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        self.close()
        pytest.fail(f"the broker didn't start:\n{self._log.read_text()[-3000:]}")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def _properties(directory: Path, port: int, controller: int) -> str:
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=2
"""


@pytest.fixture(scope="session", name="start_broker")
def _start_broker() -> Callable[[Path], Broker]:
    """For tests that stop a broker: it must be their own."""
    return start_broker


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = os.environ.get(RUNNING)
    if running:
        yield running
        return
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    try:
        yield broker.bootstrap_servers
    finally:
        broker.close()


@pytest.fixture(scope="session")
def cluster(bootstrap_servers: str) -> KafkaCluster:
    return KafkaCluster(bootstrap_servers)


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """A fresh compacted topic with one partition."""
    name = f"metadata-{uuid.uuid4().hex[:12]}"
    assert ensure_topic(cluster, name)
    return name
