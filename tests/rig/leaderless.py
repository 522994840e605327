"""Two brokers, of which the second can be stopped: what it alone has is then without a leader."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import COMPACTED
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import frozen
from tests.rig.waiting import until

FIRST, SECOND = 1, 2


class TwoBrokers:
    """The first goes on; topics say which partition is on which. A third has nothing of theirs: it
    is there so that the controllers have a majority without the second.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._first, self._second, _ = brokers.nodes

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
        self._second.close()
        with self.cluster.admin() as admin:
            until(
                "nothing is led by it",
                lambda: all(
                    partition.leader != SECOND
                    for topic in admin.list_topics(timeout=10).topics.values()
                    for partition in topic.partitions.values()
                ),
            )

    def start_second(self) -> None:
        """Returns when it is one of the brokers."""
        self._second.start()

    def second_frozen(self) -> AbstractContextManager[None]:
        """It is alive and answers nobody; the controller needs some seconds to take its partitions."""
        return frozen(self._second)


@contextmanager
def two_brokers(directory: Path) -> Generator[TwoBrokers]:
    """Both run."""
    with Brokers(directory, 3) as brokers:
        yield TwoBrokers(brokers)
