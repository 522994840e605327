"""A topic that somebody looks into now and then: what came since the last look."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from samza_dagster.metadata.job_topics import (
    ANSWER_S,
    TopicRecord,
    partitions_of,
    raise_if_lost,
)
from samza_dagster.metadata.kafka_client import KafkaCluster, end_admin
from samza_dagster.metadata.kept_client import KeptClient

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

_BATCH = 500
_POLL_S = 0.05
_CALL_S = 1.0
_CALL_MAX = 10_000
_SILENCE_S = 10.0


class FollowedTopic:
    """All partitions of a topic, by one consumer that stays connected and commits nothing.

    A consumer that can have lost its brokers (`KeptClient`) is replaced: one that received
    nothing for 10 s is asked whether it still reaches them. Not thread-safe. Partitions that are
    added later aren't seen. One that has no leader at the first call is read from its end on
    once it has one again; the others wait for it no longer.
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
        self._admin: KeptClient[AdminClient] = KeptClient(cluster.admin, end_admin)
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._heard_s = monotonic()

    @property
    def found(self) -> bool:
        """The topic was there at the last call."""
        return self._consumer is not None

    def new_records(self) -> list[TopicRecord]:
        """What has come since the last call; at the first call since `since_ms`.

        The first call reads to the end at its time; a later one takes what has arrived, for
        a second and some 10,000 records at most: the next one goes on from there. Nothing
        while the topic doesn't exist. Raises `Unreachable` when no broker answers the first
        call within `ANSWER_S`, or a later one that asks after a silence; the next call connects
        anew and goes on where this one was, neither skipping nor repeating records.
        """
        from confluent_kafka import KafkaException

        asked = f"follow topic {self.topic}"
        try:
            if self._consumer is None:
                return self._opened()
            found = self._taken(self._consumer)
            if self._monotonic() - self._heard_s < _SILENCE_S:
                return found
            has_brokers = bool(self._consumer.list_topics(self.topic, timeout=ANSWER_S).brokers)
        except KafkaException as error:
            self._end_consumer()
            raise self._cluster.failure(asked, error.args[0], ANSWER_S) from error
        if not has_brokers:  # and so it has none any more
            self._end_consumer()
            raise self._cluster.unreachable(asked, ANSWER_S, "a broker that names none")
        self._heard_s = self._monotonic()
        return found

    def without_leader(self) -> tuple[int, ...]:
        """The partitions of which nothing can be read now; none before the first call that found it.

        Raises `Unreachable` when no broker answers.
        """
        from confluent_kafka import KafkaException

        if self._consumer is None:
            return ()
        try:
            there = self._consumer.list_topics(self.topic, timeout=ANSWER_S).topics[self.topic]
        except KafkaException as error:
            self._end_consumer()
            asked = f"describe topic {self.topic}"
            raise self._cluster.failure(asked, error.args[0], ANSWER_S) from error
        return tuple(sorted(n for n, partition in there.partitions.items() if partition.leader < 0))

    def close(self) -> None:
        """Releases the connection."""
        self._end_consumer()
        self._admin.close()

    def _end_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _opened(self) -> list[TopicRecord]:
        from confluent_kafka import TopicPartition

        with self._admin.use() as admin:
            partitions = partitions_of(admin, self.topic)
        if not partitions:
            return []
        consumer = self._cluster.reader(committed_only=True, report_ends=False)
        before = self._next
        try:
            left: dict[int, int] = {}
            if not before:
                self._next, left = self._begin(consumer, partitions)
            places = sorted(self._next.items())
            consumer.assign([TopicPartition(self.topic, n, offset) for n, offset in places])
            found: list[TopicRecord] = []
            deadline = self._monotonic() + ANSWER_S
            while left and self._monotonic() < deadline:
                found += self._taken(consumer, left)
        except BaseException:
            self._next = before
            consumer.close()
            raise
        self._consumer, self._heard_s = consumer, self._monotonic()
        self._admin.close()
        return found

    def _begin(
        self, consumer: Consumer, partitions: tuple[int, ...]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Where each partition begins, and where those end that have records since then."""
        from confluent_kafka import OFFSET_END, TopicPartition

        wanted = [TopicPartition(self.topic, n, max(self._since_ms, 0)) for n in partitions]
        found = consumer.offsets_for_times(wanted, timeout=ANSWER_S)
        unread = {place.partition: place.error for place in found if place.error is not None}
        if len(unread) == len(partitions):
            raise_if_lost(unread.values())
        places: dict[int, int] = dict.fromkeys(unread, OFFSET_END)
        left: dict[int, int] = {}
        for place in found:
            if place.partition in unread:
                continue
            at = TopicPartition(self.topic, place.partition)
            _, end = consumer.get_watermark_offsets(at, timeout=ANSWER_S)
            places[place.partition] = end if place.offset < 0 else place.offset
            if 0 <= place.offset < end:
                left[place.partition] = end
        return places, left

    def _taken(self, consumer: Consumer, left: dict[int, int] | None = None) -> list[TopicRecord]:
        """What is there now; partitions whose end was reached are taken out of `left`.

        Bounded, since a topic that is written to all the time has no end; with `left` it
        ends with the last of them.
        """
        found: list[TopicRecord] = []
        places: dict[int, int] = {}
        deadline = self._monotonic() + _CALL_S
        while batch := consumer.consume(_BATCH, timeout=_POLL_S):
            for message in batch:
                if message.error() is not None:  # the client goes on by itself
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                found.append(TopicRecord(message.key(), message.value(), message.timestamp()[1]))
                places[partition] = offset + 1
                if left is not None and offset + 1 >= left.get(partition, 0):
                    left.pop(partition, None)
            if left == {} or len(found) >= _CALL_MAX or self._monotonic() >= deadline:
                break
        if found:
            self._next = self._next | places
            self._heard_s = self._monotonic()
        return found
