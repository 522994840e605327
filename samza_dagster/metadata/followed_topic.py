"""A topic that somebody looks into now and then: what came since the last look."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from samza_dagster.metadata.job_topics import ANSWER_S, TopicRecord, partitions_of
from samza_dagster.metadata.kafka_client import KafkaCluster, end_admin

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

_BATCH = 500
_POLL_S = 0.05
_CALL_S = 1.0
_CALL_MAX = 10_000


class FollowedTopic:
    """All partitions of a topic, by one consumer that stays connected and commits nothing.

    Not thread-safe. Partitions that are added later aren't seen.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        since_ms: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topic = topic
        self._cluster = cluster
        self._since_ms = since_ms
        self._monotonic = monotonic
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None

    @property
    def found(self) -> bool:
        """The topic was there at the last call."""
        return self._consumer is not None

    def new_records(self) -> list[TopicRecord]:
        """What has come since the last call; at the first call since `since_ms`.

        The first call reads to the end at its time; a later one takes what has arrived, for
        a second and some 10,000 records at most: the next one goes on from there. Nothing
        while the topic doesn't exist. Raises `Unreachable` when no broker answers the first
        call in time.
        """
        from confluent_kafka import KafkaException

        if self._consumer is not None:
            return self._taken(self._consumer)
        try:
            return self._opened()
        except KafkaException as error:
            raise self._cluster.failure(
                f"follow topic {self.topic}", error.args[0], ANSWER_S
            ) from error

    def close(self) -> None:
        """Releases the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        admin, self._admin = self._admin, None
        end_admin(admin)

    def _opened(self) -> list[TopicRecord]:
        from confluent_kafka import TopicPartition

        if self._admin is None:
            self._admin = self._cluster.admin()
        partitions = partitions_of(self._admin, self.topic)
        if not partitions:
            return []
        consumer = self._cluster.reader(committed_only=True, report_ends=False)
        try:
            wanted = [TopicPartition(self.topic, n, max(self._since_ms, 0)) for n in partitions]
            left: dict[int, int] = {}
            for place in consumer.offsets_for_times(wanted, timeout=ANSWER_S):
                at = TopicPartition(self.topic, place.partition)
                _, end = consumer.get_watermark_offsets(at, timeout=ANSWER_S)
                if place.offset < 0:  # no record since then
                    place.offset = end
                elif place.offset < end:
                    left[place.partition] = end
                wanted[wanted.index(at)] = place
            consumer.assign(wanted)
            found: list[TopicRecord] = []
            deadline = self._monotonic() + ANSWER_S
            while left and self._monotonic() < deadline:
                found += self._taken(consumer, left)
        except BaseException:
            consumer.close()
            raise
        self._consumer, self._admin = consumer, None
        return found

    def _taken(self, consumer: Consumer, left: dict[int, int] | None = None) -> list[TopicRecord]:
        """What is there now; partitions whose end was reached are taken out of `left`.

        Bounded, since a topic that is written to all the time has no end; with `left` it
        ends with the last of them.
        """
        found: list[TopicRecord] = []
        deadline = self._monotonic() + _CALL_S
        while batch := consumer.consume(_BATCH, timeout=_POLL_S):
            for message in batch:
                if message.error() is not None:  # the client goes on by itself
                    continue
                partition, offset = message.partition(), message.offset()
                found.append(TopicRecord(message.key(), message.value(), message.timestamp()[1]))
                if (
                    left is not None
                    and partition is not None
                    and offset is not None
                    and offset + 1 >= left.get(partition, 0)
                ):
                    left.pop(partition, None)
            if left == {} or len(found) >= _CALL_MAX or self._monotonic() >= deadline:
                break
        return found
