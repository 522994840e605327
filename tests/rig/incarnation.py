"""A producer that is a container to the brokers, and what an outside reader finds in its topic."""

from __future__ import annotations

import contextlib
import threading

from confluent_kafka import (
    KafkaException,
    Producer,
    TopicPartition,
)

from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.kafka_client import KafkaCluster
from tests.rig.waiting import until


class Incarnation:
    """A producer that logs in as an incarnation and writes to each partition as fast as it is let.

    `only`: to that one alone, and it doesn't ask who leads again: a broker that refuses it
    would tell it that the whole topic is closed.
    """

    def __init__(
        self,
        principals: Principals,
        execution_id: str,
        *,
        partitions: int = 1,
        only: int | None = None,
    ) -> None:
        self.topic = f"{principals.job_name}-s"
        self.refused = 0
        self._by_partition = dict.fromkeys(range(partitions) if only is None else (only,), 0)
        self._key = execution_id
        self._producer = Producer(
            {
                "bootstrap.servers": principals.bootstrap_servers,
                **principals.security(),
                "sasl.username": principals.user(execution_id),
                "sasl.password": principals.password(execution_id),
                "log_level": 0,
                "linger.ms": 0,
                "topic.metadata.refresh.interval.ms": 500 if only is None else 300_000,
            }
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        """Records that a broker has acknowledged."""
        return sum(self._by_partition.values())

    def _write(self) -> None:
        def told(error: object, message: object) -> None:
            if error is None:
                self._by_partition[message.partition()] += 1  # type: ignore[attr-defined]
            else:
                self.refused += 1

        while not self._end.is_set():
            for partition in self._by_partition:
                try:
                    self._producer.produce(
                        self.topic, key=self._key, value="x", partition=partition, on_delivery=told
                    )
                except (KafkaException, BufferError):
                    # It knows by now that the topic is closed to it, or a leader is silent.
                    self.refused += 1
            self._producer.poll(0.005)

    def writes(self, more: int = 20) -> None:
        """Waits until so many more are acknowledged in each partition."""
        seen = dict(self._by_partition)
        until(
            f"{self._key} writes to {[*seen]}",
            lambda: all(self._by_partition[each] >= seen[each] + more for each in seen),
            seconds=60,
        )

    def tries(self) -> None:
        """Waits until it was refused once more."""
        seen = self.refused
        until(f"{self._key} still tries", lambda: self.refused > seen)

    def close(self) -> None:
        """Ends it."""
        self._end.set()
        self._thread.join()
        self._producer.purge()


def end_of(servers: str, topic: str, partition: int = 0) -> int:
    """Where the next record goes; waits for a new leader to know that."""
    consumer = KafkaCluster(servers).reader(committed_only=False)
    place = TopicPartition(topic, partition)

    def end() -> tuple[int, int] | None:
        with contextlib.suppress(KafkaException):
            return consumer.get_watermark_offsets(place, timeout=10)
        return None

    try:
        return until(f"the end of {topic} {partition}", end)[1]
    finally:
        consumer.close()


def keys_from(servers: str, topic: str, offset: int, partition: int = 0) -> set[str]:
    """Who wrote from there to the present end, by an outside reader."""
    end = end_of(servers, topic, partition)
    consumer = KafkaCluster(servers).reader(committed_only=False)
    found: set[str] = set()
    at = offset

    def is_read() -> bool:
        nonlocal at
        for message in consumer.consume(500, timeout=1.0):
            if message.error() is None:
                found.add((message.key() or b"").decode())
                at = (message.offset() or 0) + 1
        return at >= end

    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        until(f"{topic} {partition} is read to its end", is_read, seconds=60)
    finally:
        consumer.close()
    return found
