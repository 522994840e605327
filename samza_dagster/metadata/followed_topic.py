"""A topic that somebody looks into now and then: what came since the last look."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
)

from samza_dagster.metadata.job_topics import ANSWER_S, partitions_of
from samza_dagster.metadata.kafka_client import KafkaCluster, asked_until, end_admin
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.metadata.topic_reader import TopicRecord

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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topic = topic
        self._cluster = cluster
        self._monotonic = monotonic
        self._admin: KeptClient[AdminClient] = KeptClient(cluster.admin, end_admin)
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._was_missing = False
        self._heard_s = monotonic()

    @property
    def found(self) -> bool:
        """The topic was there at the last call."""
        return self._consumer is not None

    def new_records(self) -> list[TopicRecord]:
        """Return records since the last call; the first call returns none and begins at the ends.

        How old the records before are no clock of this machine tells. A call takes what has
        arrived, for a second and some 10,000 records at most: the next one goes on from there.
        Nothing while the topic doesn't exist; of one that comes later all is new. Raises `Unreachable` when no broker answers the first
        call within `ANSWER_S`, or a later one that asks after a silence; the next call connects
        anew and goes on where this one was, neither skipping nor repeating records.
        """
        asked = f"follow topic {self.topic}"
        try:
            if self._consumer is None:
                self._open()
                return []
            found = self._taken(self._consumer)
            if self._monotonic() - self._heard_s < _SILENCE_S:
                return found
            has_brokers = bool(self._metadata(self._consumer).brokers)
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
        if self._consumer is None:
            return ()
        try:
            return self._without_leader(self._consumer)
        except KafkaException as error:
            self._end_consumer()
            asked = f"describe topic {self.topic}"
            raise self._cluster.failure(asked, error.args[0], ANSWER_S) from error

    def close(self) -> None:
        """Releases the connection."""
        self._end_consumer()
        self._admin.close()

    def _end_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self) -> None:
        partitions = partitions_of(self._admin, self.topic)
        if not partitions:
            self._was_missing = True
            return
        consumer = self._cluster.reader(committed_only=True, report_ends=False)
        before = self._next
        try:
            if not before:
                self._next = self._begin(consumer, partitions)
            places = sorted(self._next.items())
            consumer.assign([TopicPartition(self.topic, n, offset) for n, offset in places])
        except BaseException:
            self._next = before
            consumer.close()
            raise
        self._consumer, self._heard_s = consumer, self._monotonic()
        self._admin.close()

    def _begin(self, consumer: Consumer, partitions: tuple[int, ...]) -> dict[int, int]:
        """Where each partition ends, or begins if the topic has come since the first call."""
        if self._was_missing:
            return dict.fromkeys(partitions, OFFSET_BEGINNING)
        places = dict.fromkeys(self._without_leader(consumer), OFFSET_END)
        ends = [
            TopicPartition(self.topic, number, OFFSET_END)
            for number in sorted(set(partitions) - places.keys())
        ]
        if not ends:
            return places
        found = asked_until(
            ANSWER_S,
            lambda timeout_s: consumer.offsets_for_times(ends, timeout=timeout_s),
            lambda timeout_s: consumer.list_topics(self.topic, timeout=timeout_s),
        )
        read = {tp.partition: tp.offset if tp.error is None else OFFSET_END for tp in found}
        return {**places, **read}

    def _without_leader(self, consumer: Consumer) -> tuple[int, ...]:
        there = self._metadata(consumer).topics[self.topic]
        return tuple(sorted(n for n, partition in there.partitions.items() if partition.leader < 0))

    def _metadata(self, consumer: Consumer) -> ClusterMetadata:
        return asked_until(
            ANSWER_S, lambda timeout_s: consumer.list_topics(self.topic, timeout=timeout_s)
        )

    def _taken(self, consumer: Consumer) -> list[TopicRecord]:
        """Return what is there now; bounded, since a topic that is written to all the time has no end."""
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
            if len(found) >= _CALL_MAX or self._monotonic() >= deadline:
                break
        if found:
            self._next = self._next | places
            self._heard_s = self._monotonic()
        return found
