"""Ranges of topics, read by Spark's Python workers or by this process; the newest of each fact stays.

Each worker has a consumer of librdkafka for the ranges that it is given, and returns what it found packed, a
piece for each job: of gigabytes of records that is kilobytes, and the driver passes them on unread. Spark's
own connector costs five times the processor time of such a consumer for each record.
"""

from __future__ import annotations

import pickle
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from samza_dagster.errors import MalformedRecord, Unreachable
from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.snapshots import records
from samza_dagster.snapshots.coordinated import Coordinated
from samza_dagster.snapshots.records import Fact

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from samza_dagster.snapshots.workers import Workers

COORDINATOR, CHECKPOINTS, METRICS = "coordinator stream", "checkpoints", "metrics"
STATE = "our coordinator's state"
NO_JOB = ("", "")
"""Stands for the job of a record of a shared topic that can't be read."""
LEAST_RECORDS = 20_000
"""A part of fewer isn't worth a worker."""
KEPT_REPORTS = 12
"""The newest of a replica that are kept: its pace is computed from no more (`lag.readiness.PACED_BY`)."""
_AT_ONCE = 500
_HELD_AT_ONCE = 200_000
"""Reports that a worker holds until it packs the newest of them."""
JobId = tuple[str, str]
Partition = tuple[str, int]


@dataclass(frozen=True, order=True)
class Span:
    """Offsets `start` (inclusive) to `end` (exclusive) of one partition.

    `job` is the one job whose topic it is; `NO_JOB`: many jobs share the topic.
    """

    topic: str
    partition: int
    start: int
    end: int
    what: str
    job: JobId = NO_JOB


class Said(NamedTuple):
    """Offsets by changelog gauge, as a report or a checkpoint has them.

    `host`, `process` and `came_ms` are None of a checkpoint. `order` sorts those of one source by when they
    were written. `record_bytes` is by store.
    """

    source: str
    order: tuple[int, int]
    at_ms: int | None
    offsets: Mapping[str, int | None]
    host: str | None = None
    process: str | None = None
    came_ms: int | None = None
    record_bytes: Mapping[str, float] = {}


class Stated(NamedTuple):
    """The value of a fact, the writer's own time of it, and time and offset of its record."""

    value: Any
    at_ms: int | None
    came_ms: int
    offset: int


@dataclass
class Found:
    """What was found of one job: the newest fact of each kind, name and source, and reports by task.

    `starts` are hosts, and seconds from the command to start a container until it checked in.
    `unreadable` counts records, `example` names one of them and says why.
    """

    facts: dict[tuple[str, str, str], Stated] = field(default_factory=dict[Any, Stated])
    reports: dict[str, list[Said]] = field(default_factory=dict[str, list[Said]])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    unreadable: int = 0
    example: str = ""

    def state(self, fact: Fact, came_ms: int, offset: int = 0) -> None:
        """Take a fact that is newer than all before; one that was deleted is forgotten."""
        about = fact.kind, fact.name, fact.source
        if fact.value is None:
            self.facts.pop(about, None)
        else:
            self.facts[about] = Stated(fact.value, fact.at_ms, came_ms, offset)

    @property
    def config(self) -> dict[str, str]:
        """The settings that a snapshot needs."""
        return {n: one.value for (kind, n, _), one in self.facts.items() if kind == records.CONFIG}

    def packed(self) -> bytes:
        """Return it as bytes, which travel between workers unread."""
        return zlib.compress(pickle.dumps(self, pickle.HIGHEST_PROTOCOL), 1)


def unpacked(pieces: Sequence[bytes]) -> list[Found]:
    """Read what `Found.packed` wrote."""
    return [pickle.loads(zlib.decompress(one)) for one in pieces]  # noqa: S301 - our own workers wrote it


class Read(NamedTuple):
    """What one worker read: a piece for each job, and the settings of those whose stream it read.

    `unread` says of a range why it couldn't be read to its end. `newest_ms` is when the last record of
    each partition of metrics came.
    """

    pieces: list[tuple[JobId, bytes]]
    configs: dict[JobId, dict[str, str]]
    unread: list[tuple[Span, Unreachable]]
    newest_ms: list[tuple[Span, int]]


@dataclass(frozen=True)
class Readers:
    """Reads ranges of topics of one cluster.

    `now_ms`: records far ahead of it are refused. `jobs` are those whose reports are kept; None: any.
    """

    servers: str
    client_config: Mapping[str, str]
    now_ms: int
    jobs: frozenset[JobId] | None = None

    def read(self, workers: Workers, spans: Sequence[Span]) -> list[Read]:
        """Read the committed records of these ranges, a part for each worker."""
        total = sum(one.end - one.start for one in spans)
        return workers.each(self.part, deal(spans, workers.share(total, LEAST_RECORDS)))

    def part(self, spans: Sequence[Span]) -> Read:
        """Read one part; run by a worker."""
        return _Reading(self, spans).read()


def deal(spans: Sequence[Span], size: int) -> list[list[Span]]:
    """Deal the ranges into parts of about so many records; a partition of metrics may be split."""
    dealt: list[list[Span]] = []
    room = 0
    for one in sorted(spans):
        start = one.start
        while start < one.end:
            if room <= 0:
                dealt.append([])
                room = size
            end = min(one.end, start + room) if one.what == METRICS else one.end
            dealt[-1].append(replace(one, start=start, end=end))
            room -= end - start
            start = end
    return dealt


class _Reading:
    """One consumer's way through its ranges."""

    def __init__(self, readers: Readers, spans: Sequence[Span]) -> None:
        self._now_ms, self._jobs = readers.now_ms, readers.jobs
        self._cluster = KafkaCluster(readers.servers, readers.client_config)
        self._spans = {(one.topic, one.partition): one for one in spans}
        self._pending = dict(self._spans)
        self._found = defaultdict[Partition, Found](Found)
        self._coordinated = defaultdict[Partition, Coordinated](Coordinated)
        self._reports: dict[tuple[Partition, JobId, str, str], deque[Said]] = {}
        self._last: dict[tuple[Partition, JobId, str, str], TaskSample] = {}
        self._held = 0
        self._newest_ms: dict[Partition, int] = {}
        self._read = Read([], {}, [], [])

    def read(self) -> Read:
        """Read all ranges to their ends, or for as long as the brokers answer."""
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
        finally:
            consumer.close()
        for at, one in self._pending.items():
            self._read.unread.append((one, self._cluster.unread(*at)))
        for at in [*self._found]:
            self._pack(at)
        self._pack_reports()
        self._read.newest_ms.extend((self._spans[at], ms) for at, ms in self._newest_ms.items())
        return self._read

    def _take(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        for message in messages:
            at: Any = message.topic(), message.partition()
            span = self._pending.get(at)
            if span is None:
                continue
            offset: Any = message.offset()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name has the underscore
                if error.retriable():
                    continue
                self._read.unread.append(
                    (span, self._cluster.unread(span.topic, span.partition, error))
                )
            elif error is None and offset < span.end:
                self._keep(at, span, offset, message)
            if error is not None or offset >= span.end - 1:
                del self._pending[at]
                self._pack(at)
                if self._pending:
                    consumer.incremental_unassign([TopicPartition(*at)])

    def _keep(self, at: Partition, span: Span, offset: int, message: Message) -> None:
        came_ms, key, value = message.timestamp()[1], message.key(), message.value()
        try:
            if span.what == METRICS:
                records.refuse_future(came_ms, self._now_ms)
                self._newest_ms[at] = came_ms
                report = records.standby_report(value, self._jobs)
                if report is not None:
                    self._keep_report(at, offset, came_ms, report)
            elif span.what == STATE:
                facts, start = self._coordinated[at].read(key, value, came_ms)
                self._found[at].starts.extend(start)
                for fact in facts:
                    self._found[at].state(fact, came_ms, offset)
            else:
                decode = (
                    records.coordinator_fact
                    if span.what == COORDINATOR
                    else records.checkpoint_fact
                )
                fact = decode(key, value)
                if fact is not None:
                    self._found[at].state(fact, came_ms, offset)
        except MalformedRecord as error:
            found = self._found[at]
            found.unreadable += 1
            found.example = (
                found.example or f"offset {offset} of {span.topic}-{span.partition}: {error.seen}"
            )

    def _keep_report(self, at: Partition, offset: int, came_ms: int, report: TaskSample) -> None:
        about = at, report.job, report.task_name, report.host
        reports = self._reports.get(about)
        if reports is None:
            reports = self._reports[about] = deque(maxlen=KEPT_REPORTS)
        said = Said("metrics", (came_ms, offset), report.at_ms, report.offsets, report.host)
        process = report.execution_id or report.host
        reports.append(said._replace(process=process, came_ms=came_ms))
        self._last[about] = report
        self._held += 1
        if self._held > _HELD_AT_ONCE:
            self._pack_reports()

    def _pack(self, at: Partition) -> None:
        found, span = self._found.pop(at, None), self._spans[at]
        if found is not None:
            if span.what == COORDINATOR:
                self._read.configs[span.job] = found.config
            self._read.pieces.append((span.job, found.packed()))

    def _pack_reports(self) -> None:
        """The size of a replica's records is told by its newest report alone."""
        found = defaultdict[JobId, Found](Found)
        for about, reports in self._reports.items():
            _, job, task, _ = about
            size = self._last[about].record_bytes
            reports.append(reports.pop()._replace(record_bytes=size))
            found[job].reports.setdefault(task, []).extend(reports)
        self._read.pieces.extend((job, one.packed()) for job, one in found.items())
        self._reports.clear()
        self._last.clear()
        self._held = 0
