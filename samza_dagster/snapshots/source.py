"""Facts out of offset ranges of topics, read by Spark's Python workers.

Each worker has a consumer of librdkafka for the ranges that it is given, and hands Spark the newest
facts of each alone: of gigabytes of records that is kilobytes. Spark's own connector costs three times
the processor time of such a consumer for each record, whatever is done with it then.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.snapshots import facts
from samza_dagster.snapshots.coordinated import Coordinated
from samza_dagster.snapshots.facts import Fact, Unreadable
from samza_dagster.snapshots.schemas import TABLES, ddl
from samza_dagster.snapshots.tables import Batch, batch_of, local_rows

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from pyspark.sql import DataFrame, SparkSession

KEPT_REPORTS = 12
"""The newest of a replica that are kept, in one row: its pace is told by no more (`lag.readiness.PACED_BY`)."""
COORDINATOR, CHECKPOINTS, METRICS = "coordinator stream", "checkpoints", "metrics"
STATE = "our coordinator's state"
_LEAST_SPLIT = 20_000
_AT_ONCE = 5_000
_KEYS_AT_ONCE = 100_000
_ASIDE_BYTES = 200
Key = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Span:
    """Offsets `start` (inclusive) to `end` (exclusive) of one partition, and whose it is.

    `job` is the one job of a coordinator stream, of a state topic or of checkpoints; None: many jobs share the topic.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    what: str
    job: tuple[str, str] | None = None


def read_facts(
    spark: SparkSession,
    servers: str,
    client_config: Mapping[str, str],
    spans: Sequence[Span],
    now_ms: int,
) -> DataFrame:
    """The newest facts of committed records in these ranges: columns of table `facts`.

    Of a range that couldn't be read to its end there is a row of kind `unread`, of each one of metrics a
    row of kind `newest` that says when its last record came. Read in as many parts as
    there are processors; a big partition is split.
    """
    dealt = deal(
        [one for one in spans if one.start < one.end], spark.sparkContext.defaultParallelism
    )
    if not dealt:
        return local_rows(spark, "facts", [])

    def read(numbers: Iterable[Batch]) -> Iterator[Batch]:
        for batch in numbers:
            numbered: list[int] = batch["id"].to_pylist()
            for number in numbered:
                cluster = KafkaCluster(servers, client_config)
                for rows in _Reading(cluster, dealt[number], now_ms).rows():
                    yield batch_of(TABLES["facts"], rows)

    parts: Any = spark.range(0, len(dealt), 1, len(dealt))
    return parts.mapInArrow(read, ddl(TABLES["facts"]))


def deal(spans: Sequence[Span], parts: int) -> list[list[Span]]:
    """The ranges in at most so many parts of about equal size; a part of a few records isn't worth a worker."""
    total = sum(one.end - one.start for one in spans)
    size = max(_LEAST_SPLIT, -(-total // max(1, parts)))
    dealt: list[list[Span]] = []
    room = 0
    for one in sorted(spans):
        start = one.start
        while start < one.end:
            if room <= 0:
                dealt.append([])
                room = size
            end = min(one.end, start + room)
            dealt[-1].append(replace(one, start=start, end=end))
            room -= end - start
            start = end
    return dealt


class _Reading:
    """One consumer's way through its ranges."""

    def __init__(self, cluster: KafkaCluster, spans: Sequence[Span], now_ms: int) -> None:
        self._cluster, self._now_ms = cluster, now_ms
        self._pending = {(one.topic, one.partition): one for one in spans}
        self._newest: dict[Key, dict[str, Any]] = {}
        self._reports: dict[Key, deque[str]] = {}
        self._last: dict[Span, tuple[int, int]] = {}
        self._coordinated: defaultdict[Span, Coordinated] = defaultdict(Coordinated)

    def rows(self) -> Iterator[list[dict[str, Any]]]:
        """All facts; many times, where there are many."""
        from confluent_kafka import TopicPartition

        consumer = self._cluster.reader(committed_only=True)
        try:
            consumer.assign([TopicPartition(*at, one.start) for at, one in self._pending.items()])
            deadline = time.monotonic() + ANSWER_S
            while self._pending:
                messages = consumer.consume(_AT_ONCE, 0.2)
                if messages:
                    deadline = time.monotonic() + ANSWER_S
                    self._take(consumer, messages)
                elif time.monotonic() > deadline:
                    yield [self._unread(one) for one in self._pending.values()]
                    break
                if len(self._newest) > _KEYS_AT_ONCE:
                    yield self._emptied()
        finally:
            consumer.close()
        newest = Fact(facts.NEWEST, "", "")
        yield [*self._emptied(), *(_row(one, None, newest, *at) for one, at in self._last.items())]

    def _emptied(self) -> list[dict[str, Any]]:
        for about, reports in self._reports.items():
            self._newest[about]["text"] = f"[{','.join(reports)}]"
        rows = list(self._newest.values())
        self._newest.clear()
        self._reports.clear()
        return rows

    def _take(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        for message in messages:
            at: Any = message.topic(), message.partition()
            span = self._pending.get(at)
            if span is None:
                continue
            offset: Any = message.offset()
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name has the underscore
                    del self._pending[at]
                elif not error.retriable():
                    raise KafkaException(error)
                continue
            if offset < span.end:
                self._keep(span, offset, message)
            if offset >= span.end - 1:
                del self._pending[at]
                if self._pending:
                    consumer.incremental_unassign([TopicPartition(*at)])

    def _keep(self, span: Span, offset: int, message: Message) -> None:
        came_ms = message.timestamp()[1]
        key, value = message.key(), message.value()
        try:
            facts.refuse_future(came_ms, self._now_ms)
            if span.what == METRICS:
                self._last[span] = (offset, came_ms)
                fact = facts.report_fact(value)
            elif span.what == COORDINATOR:
                fact = facts.coordinator_fact(key, value)
            elif span.what == CHECKPOINTS:
                fact = facts.checkpoint_fact(key, value)
            else:
                for one in self._coordinated[span].facts(key, value, came_ms):
                    self._take_fact(span, one, offset, came_ms)
                return
        except Unreadable as error:
            seen = (value or key or b"")[:_ASIDE_BYTES].decode(errors="replace")
            fact = Fact(facts.UNREADABLE, str(offset), f"{error}: {seen}")
        if fact is not None:
            self._take_fact(span, fact, offset, came_ms)

    def _take_fact(self, span: Span, fact: Fact, offset: int, came_ms: int) -> None:
        job = fact.job or span.job
        about = (span.topic, str(span.partition), fact.kind, *(job or ()), fact.name, fact.source)
        self._newest[about] = _row(span, job, fact, offset, came_ms)
        if fact.kind == facts.REPORT:
            told = f"[{came_ms},{offset},{fact.at_ms},{fact.text}]"
            self._reports.setdefault(about, deque(maxlen=KEPT_REPORTS)).append(told)

    def _unread(self, span: Span) -> dict[str, Any]:
        fact = Fact(facts.UNREAD, "", str(self._cluster.unread(span.topic, span.partition)))
        return _row(span, span.job, fact, span.start, self._now_ms)


def _row(
    span: Span, job: tuple[str, str] | None, fact: Fact, offset: int, came_ms: int
) -> dict[str, Any]:
    return {
        "topic": span.topic,
        "topic_id": span.topic_id,
        "partition": span.partition,
        "offset": offset,
        "came_ms": came_ms,
        "kind": fact.kind,
        "job_name": job[0] if job else None,
        "job_id": job[1] if job else None,
        "name": fact.name,
        "source": fact.source,
        "text": fact.text,
        "at_ms": fact.at_ms,
    }
