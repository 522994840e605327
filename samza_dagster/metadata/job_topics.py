"""Reading of a job's other topics: changelog ends, and the tails of metrics and checkpoints.

A partition that can't be read, as one without a leader, makes no other one unknown: in its
place stands the `Unreachable` that says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import (
    KafkaCluster,
    asked_until,
    end_admin,
    is_final,
    remaining_s,
    share_of,
)
from samza_dagster.metadata.kept_client import KeptClient

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from confluent_kafka.admin import AdminClient

ANSWER_S = 7.0
"""How long a broker may take to answer, in seconds."""


@dataclass(frozen=True)
class OffsetRange:
    """First and next offset of a partition."""

    start: int
    end: int


@dataclass(frozen=True)
class TopicRecord:
    """One record; `timestamp_ms` is the broker's or the producer's, as the topic is set.

    `offset` tells what was written before what, in one partition; `timestamp_ms` doesn't.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    offset: int = -1


Ranges = Mapping[tuple[str, int], OffsetRange | Unreachable]
"""By topic and partition."""


class JobTopics(Protocol):
    """What the client reads beside the metadata."""

    def offset_ranges(self, topics: Collection[str]) -> Ranges:
        """First and next offset of every partition; topics that don't exist are left out."""
        ...

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        """Records of the last `last_ms` up to the end at the time of the call; None: all.

        `last_ms` counts back from each partition's own newest time: those who write may have
        other clocks than who reads. What stands at `offset` or behind it is there in any case.
        Nothing when the topic doesn't exist; one `Unreachable` for each partition that
        couldn't be read to its end.
        """
        ...

    def close(self) -> None:
        """Releases the connection."""
        ...


class KafkaJobTopics:
    """`JobTopics` over Kafka. Commits nothing and creates no topic.

    Raises `Unreachable` when no broker answers within `ANSWER_S`; the next call connects anew.
    """

    def __init__(
        self, cluster: KafkaCluster, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._monotonic = monotonic
        # Kept: who asks every few seconds needs no new connection each time.
        self._admin: KeptClient[AdminClient] = KeptClient(cluster.admin, end_admin)

    def close(self) -> None:
        """Ends the connection; the next call makes another."""
        self._admin.close()

    def offset_ranges(self, topics: Collection[str]) -> Ranges:
        """First and next offset of every partition of the topics that exist."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

        names = sorted(set(topics))
        asked = f"read the end offsets of {', '.join(names)}"
        with self._answered(asked):
            wanted = [
                TopicPartition(topic, partition)
                for topic in names
                for partition in partitions_of(self._admin, topic)
            ]
            if not wanted:
                return {}
            starts, unread = self._listed(wanted, OffsetSpec.earliest())
            left = [tp for tp in wanted if (tp.topic, tp.partition) in starts]
            ends, lost = self._listed(left, OffsetSpec.latest())
            unread |= lost
            if not ends:
                _raise_if_lost(unread.values())
        read = {at: OffsetRange(starts[at].offset, end.offset) for at, end in ends.items()}
        return {**read, **{at: self._cluster.unread(*at, error) for at, error in unread.items()}}

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        """Records of all partitions, of the last `last_ms` before the newest of each."""
        from confluent_kafka import OFFSET_END, TopicPartition

        with self._answered(f"read topic {topic}"):
            partitions = partitions_of(self._admin, topic)
            newest = {} if last_ms is None else self._newest_ms(topic, partitions)
            if not partitions:
                return
            consumer = self._cluster.reader(committed_only=True)
            try:

                def at(times_ms: Mapping[int, int]) -> list[TopicPartition]:
                    """By one question for all partitions, not one after the other."""
                    wanted = [TopicPartition(topic, n, time_ms) for n, time_ms in times_ms.items()]
                    return asked_until(
                        ANSWER_S,
                        lambda timeout_s: consumer.offsets_for_times(wanted, timeout=timeout_s),
                        lambda timeout_s: consumer.list_topics(topic, timeout=timeout_s),
                    )

                starts = at({n: max(newest.get(n, 0) - (last_ms or 0), 0) for n in partitions})
                last = at(dict.fromkeys(partitions, OFFSET_END))
                unread = {tp.partition: tp.error for tp in (*starts, *last) if tp.error is not None}
                ends = {tp.partition: tp.offset for tp in last if tp.partition not in unread}
                if not ends:
                    _raise_if_lost(unread.values())
                for number, error in unread.items():
                    yield self._cluster.unread(topic, number, error)
                left = [tp for tp in starts if tp.partition in ends]
                if offset is not None:
                    for tp in left:
                        tp.offset = min(tp.offset, offset) if tp.offset >= 0 else offset
                left = [tp for tp in left if 0 <= tp.offset < ends[tp.partition]]
                if left:
                    yield from self._read(consumer, left, ends)
            finally:
                consumer.close()

    def _read(
        self, consumer: Consumer, left: list[TopicPartition], ends: Mapping[int, int]
    ) -> Iterator[TopicRecord | Unreachable]:
        from confluent_kafka import KafkaError, KafkaException

        topic, pending = left[0].topic, {tp.partition for tp in left}
        consumer.assign(left)
        deadline = self._monotonic() + ANSWER_S
        while pending:
            message = consumer.poll(0.1)
            if message is None:
                if self._monotonic() > deadline:
                    yield from (self._cluster.unread(topic, number) for number in sorted(pending))
                    return
                continue
            deadline = self._monotonic() + ANSWER_S
            partition, offset = message.partition(), message.offset()
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and partition is not None:  # noqa: SLF001 - the public name has the underscore
                    pending.discard(partition)
                elif not error.retriable():
                    raise KafkaException(error)
                continue
            assert partition is not None
            assert offset is not None
            if offset < ends[partition]:
                at_ms = message.timestamp()[1]
                yield TopicRecord(message.key(), message.value(), at_ms, offset)
            if offset >= ends[partition] - 1:
                pending.discard(partition)

    def _newest_ms(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Partition → the largest time of a record in it, of those with a leader. Raises `KafkaException`."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

        wanted = [TopicPartition(topic, n) for n in partitions]
        found, unread = self._listed(wanted, OffsetSpec.max_timestamp())
        for error in unread.values():
            if _is_loss(error):
                raise KafkaException(error)
        return {number: listed.timestamp for (_, number), listed in found.items()}

    def _listed(
        self, wanted: list[TopicPartition], spec: Any
    ) -> tuple[_Listed, dict[tuple[str, int], KafkaError]]:
        """What the leaders say, by topic and partition, and why others say nothing; in `ANSWER_S`.

        Partitions whose leader seems lost are asked for again by a new client, which has to find
        out who leads.
        """
        from confluent_kafka import KafkaException

        found: _Listed = {}
        unread: dict[tuple[str, int], KafkaError] = {}
        deadline = time.monotonic() + ANSWER_S
        while wanted:
            timeout_s = share_of(remaining_s(deadline))
            with self._admin.use() as admin:
                untyped = cast("Any", admin)  # its futures have no type
                listed = untyped.list_offsets(
                    dict.fromkeys(wanted, spec), request_timeout=timeout_s
                )
                for tp, future in listed.items():
                    at = tp.topic, tp.partition
                    try:
                        found[at] = future.result()
                    except KafkaException as error:
                        unread.setdefault(at, error.args[0])
                    else:
                        unread.pop(at, None)
            lost = {at for at, error in unread.items() if _is_loss(error) and not is_final(error)}
            wanted = [tp for tp in wanted if (tp.topic, tp.partition) in lost]
            if wanted:
                self._admin.close()
            if remaining_s(deadline) <= 0:
                break
        return found, unread

    @contextmanager
    def _answered(self, asked: str) -> Generator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self._cluster.failure(asked, error.args[0], ANSWER_S) from error


def _raise_if_lost(errors: Collection[KafkaError]) -> None:
    """For a client that reaches no partition: `KafkaException`, unless it heard of all that they have no leader."""
    from confluent_kafka import KafkaException

    lost = [error for error in errors if _is_loss(error)]
    if lost:
        raise KafkaException(lost[0])


def _is_loss(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError

    return error.code() != KafkaError.LEADER_NOT_AVAILABLE


_Listed = dict[tuple[str, int], Any]


def partitions_of(kept: KeptClient[AdminClient], topic: str) -> tuple[int, ...]:
    """The partitions of a topic; none when it doesn't exist. Raises `KafkaException`.

    A client puts it to the broker that it last heard of as the controller, also to one that is lost.
    """
    # describe_topics: to ask for a topic's metadata by its name could create it.
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    def described(timeout_s: float) -> tuple[int, ...]:
        with kept.use() as admin:
            untyped = cast("Any", admin)
            asked = untyped.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
            try:
                return tuple(partition.id for partition in asked[topic].result().partitions)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return ()
                raise

    return asked_until(ANSWER_S, described)
