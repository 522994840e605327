"""Offsets of partitions, asked of the brokers.

From confluent-kafka, not from Spark: Spark's source can't tell an end offset without
reading records, and the last record doesn't tell it either (compaction and transaction
markers take offsets). One request answers for all partitions in some 10 ms.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from samza_dagster.errors import Unreachable
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.metadata.kafka_client import end_admin
from samza_dagster.metadata.kept_client import KeptClient
from samza_dagster.snapshots.settings import Connection, librdkafka_config

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 10.0
_LATEST = -1
_EARLIEST = -2


Unread = dict[tuple[str, int], Unreachable]
"""By topic and partition: those that have no leader, so that none of their records can be read."""


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Offsets `start` (inclusive) to `end` (exclusive) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def is_empty(self) -> bool:
        """Nothing lies in it."""
        return self.start >= self.end


class Offsets:
    """Reads offsets of one Kafka cluster; whoever makes one closes it.

    Raises `Unreachable` when no broker answers; the next call connects anew.
    """

    def __init__(self, connection: Connection, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._servers = connection.bootstrap_servers
        self._timeout_s = timeout_s
        self._config: dict[str, str | int | float | bool] = {"log_level": 0}
        self._config |= librdkafka_config(connection)
        self._admin: KeptClient[AdminClient] = KeptClient(self._connected, end_admin)
        with self._admin.use():  # a wrong setting is told here, not by the first question
            pass

    def close(self) -> None:
        """Ends the connection; not left to its destructor, see `end_admin`."""
        self._admin.close()

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has; a topic that doesn't exist is left out."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        names = sorted(set(topics))
        if not names:
            return {}
        counts: dict[str, int] = {}
        request = TopicCollection(names)
        with self._admin.use() as admin:
            answers = cast(
                "dict[str, Future[Any]]",
                admin.describe_topics(request, request_timeout=self._timeout_s),  # pyright: ignore[reportUnknownMemberType]
            )
            for name, answer in answers.items():
                try:
                    counts[name] = len(answer.result().partitions)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise self._unreachable(f"the partitions of {name}", error) from error
        return counts

    def whole(
        self, topics: Mapping[str, int], *, committed: bool, unread: Unread | None = None
    ) -> list[OffsetRange]:
        """Each partition from its beginning to its end, by topic and partition count.

        Those without a leader go to `unread`; without it they raise `Unreachable`. `committed`: to the last stable offset, so that no record of an open transaction
        lies before the end; otherwise to the high watermark.
        """
        starts = self._ask(_each(topics, _EARLIEST), committed=committed, unread=unread)
        ends = self._ask(_each(topics, _LATEST), committed=committed, unread=unread)
        return sorted(OffsetRange(*at, starts[at], ends[at]) for at in ends.keys() & starts)

    def since(
        self, topics: Mapping[str, int], timestamp_ms: int, *, unread: Unread | None = None
    ) -> list[OffsetRange]:
        """Each partition from its first record at or after a time (broker's index) to its end.

        `unread` as for `whole`.
        """
        starts = self._ask(_each(topics, max(timestamp_ms, 0)), committed=True, unread=unread)
        ends = self._ask(_each(topics, _LATEST), committed=True, unread=unread)
        # -1: no record is as new as that.
        return sorted(
            OffsetRange(*at, starts[at] if starts[at] >= 0 else ends[at], ends[at])
            for at in ends.keys() & starts
        )

    def first_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        """Topic, partition and time in ms → the first record of that time or a later one (broker's index).

        Left out where there is none, and where the partition has no leader.
        """
        found: dict[tuple[str, int, int], int] = {}
        left = set(asked)
        while left:
            # A request has each partition once.
            times = {(topic, partition): at_ms for topic, partition, at_ms in left}
            at_or_after = {at: max(at_ms, 0) for at, at_ms in times.items()}
            answers = self._ask(at_or_after, committed=False, unread={})
            found |= {(*at, times[at]): offset for at, offset in answers.items() if offset >= 0}
            left -= {(*at, at_ms) for at, at_ms in times.items()}
        return found

    def _ask(
        self, times: Mapping[tuple[str, int], int], *, committed: bool, unread: Unread | None
    ) -> dict[tuple[str, int], int]:
        """Offset of each partition at its time (ms), or at `_EARLIEST` or `_LATEST`."""
        from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition

        request = {TopicPartition(*at): _offset_spec(at_ms) for at, at_ms in times.items()}
        if not request:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        with self._admin.use() as admin:
            answers = cast(
                "dict[TopicPartition, Future[Any]]",
                admin.list_offsets(  # pyright: ignore[reportUnknownMemberType]
                    request, isolation_level=level, request_timeout=self._timeout_s
                ),
            )
            offsets: dict[tuple[str, int], int] = {}
            for at, answer in answers.items():
                try:
                    offsets[at.topic, at.partition] = answer.result().offset
                except KafkaException as error:
                    leaderless = error.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE
                    told = self._unreachable(f"offsets of {at.topic}-{at.partition}", error)
                    if unread is None or not leaderless:
                        raise told from error
                    unread[at.topic, at.partition] = told
            return offsets

    def _connected(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        with interrupts_deferred():
            return AdminClient(self._config)

    def _unreachable(self, asked: str, error: Exception) -> Unreachable:
        return Unreachable(
            f"{asked} from {self._servers}",
            seen=str(error),
            fix="a reachable broker and an account that may describe and read these topics",
        )


def _offset_spec(at_ms: int) -> Any:
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    named = {_LATEST: OffsetSpec.latest, _EARLIEST: OffsetSpec.earliest}
    return named[at_ms]() if at_ms in named else OffsetSpec.for_timestamp(at_ms)


def _each(topics: Mapping[str, int], at_ms: int) -> dict[tuple[str, int], int]:
    return {(topic, p): at_ms for topic, count in topics.items() for p in range(count)}


def assignment_json(ranges: Iterable[OffsetRange]) -> str:
    """The partitions as Spark's `assign` option wants them."""
    partitions: dict[str, list[int]] = {}
    for r in ranges:
        partitions.setdefault(r.topic, []).append(r.partition)
    return json.dumps(partitions)


def offsets_json(ranges: Iterable[OffsetRange], *, end: bool) -> str:
    """The start or end offsets as Spark's `startingOffsets`/`endingOffsets` want them."""
    offsets: dict[str, dict[str, int]] = {}
    for r in ranges:
        offsets.setdefault(r.topic, {})[str(r.partition)] = r.end if end else r.start
    return json.dumps(offsets)
