"""Facts out of offset ranges of topics, read by Spark's Python workers.

Each worker has a consumer of librdkafka for the ranges that it is given, and writes the newest facts of
each into a file of table `facts`: of gigabytes of records that is kilobytes, and none of it goes through
the driver or a JVM. Spark's own connector costs five times the processor time of such a consumer for
each record, whatever is done with it then.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.snapshots import facts
from samza_dagster.snapshots.coordinated import Coordinated
from samza_dagster.snapshots.facts import Fact, Report, Unreadable
from samza_dagster.snapshots.job import KEPT_REPORTS, Kept, kept_reports
from samza_dagster.snapshots.tables import File, Mark, Tables

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from samza_dagster.snapshots.workers import Workers

COORDINATOR, CHECKPOINTS, METRICS = "coordinator stream", "checkpoints", "metrics"
STATE = "our coordinator's state"
LEAST_RECORDS = 20_000
"""A part of fewer isn't worth a worker."""
_AT_ONCE = 500
_KEPT_AT_ONCE = 200_000
"""Facts and reports that a worker takes until it writes what is the newest of them."""
_ASIDE_BYTES = 200
Key = tuple[Any, ...]
Row = dict[str, Any]


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


class Found(NamedTuple):
    """What a worker has found: files of table `facts`, and what isn't kept there.

    `settings` are rows of those that name a job and its metrics topics. `unread` says of a range why it
    couldn't be read to its end. `newest_ms` is of each partition of metrics when its last record came.
    """

    files: list[File]
    settings: list[Row]
    unread: list[tuple[Span, str]]
    newest_ms: list[tuple[Span, int]]


@dataclass(frozen=True)
class Readers:
    """Reads ranges of topics of one cluster into table `facts`."""

    servers: str
    client_config: Mapping[str, str]
    tables: Tables
    now_ms: int

    def read(self, workers: Workers, spans: Sequence[Span]) -> list[Found]:
        """The newest facts of committed records in these ranges, written and not committed.

        A part for each worker; a big partition is split.
        """
        total = sum(one.end - one.start for one in spans)
        return workers.each(self.found, deal(spans, workers.share(total, LEAST_RECORDS)))

    def found(self, spans: Sequence[Span]) -> Found:
        """What is in these ranges; run by a worker."""
        return _Reading(self, spans).found()


def deal(spans: Sequence[Span], size: int) -> list[list[Span]]:
    """The ranges in parts of so many records each, the last of what is left."""
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


def marked(read_now: Mapping[Span, Mark]) -> list[Row]:
    """Rows of table `facts` that say how far these partitions are read."""
    return [
        {
            "topic": one.topic,
            "topic_id": one.topic_id,
            "partition": one.partition,
            "offset": mark.offset,
            "came_ms": mark.read_ms,
            "kind": facts.READ,
            "name": "",
            "source": "",
            "at_ms": mark.newest_ms,
        }
        for one, mark in read_now.items()
    ]


class _Reading:
    """One consumer's way through its ranges."""

    def __init__(self, readers: Readers, spans: Sequence[Span]) -> None:
        self._tables, self._now_ms = readers.tables, readers.now_ms
        self._cluster = KafkaCluster(readers.servers, readers.client_config)
        self._spans = {(one.topic, one.partition): one for one in spans}
        self._pending = dict(self._spans)
        self._facts: dict[Key, tuple[Span, Fact, int, int]] = {}
        self._reports: dict[Key, deque[Kept]] = {}
        self._last: dict[Key, Report] = {}
        self._held = 0
        self._newest_ms: dict[tuple[str, int], int] = {}
        self._coordinated: defaultdict[Span, Coordinated] = defaultdict(Coordinated)
        self._found = Found([], [], [], [])

    def found(self) -> Found:
        """Reads all of it. Files may be many, where facts are."""
        from confluent_kafka import TopicPartition

        consumer = self._cluster.reader(committed_only=True)
        try:
            consumer.assign([TopicPartition(*at, one.start) for at, one in self._pending.items()])
            deadline = time.monotonic() + ANSWER_S
            while self._pending:
                messages = consumer.consume(_AT_ONCE, 0.01)
                if messages:
                    deadline = time.monotonic() + ANSWER_S
                    self._take(consumer, messages)
                elif time.monotonic() > deadline:
                    break
                if self._held > _KEPT_AT_ONCE:
                    self._write()
        finally:
            consumer.close()
        self._write()
        for one in self._pending.values():
            why = str(self._cluster.unread(one.topic, one.partition))
            self._found.unread.append((one, why))
        self._found.newest_ms.extend((self._spans[at], ms) for at, ms in self._newest_ms.items())
        return self._found

    def _write(self) -> None:
        rows = [_row(*each) for each in self._facts.values()]
        self._found.settings.extend(
            row for row in rows if row["kind"] == facts.CONFIG and facts.names_topics(row["name"])
        )
        for about, reports in self._reports.items():
            rows.append(_row_of(self._spans[about[:2]], reports, self._last[about]))
        if rows:
            rows.sort(key=lambda row: (row["job_name"] or "", row["job_id"] or ""))
            self._found.files.append(self._tables.write("facts", rows))
        self._facts.clear()
        self._reports.clear()
        self._last.clear()
        self._held = 0

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
                self._keep(at, span, offset, message)
            if offset >= span.end - 1:
                del self._pending[at]
                if self._pending:
                    consumer.incremental_unassign([TopicPartition(*at)])

    def _keep(self, at: tuple[str, int], span: Span, offset: int, message: Message) -> None:
        came_ms = message.timestamp()[1]
        value = message.value()
        found: Sequence[Fact]
        try:
            facts.refuse_future(came_ms, self._now_ms)
            if span.what == METRICS:
                self._newest_ms[at] = came_ms
                report = facts.report_of(value)
                if report is not None:
                    self._keep_report(at, offset, came_ms, report)
                return
            found = self._decoded(span, message.key(), value, came_ms)
        except Unreadable as error:
            seen = (value or message.key() or b"")[:_ASIDE_BYTES].decode(errors="replace")
            found = [Fact(facts.UNREADABLE, str(offset), f"{error}: {seen}")]
        for fact in found:
            about = (*at, fact.kind, fact.name, fact.source)
            self._facts[about] = (span, fact, offset, came_ms)
            self._held += 1

    def _decoded(
        self, span: Span, key: bytes | None, value: bytes | None, came_ms: int
    ) -> Sequence[Fact]:
        if span.what == STATE:
            return self._coordinated[span].facts(key, value, came_ms)
        read = facts.coordinator_fact if span.what == COORDINATOR else facts.checkpoint_fact
        fact = read(key, value)
        return () if fact is None else (fact,)

    def _keep_report(self, at: tuple[str, int], offset: int, came_ms: int, report: Report) -> None:
        about = (*at, report.job, report.task, report.host)
        reports = self._reports.get(about)
        if reports is None:
            reports = self._reports[about] = deque(maxlen=KEPT_REPORTS)
        reports.append((came_ms, offset, report.at_ms, report.process, report.offsets))
        self._last[about] = report
        self._held += 1


def _row(span: Span, fact: Fact, offset: int, came_ms: int) -> Row:
    job_name, job_id = span.job or (None, None)
    return {
        "topic": span.topic,
        "topic_id": span.topic_id,
        "partition": span.partition,
        "offset": offset,
        "came_ms": came_ms,
        "kind": fact.kind,
        "job_name": job_name,
        "job_id": job_id,
        "name": fact.name,
        "source": fact.source,
        "text": fact.text,
        "at_ms": fact.at_ms,
    }


def _row_of(span: Span, reports: Sequence[Kept], last: Report) -> Row:
    """Of reports of one replica; how large its records are is told by the last alone."""
    text = kept_reports(reports, facts.record_bytes(last.stores))
    fact = Fact(facts.REPORT, last.task, text, last.at_ms, last.host)
    return _row(replace(span, job=last.job), fact, reports[-1][1], reports[-1][0])
