"""Ranges of topics, read by Spark's Python workers or by this process; the newest of each record's key stays.

Each worker has a consumer of librdkafka for the ranges that it is given, and returns what it found packed, a
piece for each job: of gigabytes of records that is kilobytes, and the driver passes them on unread. Spark's
own connector costs five times the processor time of such a consumer for each record.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from samza_dagster.errors import MalformedRecord, Unreachable
from samza_dagster.lag import PACED_BY
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster, is_passing
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.snapshots.found import Found, Said, is_needed, refuse_future, standby_report

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from samza_dagster.client import JobView
    from samza_dagster.snapshots.workers import Workers

COORDINATOR, CHECKPOINTS, METRICS = "coordinator stream", "checkpoints", "metrics"
STATE = "our coordinator's state"
NO_JOB = ("", "")
"""Stands for the job of a record of a shared topic that can't be read."""
LEAST_RECORDS = 20_000
"""A part of fewer isn't worth a worker."""
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


class Read(NamedTuple):
    """A worker's result: a piece for each job, and the settings of those whose stream it read.

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
    """A consumer's way through its ranges."""

    def __init__(self, readers: Readers, spans: Sequence[Span]) -> None:
        self._now_ms, self._jobs = readers.now_ms, readers.jobs
        self._cluster = KafkaCluster(readers.servers, readers.client_config)
        self._pending = {(one.topic, one.partition): one for one in spans}
        self._found = defaultdict[Partition, Found](Found)
        self._reports: dict[tuple[Partition, JobId, str, str], deque[Said]] = {}
        self._last: dict[tuple[Partition, JobId, str, str], TaskSample] = {}
        self._held = 0
        self._newest_ms: dict[Partition, int] = {}
        self._pieces: list[tuple[JobId, bytes]] = []
        self._unread: list[tuple[Span, Unreachable]] = []

    def read(self) -> Read:
        """Read all ranges to their ends, or for as long as the brokers answer."""
        from confluent_kafka import TopicPartition

        spans = dict(self._pending)
        consumer = self._cluster.reader(committed_only=True)
        try:
            consumer.assign([TopicPartition(*at, one.start) for at, one in spans.items()])
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
        self._pack_reports()
        pieces, unread = self._pieces, self._unread
        pieces += [(spans[at].job, found.packed()) for at, found in self._found.items()]
        unread += [(one, self._cluster.unread(*at)) for at, one in self._pending.items()]
        configs = {
            spans[at].job: found.config
            for at, found in self._found.items()
            if spans[at].what == COORDINATOR
        }
        return Read(
            pieces, configs, unread, [(spans[at], ms) for at, ms in self._newest_ms.items()]
        )

    def _take(self, consumer: Consumer, messages: Iterable[Message]) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        for message in messages:
            at: Any = message.topic(), message.partition()
            span = self._pending.get(at)
            if span is None:
                continue
            offset: Any = message.offset()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name has the underscore
                if is_passing(error):
                    continue
                self._unread.append((span, self._cluster.unread(span.topic, span.partition, error)))
            elif error is None and offset < span.end:
                try:
                    self._keep(at, span, offset, message)
                except MalformedRecord as malformed:
                    found = self._found[at]
                    found.unreadable += 1
                    example = f"offset {offset} of {span.topic}-{span.partition}: {malformed.seen}"
                    found.example = found.example or example
            if error is not None or offset >= span.end - 1:
                del self._pending[at]
                if self._pending:
                    consumer.incremental_unassign([TopicPartition(*at)])

    def _keep(self, at: Partition, span: Span, offset: int, message: Message) -> None:
        came_ms, value = message.timestamp()[1], message.value()
        if span.what == METRICS:
            refuse_future(came_ms, self._now_ms)
            self._newest_ms[at] = came_ms
            report = standby_report(value, self._jobs)
            if report is not None:
                self._keep_report(at, offset, came_ms, report)
            return
        found, key = self._found[at], message.key()
        if span.what == STATE:
            found.read_state(key, value, came_ms)
        elif span.what == COORDINATOR:
            found.read_stream(key, value, came_ms)
        else:
            found.read_checkpoint(key, value, came_ms, offset)

    def _keep_report(self, at: Partition, offset: int, came_ms: int, report: TaskSample) -> None:
        about, host = (at, report.job, report.task_name, report.host), report.host
        if about not in self._reports:
            self._reports[about] = deque(maxlen=PACED_BY)
        process, order = report.execution_id or host, (came_ms, offset)
        said = Said("metrics", order, report.at_ms, report.offsets, host, process, came_ms)
        self._reports[about].append(said)
        self._last[about] = report
        self._held += 1
        if self._held > _HELD_AT_ONCE:
            self._pack_reports()

    def _pack_reports(self) -> None:
        """Return the size of a replica's records by its newest report alone."""
        every = defaultdict[JobId, Found](Found)
        for about, reports in self._reports.items():
            _, job, task, _ = about
            reports.append(reports.pop()._replace(record_bytes=self._last[about].record_bytes))
            every[job].reports.setdefault(task, []).extend(reports)
        self._pieces += [(job, found.packed()) for job, found in every.items()]
        self._reports.clear()
        self._last.clear()
        self._held = 0


def found_in_zookeeper(connection: Connection, at_ms: int) -> Found:
    """Read all that ZooKeeper has of a standalone group now.

    Raises `Unreachable` when ZooKeeper doesn't answer, `InvalidInput` when it has no such group.
    """
    from samza_dagster.client.group import GroupSession  # late: without kazoo no group

    with closing(GroupSession(connection)) as session:
        reader = session.reader()
        view = reader.view(connection.job_name, connection.job_id, 0)
        config = {**reader.config(), "app.run.id": view.deployment_id or ""}
        return found_of(view, config, reader.changelog_partitions(), at_ms)


def found_of(
    view: JobView, config: Mapping[str, str], partitions: Mapping[str, int], at_ms: int
) -> Found:
    """Return a group's settings, the tasks that registered processors have, and where these are."""
    found = Found({name: value for name, value in config.items() if is_needed(name)})
    for processor, member in sorted(view.members.items()):
        if member.host is not None:
            found.hosts[processor] = member.host, at_ms
        for task in member.tasks:
            found.containers[task] = processor
            found.modes[task] = view.processors[task].mode.value
            partition = partitions.get(view.group_of(task))
            if partition is not None:
                found.partitions[task] = partition
    return found
