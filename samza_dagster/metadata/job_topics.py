"""Reads a job's other topics: changelog ends, and the tails of metrics and checkpoints.

An unreadable partition, such as one without a leader, makes no other one unknown: its place in
the result has the `Unreachable` with the reason. The same holds for a topic that this client has
no right to read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import (
    PAUSE_S,
    KafkaCluster,
    asked_until,
    end_admin,
    is_final,
    is_of_another_epoch,
    is_passing,
    remaining_s,
    share_of,
)
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.metadata.topic_reader import TopicRecord

_Key = TypeVar("_Key")

ANSWER_S = 7.0
"""A broker's time for an answer, in seconds."""


@dataclass(frozen=True)
class OffsetRange:
    """First and next offset of a partition."""

    start: int
    end: int


Ranges = Mapping[tuple[str, int], OffsetRange | Unreachable]
"""By topic and partition."""

WHOLE_TOPIC = -1
"""The partition number in `Ranges` of a topic with unreadable partitions."""


def span_of(ranges: Ranges, topic: str, partition: int) -> OffsetRange | Unreachable | None:
    """Return the range of a partition, or why it is unreadable; None for a missing partition."""
    return ranges.get((topic, partition), ranges.get((topic, WHOLE_TOPIC)))


def why_no_span(ranges: Ranges, topic: str, partition: int) -> str:
    """Return the reason for a None of `span_of`."""
    if (topic, 0) not in ranges:
        return f"topic {topic} doesn't exist"
    return f"topic {topic} has no partition {partition}"


class JobTopics(Protocol):
    """The client's reads beside the metadata."""

    def offset_ranges(self, topics: Collection[str]) -> Ranges:
        """Return first and next offset of every partition, without topics that don't exist."""
        ...

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> Mapping[tuple[str, int, int], int]:
        """Return topic, partition and time in ms → the first record of that time or later.

        The records' own times count. Missing for partitions without such a record, and unreadable
        ones.
        """
        ...

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        """Yield records of the last `last_ms` up to the end at the time of the call; None: all.

        `last_ms` counts back from each partition's own newest time, because writers and readers
        may have different clocks. Records from `offset` on are included in any case. Yields
        nothing when the topic doesn't exist, and one `Unreachable` for each partition that
        couldn't be read to its end.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class KafkaJobTopics:
    """`JobTopics` over Kafka. Commits nothing and creates no topic.

    Raises `Unreachable` when no broker answers within `ANSWER_S`; the next call reconnects.
    """

    def __init__(
        self, cluster: KafkaCluster, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._monotonic = monotonic
        # Kept, so that a caller with a request every few seconds needs no new connection each time.
        self._admin: KeptClient[AdminClient] = KeptClient(cluster.admin, end_admin)

    def close(self) -> None:
        """End the connection; the next call makes another."""
        self._admin.close()

    def offset_ranges(self, topics: Collection[str], *, committed_only: bool = False) -> Ranges:
        """Return first and next offset of every partition of the topics that exist.

        `committed_only`: no record of an open transaction is before the next offset.
        """
        return self.ranges_and_ids(topics, committed_only=committed_only)[0]

    def ranges_and_ids(
        self, topics: Collection[str], *, committed_only: bool = False
    ) -> tuple[Ranges, dict[str, str]]:
        """Return the ranges and, by topic, the brokers' id; a recreated topic has another id.

        Topics without the right to describe them have no id.
        """
        names = sorted(set(topics))
        ids: dict[str, str] = {}
        unread: dict[tuple[str, int], KafkaError] = {}
        asked = f"read the end offsets of {', '.join(names)}"
        with self._translate_errors(asked):
            wanted = _partitions(self._admin, names, unread, ids)
            starts = _list_offsets(self._admin, wanted, OffsetSpec.earliest(), unread)
            latest = OffsetSpec.latest()
            ends = _list_offsets(self._admin, starts, latest, unread, committed_only=committed_only)
            if not ends:
                _raise_if_lost(unread.values())
        read = {at: OffsetRange(starts[at].offset, end.offset) for at, end in ends.items()}
        lost = {at: self._cluster.unread(*at, error) for at, error in unread.items()}
        return {**read, **lost}, ids

    def existing(self, topics: Collection[str]) -> set[str]:
        """Return the topics that exist and may be described."""
        with self._translate_errors(f"describe {len(topics)} topics"):
            found, unread = _describe_topics(self._admin, topics)
            if not found:
                _raise_if_lost(unread.values())
        return set(found)

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        """Return the first record of each partition at or after each time; one request per time."""
        found: dict[tuple[str, int, int], int] = {}
        left = set(asked)
        with self._translate_errors("read the offsets of changelogs at the times of reports"):
            while left:
                # A request has each partition once.
                times = {(topic, partition): at_ms for topic, partition, at_ms in left}
                specs = {at: OffsetSpec.for_timestamp(max(ms, 0)) for at, ms in times.items()}
                for at, first in _list_offsets(self._admin, times, specs, {}).items():
                    if first.offset >= 0:
                        found[*at, times[at]] = first.offset
                left -= {(*at, ms) for at, ms in times.items()}
        return found

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        """Yield records of all partitions, of the last `last_ms` before the newest of each."""
        unread: dict[tuple[str, int], KafkaError] = {}
        with self._translate_errors(f"read topic {topic}"):
            wanted = _partitions(self._admin, [topic], unread)
            latest = OffsetSpec.latest()
            ends = _list_offsets(self._admin, wanted, latest, unread, committed_only=True)
            since = OffsetSpec.earliest() if last_ms is None else OffsetSpec.max_timestamp()
            found = _list_offsets(self._admin, ends, since, unread)
            if not found:
                _raise_if_lost(unread.values())
            for at, error in unread.items():
                yield self._cluster.unread(*at, error)
            if not found:
                return
            consumer = self._cluster.reader(committed_only=True)
            try:
                left = [TopicPartition(*at, one.offset) for at, one in found.items()]
                if last_ms is not None:
                    # One request for all partitions.
                    times = [
                        TopicPartition(*at, max(newest.timestamp - last_ms, 0))
                        for at, newest in found.items()
                    ]
                    left = asked_until(
                        ANSWER_S,
                        lambda timeout_s: consumer.offsets_for_times(times, timeout=timeout_s),
                        lambda timeout_s: consumer.list_topics(topic, timeout=timeout_s),
                    )
                for tp in left:
                    if tp.error is not None:
                        yield self._cluster.unread(topic, tp.partition, tp.error)
                    elif offset is not None:
                        tp.offset = min(tp.offset, offset) if tp.offset >= 0 else offset
                last = {number: end.offset for (_, number), end in ends.items()}
                left = [
                    tp for tp in left if tp.error is None and 0 <= tp.offset < last[tp.partition]
                ]
                if left:
                    yield from self._read(consumer, left, last)
            finally:
                consumer.close()

    def _read(
        self, consumer: Consumer, left: list[TopicPartition], ends: Mapping[int, int]
    ) -> Iterator[TopicRecord | Unreachable]:
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
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    yield self._cluster.unread(topic, WHOLE_TOPIC, error)
                    return
                elif not is_passing(error):
                    raise KafkaException(error)
                continue
            assert partition is not None
            assert offset is not None
            if offset < ends[partition]:
                kind, at_ms = message.timestamp()
                by_broker = kind == TIMESTAMP_LOG_APPEND_TIME
                yield TopicRecord(
                    message.key(), message.value(), at_ms, offset, partition, by_broker
                )
            if offset >= ends[partition] - 1:
                pending.discard(partition)

    @contextmanager
    def _translate_errors(self, asked: str) -> Generator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._cluster.failure(asked, error.args[0], ANSWER_S) from error


def _raise_if_lost(errors: Collection[KafkaError]) -> None:
    """Raise `KafkaException` for a client that reaches no partition without a broker's reason."""
    lost = [error for error in errors if _is_loss(error)]
    if lost:
        raise KafkaException(lost[0])


def _is_loss(error: KafkaError) -> bool:
    passing = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
    return error.code() not in passing and not is_final(error)


def _partitions(
    kept: KeptClient[AdminClient],
    topics: Collection[str],
    unread: dict[tuple[str, int], KafkaError],
    ids: dict[str, str] | None = None,
) -> list[tuple[str, int]]:
    """Return the partitions of the topics that exist; fill `unread` and `ids`."""
    found, errors = _describe_topics(kept, topics)
    unread |= {(topic, WHOLE_TOPIC): error for topic, error in errors.items()}
    if ids is not None:
        ids |= {topic: str(each.topic_id) for topic, each in found.items()}
    return [(topic, one.id) for topic, each in found.items() for one in each.partitions]


def _list_offsets(
    kept: KeptClient[AdminClient],
    wanted: Collection[tuple[str, int]],
    spec: OffsetSpec
    | Mapping[tuple[str, int], OffsetSpec | None]
    | None,  # its factories never return None
    unread: dict[tuple[str, int], KafkaError],
    *,
    committed_only: bool = False,
) -> dict[tuple[str, int], ListOffsetsResultInfo]:
    """Return an offset of each of these partitions; unreadable ones go to `unread`.

    `spec` is the same for all of them, or one for each.
    """
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

    def ask(
        admin: AdminClient, left: Collection[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], Any]:
        specs = spec if isinstance(spec, Mapping) else dict.fromkeys(left, spec)
        asked = {TopicPartition(*at): specs[at] for at in left}
        untyped = cast("Any", admin)  # its futures have no type
        listed = untyped.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
        return {(tp.topic, tp.partition): future for tp, future in listed.items()}

    offsets, errors = _collect_answers(kept, wanted, ask)
    unread.update(errors)
    return offsets


def _collect_answers(
    kept: KeptClient[AdminClient],
    wanted: Collection[_Key],
    ask: Callable[[AdminClient, Collection[_Key], float], Mapping[_Key, Any]],
) -> tuple[dict[_Key, Any], dict[_Key, KafkaError]]:
    """Return the brokers' answers by key, and the errors of the others, within `ANSWER_S`."""
    # A request that seems lost is repeated once by a new client, which has to look the leaders up.
    # It is repeated further where a broker doesn't know yet the epoch in which it leads, as just
    # after it was fenced.
    found: dict[_Key, Any] = {}
    unread: dict[_Key, KafkaError] = {}
    deadline = time.monotonic() + ANSWER_S
    left = list(wanted)
    attempts = 0
    while left and (attempts < 2 or remaining_s(deadline) > 0):
        left_s = max(remaining_s(deadline), 0.001)
        timeout_s = left_s if attempts else share_of(left_s)
        attempts += 1
        with kept.use() as admin:
            for key, future in ask(admin, left, timeout_s).items():
                try:
                    found[key] = future.result()
                except KafkaException as error:
                    unread.setdefault(key, error.args[0])
                else:
                    unread.pop(key, None)
        left = [key for key, error in unread.items() if _is_loss(error)]
        if attempts > 1:
            left = [key for key in left if is_of_another_epoch(unread[key])]
        if left:
            kept.close()
        if attempts > 1 and left:
            time.sleep(PAUSE_S)
    return found, unread


def partitions_of(kept: KeptClient[AdminClient], topic: str) -> tuple[int, ...]:
    """Return the partitions of a topic; none when it doesn't exist. Raise `KafkaException`."""
    found, errors = _describe_topics(kept, [topic])
    if errors:
        raise KafkaException(errors[topic])
    return tuple(one.id for each in found.values() for one in each.partitions)


def _describe_topics(
    kept: KeptClient[AdminClient], topics: Collection[str]
) -> tuple[dict[str, Any], dict[str, KafkaError]]:
    """Return the descriptions of existing topics, and the errors of others."""
    # describe_topics, because a request for a topic's metadata by name could create the topic.

    def ask(admin: AdminClient, left: Collection[str], timeout_s: float) -> Mapping[str, Any]:
        untyped = cast("Any", admin)  # its futures have no type
        return untyped.describe_topics(TopicCollection(list(left)), request_timeout=timeout_s)

    found, errors = _collect_answers(kept, topics, ask)
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    return found, {topic: error for topic, error in errors.items() if error.code() != unknown}
