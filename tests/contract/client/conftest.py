"""A job's topics on a real broker, written as Samza writes them, and an independent reader."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.client import PlacementClient
from samza_dagster.metadata import KafkaCluster, KafkaMetadataStore, ensure_topic
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST

VECTORS = Path(__file__).parents[2] / "unit" / "client" / "vectors"
HOSTS = {"0": "nm1", "1": "nm2", "0-0": "nm3", "1-0": "nm4"}
AUTHOR = Author("nm3", "samza", 1_795_264_662_000)


@dataclass
class KafkaJob:
    """One job of its own name. `raw` and `end` go past the client: another library's view."""

    bootstrap_servers: str
    name: str = field(default_factory=lambda: f"client_{uuid.uuid4().hex[:10]}")
    job_id: str = "1"

    def __post_init__(self) -> None:
        self.connection = Connection(self.bootstrap_servers, self.name, self.job_id)
        self.topic = self.connection.coordinator_stream_topic
        self.cluster = KafkaCluster(self.bootstrap_servers)
        self.metrics = f"metrics-{self.name}"
        self.changelog = f"log-{self.name}"
        ensure_topic(self.cluster, self.topic)
        ensure_topic(self.cluster, checkpoint_topic(self.name, self.job_id))
        ensure_topic(self.cluster, self.metrics, config={})
        with self.cluster.admin() as admin:
            is_there = self.changelog in admin.list_topics(timeout=10).topics
        if not is_there:  # else a test has made it as it wants it, a partition without a leader
            ensure_topic(self.cluster, self.changelog, partitions=4)
        self.store = KafkaMetadataStore(self.bootstrap_servers, self.topic)
        self._write()

    def _write(self) -> None:
        settings = {
            "app.run.id": "run-1",
            "job.host-affinity.enabled": "true",
            "stores.lab.changelog": f"kafka.{self.changelog}",
            "metrics.reporters": "snapshot",
            "metrics.reporter.snapshot.stream": f"kafka.{self.metrics}",
            "metrics.reporter.snapshot.interval": "5",
        }
        records = [stream.set_config(AUTHOR, key, value) for key, value in settings.items()]
        for number in range(4):
            active, standby = str(number % 2), f"{number % 2}-0"
            for task, processor_id, mode in (
                (f"Partition {number}", active, TaskMode.ACTIVE),
                (f"Standby-Partition {number}-0", standby, TaskMode.STANDBY),
            ):
                records += [
                    stream.set_task_container(AUTHOR, task, processor_id),
                    stream.set_task_mode(AUTHOR, task, mode),
                    stream.set_changelog(AUTHOR, task, number),
                ]
        records += [stream.set_container_host(AUTHOR, pid, host) for pid, host in HOSTS.items()]
        self.produce(self.topic, [(record.key_bytes(), record.value) for record in records])

    def produce(
        self, topic: str, records: list[tuple[bytes | None, bytes | None]], partition: int = 0
    ) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 0})
        refused: list[Any] = []

        def on_delivery(error: Any, _: Any) -> None:
            if error is not None:
                refused.append(error)

        for key, value in records:
            producer.produce(
                topic, key=key, value=value, partition=partition, on_delivery=on_delivery
            )
        assert producer.flush(10) == 0
        assert refused == []

    def take(self, uuid: str) -> None:
        """What an AM does first: it deletes the request."""
        self.produce(
            self.topic, [(stream.encode_key(PLACEMENT_NAMESPACE, f"{uuid}.{REQUEST}"), None)]
        )

    def end(self, topic: str | None = None) -> int:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "outsider"})
        try:
            return consumer.get_watermark_offsets(
                TopicPartition(topic or self.topic, 0), timeout=10
            )[1]
        finally:
            consumer.close()

    def raw(self, offset: int) -> tuple[bytes | None, bytes | None]:
        """Key and value at an offset of the coordinator stream."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "outsider"})
        try:
            consumer.assign([TopicPartition(self.topic, 0, offset)])
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            return message.key(), message.value()
        finally:
            consumer.close()

    def topics(self) -> set[str]:
        """Those with this job's name in theirs: others share the broker."""
        with self.cluster.admin() as admin:
            return {topic for topic in admin.list_topics(timeout=10).topics if self.name in topic}

    def client(self) -> PlacementClient:
        return PlacementClient(self.connection)

    def command(self, *arguments: str) -> list[str]:
        return [
            *(sys.executable, "-m", "samza_dagster.cli.main", *arguments),
            *("--bootstrap-servers", self.bootstrap_servers, "--job-name", self.name),
        ]

    def cli(self, *arguments: str) -> tuple[int, Any]:
        """Exit code and JSON document of a command."""
        given = [*arguments, "--json", "--bootstrap-servers", self.bootstrap_servers]
        done = CliRunner().invoke(cli, [*given, "--job-name", self.name])
        assert done.stdout, done.stderr
        return done.exit_code, json.loads(done.stdout)

    def start(self, *arguments: str) -> Popen[str]:
        return Popen(self.command(*arguments), stdout=PIPE, stderr=PIPE, text=True)


@pytest.fixture(scope="module")
def kafka_job(bootstrap_servers: str) -> Iterator[KafkaJob]:
    job = KafkaJob(bootstrap_servers)
    yield job
    job.store.close()


@pytest.fixture
def own_job(bootstrap_servers: str) -> Iterator[KafkaJob]:
    """For tests that change what a job's topics say."""
    job = KafkaJob(bootstrap_servers)
    yield job
    job.store.close()


@pytest.fixture(scope="module")
def job_named() -> Iterator[Callable[[str, str], KafkaJob]]:
    """Makes the job of a name on a cluster of one's own, over topics that may be there already."""
    jobs: list[KafkaJob] = []

    def made(servers: str, name: str) -> KafkaJob:
        jobs.append(KafkaJob(servers, name))
        return jobs[-1]

    yield made
    for job in jobs:
        job.store.close()
