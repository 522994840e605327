"""A cluster of two brokers, of which the second can be stopped: what it alone has is then without a leader."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import COMPACTED
from samza_dagster.sandbox import process
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from tests.rig.waiting import until

FIRST, SECOND = 1, 2


class TwoBrokers:
    """The first has the controller and goes on; topics say which partition is on which broker."""

    def __init__(self, directory: Path) -> None:
        self._first = Broker(directory / "first")
        self._directory = directory / "second"
        self._second: process.ProcessRecord | None = None

    @property
    def servers(self) -> str:
        """Of the first broker."""
        return self._first.bootstrap_servers

    @property
    def cluster(self) -> KafkaCluster:
        """A cluster to make clients of."""
        return KafkaCluster(self.servers)

    def create(self, topic: str, on: Sequence[int], config: Mapping[str, str] = COMPACTED) -> None:
        """A topic with one replica of each partition, partition n on broker `on[n]`."""
        from confluent_kafka.admin import NewTopic

        with self.cluster.admin() as admin:
            replicas = [[broker] for broker in on]
            new = NewTopic(topic, len(on), replica_assignment=replicas, config=dict(config))
            admin.create_topics([new])[topic].result(30)

            def led() -> bool:
                there = admin.list_topics(topic, timeout=10).topics[topic].partitions
                return len(there) == len(on) and all(p.leader > 0 for p in there.values())

            until(f"{topic} has leaders", led)

    def stop_second(self) -> None:
        """Returns when no partition has it for a leader."""
        assert self._second is not None
        self._second.stop(grace_s=20)
        self._second = None
        with self.cluster.admin() as admin:
            until(
                "nothing is led by it",
                lambda: all(
                    partition.leader != SECOND
                    for topic in admin.list_topics(timeout=10).topics.values()
                    for partition in topic.partitions.values()
                ),
            )

    @contextmanager
    def second_frozen(self) -> Generator[None]:
        """It is alive and answers nobody; the controller needs some seconds to take its partitions."""
        assert self._second is not None
        os.kill(self._second.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._second.pid, signal.SIGCONT)

    def start_second(self) -> None:
        """Returns when it is one of the brokers."""
        command = [
            word
            for word in self._first_command()
            if not word.startswith(("-XX:ArchiveClassesAtExit", "-XX:+AutoCreateSharedArchive"))
        ]
        command[-1] = str(self._properties())
        self._second = process.spawn(
            "broker", command, log=self._directory / "broker.log", directory=self._directory
        )
        with self.cluster.admin() as admin:
            until(
                "two brokers", lambda: len(admin.list_topics(timeout=10).brokers) == 2, seconds=60
            )

    def start(self) -> None:
        """Starts both."""
        self._first.start()
        self.start_second()

    def close(self) -> None:
        """Ends both."""
        if self._second is not None:
            self._second.stop(grace_s=20)
        self._first.close()

    def _first_command(self) -> list[str]:
        return Path(f"/proc/{self._first.pid}/cmdline").read_bytes().decode().split("\0")[:-1]

    def _properties(self) -> Path:
        properties = self._directory / "server.properties"
        if properties.is_file():
            return properties
        own = self._first.directory / "server.properties"
        settings = dict(line.split("=", 1) for line in own.read_text().splitlines())
        (port,) = free_ports(1)
        settings |= {
            "process.roles": "broker",
            "node.id": str(SECOND),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self._directory / "data"),
        }
        formatted = (self._first.directory / "data" / "meta.properties").read_text()
        lines = dict(line.split("=", 1) for line in formatted.splitlines() if "=" in line)
        (self._directory / "data").mkdir(parents=True)
        (self._directory / "data" / "meta.properties").write_text(
            f"version=1\ncluster.id={lines['cluster.id']}\nnode.id={SECOND}\n"
        )
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return properties


@contextmanager
def two_brokers(directory: Path) -> Generator[TwoBrokers]:
    """Both run."""
    brokers = TwoBrokers(directory)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.close()
