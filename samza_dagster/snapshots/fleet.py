"""A snapshot of many jobs: where everything is, how far behind each replica, the cost of a host's death.

A snapshot is a function of what Kafka holds when it is taken. It reads coordinator streams and our
coordinator's state from beginning to end, as every command does. It reads metrics and checkpoints from a
window on, and then the ends of changelogs. Nothing that was read is kept for the next one.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError, Unreachable
from samza_dagster.lag import Bounds
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.lag_topic import brokers_time_ms, publish_fleet
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic, require_owner, state_topic
from samza_dagster.snapshots.arrow import pa
from samza_dagster.snapshots.found import window_ms
from samza_dagster.snapshots.reading import (
    CHECKPOINTS,
    COORDINATOR,
    METRICS,
    NO_JOB,
    STATE,
    JobId,
    Readers,
    Span,
    found_in_zookeeper,
)
from samza_dagster.snapshots.rows import LEAST_JOBS, Judge, Judged, parts
from samza_dagster.snapshots.schemas import DATASETS, DAY, TABLES
from samza_dagster.snapshots.secrets import Secret
from samza_dagster.snapshots.tables import Tables, arrow_table, restores
from samza_dagster.snapshots.workers import Workers

TIDIED_EVERY_S = 86_400.0
CLOCK_TOLERATED = timedelta(minutes=1)


@dataclass(frozen=True)
class FleetSnapshot:
    """The seven datasets of some jobs at one time; columns as in `schemas.DATASETS`.

    `found` has them by name, each a `pyarrow.Table`; they are in `tables`. `unreadable` counts the records that
    couldn't be read. `unread` names the job or topic that couldn't be reached, and the reason: only its own facts
    are unknown. `unpublished` names the jobs for which the readiness of standbys couldn't be published.
    `seconds` says how long each part took.
    """

    at: datetime
    tables: Tables
    found: Mapping[str, Any]
    unreadable: int
    unread: Mapping[str, str]
    unpublished: Mapping[str, str]
    seconds: Mapping[str, float]

    @property
    def counts(self) -> dict[str, int]:
        """Rows, by dataset."""
        return {name: self.found[name].num_rows for name in DATASETS}

    def rows(self, dataset: str, limit: int | None = None) -> list[dict[str, Any]]:
        """A dataset as plain dicts, in order; of the first `limit`, by job. Times are aware, in UTC."""
        found = self.found[dataset].slice(0, limit).drop_columns([DAY]).to_pylist()
        return sorted(found, key=lambda row: [(one is not None, one) for one in row.values()])


def take_fleet(
    workers: Workers,
    jobs: Sequence[Connection],
    at: datetime | None,
    store: Tables,
    *,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    clock: Callable[[], float] = time.monotonic,
) -> FleetSnapshot:
    """Take a snapshot of these jobs, all on one Kafka cluster, add it to the tables and publish it.

    `at` is now, by the brokers' clock; None: the brokers tell it. `bounds` say when a standby is ready.
    It publishes the newest readiness of each standby, in its job's lag topic. A job that can't be read
    is in `unread`, one that can't be published in `unpublished`; when none can be read, that is raised.

    Raises `InvalidInput` for a job that was never deployed. Raises `Refused` if a job's stream is
    another job's, if tables aren't ours, or if a clock is wrong. Raises `Unreachable` when no broker
    answers, or the tables' place doesn't.
    """
    servers = sorted({job.bootstrap_servers for job in jobs})
    if len(servers) != 1:
        raise InvalidInput(
            "a snapshot of a fleet",
            seen=f"{len(servers)} Kafka clusters: {', '.join(servers) or 'no job'}",
            fix="a snapshot for each of them",
        )
    topics = KafkaJobTopics(KafkaCluster.of(jobs[0]))
    with closing(topics), ThreadPoolExecutor() as side_by_side:
        return _Taking(workers, jobs, at, store, topics, bounds, clock).take(side_by_side)


class _Taking:
    """A snapshot on its way."""

    def __init__(
        self,
        workers: Workers,
        jobs: Sequence[Connection],
        given: datetime | None,
        store: Tables,
        topics: KafkaJobTopics,
        bounds: Bounds,
        clock: Callable[[], float],
    ) -> None:
        self._workers, self._store, self._topics, self._bounds = workers, store, topics, bounds
        self._given = given
        self._jobs = {(job.job_name, job.job_id): job for job in jobs}
        self._servers = jobs[0].bootstrap_servers
        self._client = Secret.of("brokers", jobs[0].client_config)
        self._pieces = defaultdict[JobId, list[bytes]](list)
        self._configs: dict[JobId, dict[str, str]] = {}
        self._newest_ms: dict[str, int] = {}
        self._unread: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._clock, self._lap_began = clock, clock()

    def take(self, side_by_side: ThreadPoolExecutor) -> FleetSnapshot:
        """Read, judge, write. Requests to the brokers and to the tables don't wait for each other."""
        tables = side_by_side.map(self._store.found, TABLES)
        streams = {
            job.coordinator_stream_topic: it for it, job in self._jobs.items() if not job.zookeeper
        }
        states = {state_topic(*it): it for it in streams.values()}
        checkpoints = {checkpoint_topic(*it): it for it in self._jobs}
        ranges = self._asked({*streams, *states, *checkpoints})
        list(tables)  # before anything is made there: a place may not be ours
        self._refuse_undeployed(streams, ranges)
        self._read_groups()
        now = self._moment()
        remembered = side_by_side.submit(restores, self._store, self._at)
        self._lap("offsets")
        self._keep(self._spans(ranges, COORDINATOR, streams) + self._spans(ranges, STATE, states))
        self._refuse_foreign()
        self._lap("coordinator_streams")
        window = window_ms(self._configs.values())
        metrics = {topic for one in self._configs.values() for topic in metrics_topics(one)}
        ranges = {**ranges, **(self._asked(metrics) if metrics else {})}
        shared = dict.fromkeys(metrics, NO_JOB)
        spans = self._spans(ranges, CHECKPOINTS, checkpoints) + self._spans(ranges, METRICS, shared)
        self._keep(self._within(spans, self._at_ms - window))
        refuse_unconfirmed(now, max(self._newest_ms.values(), default=None), window)
        self._lap("reports")
        speeds = remembered.result()
        self._lap("history")
        # A reporter whose clock is ahead makes no other task silent.
        newest_ms = {topic: min(ms, self._at_ms) for topic, ms in self._newest_ms.items()}
        judge = Judge(
            *(self._store, self._servers, self._client, self._unread, newest_ms),
            *(self._at_ms, window, self._bounds, speeds),
        )
        pieces = {it: self._pieces[it] for it in (NO_JOB, *self._jobs) if it in self._pieces}
        dealt = parts(pieces, self._workers.share(len(pieces), LEAST_JOBS))
        judged = self._workers.each(judge.judged, dealt)
        self._lap("judge")
        unpublished = side_by_side.submit(self._publish, judged)
        found = {
            name: pa.concat_tables([arrow_table(name, ()), *(one.tables[name] for one in judged)])
            for name in TABLES
        }
        list(side_by_side.map(self._store.add, DATASETS, (found[name] for name in DATASETS)))
        self._store.add("snapshots", found["snapshots"])  # now they are whole
        self._lap("write")
        failed = unpublished.result()
        self._lap("publish")
        unreadable = sum(found["snapshots"]["unreadable"].to_pylist())
        return FleetSnapshot(
            self._at, self._store, found, unreadable, self._unread, failed, self._seconds
        )

    def _moment(self) -> Moment:
        """Ask the brokers' time with a topic of an existing job, since a wrong name would create none."""
        given, jobs = self._given, [*self._jobs.values()]
        now = moment(jobs, datetime.now(UTC)) if given is None else Moment(given)
        self._at_ms = int(now.at.timestamp() * 1000)
        self._at = datetime.fromtimestamp(self._at_ms / 1000, UTC)  # as rows have it
        self._readers = Readers(self._servers, self._client, self._at_ms, frozenset(self._jobs))
        return now

    def _lap(self, part: str) -> None:
        now = self._clock()
        self._seconds[part] = round(now - self._lap_began, 3)
        self._lap_began = now

    def _asked(self, topics: set[str]) -> Ranges:
        ranges = self._topics.offset_ranges(topics, committed_only=True)
        for (topic, _), span in ranges.items():
            if isinstance(span, Unreachable):
                self._unread[topic] = str(span)
        return ranges

    def _spans(self, ranges: Ranges, what: str, jobs: Mapping[str, JobId]) -> list[Span]:
        return [
            Span(topic, partition, span.start, span.end, what, jobs[topic])
            for (topic, partition), span in sorted(ranges.items())
            if topic in jobs and isinstance(span, OffsetRange) and span.start < span.end
        ]

    def _within(self, spans: Sequence[Span], since_ms: int) -> list[Span]:
        """From the first record of the window on, wherever there is one."""
        asked = {(one.topic, one.partition, since_ms) for one in spans}
        first = self._topics.offsets_since(asked) if asked else {}
        starts = (first.get((one.topic, one.partition, since_ms), one.end) for one in spans)
        found = zip(spans, starts, strict=True)
        return [replace(one, start=max(at, one.start)) for one, at in found if at < one.end]

    def _keep(self, spans: Sequence[Span]) -> None:
        """Read these ranges; report any that couldn't be read to its end. Its records count, except of a stream."""
        for read in self._readers.read(self._workers, spans):
            for job, piece in read.pieces:
                self._pieces[job].append(piece)
            self._configs |= read.configs
            for span, error in read.unread:
                self._unread[span.topic] = str(error)
                if span.what == COORDINATOR and span.job in self._jobs:
                    self._fail(span.job, error)
            for span, came_ms in read.newest_ms:
                self._newest_ms[span.topic] = max(came_ms, self._newest_ms.get(span.topic, 0))

    def _read_groups(self) -> None:
        """Standalone jobs are in ZooKeeper, which is read now."""
        now_ms = int((self._given or datetime.now(UTC)).timestamp() * 1000)
        for it, job in list(self._jobs.items()):
            if job.zookeeper:
                try:
                    found = found_in_zookeeper(job, now_ms)
                except SamzaDagsterError as error:
                    self._fail(it, error)
                    continue
                self._configs[it] = found.config
                self._pieces[it].append(found.packed())

    def _refuse_undeployed(self, streams: Mapping[str, JobId], ranges: Ranges) -> None:
        asked = {topic: span for (topic, _), span in ranges.items()}
        for stream, it in streams.items():
            span = asked.get(stream)
            if span is None:
                seen = f"no topic {stream} on {self._servers}"
                fix = "the name and id of a job that has been deployed on this Kafka"
                self._fail(it, InvalidInput(_asked_of(it), seen=seen, fix=fix))
            elif isinstance(span, Unreachable):
                self._fail(it, span)

    def _refuse_foreign(self) -> None:
        """Refuse foreign jobs: of two jobs with streams of one name, only the one that wrote the stream counts."""
        for it, job in list(self._jobs.items()):
            config = self._configs.get(it, {})
            try:
                if not (job.zookeeper or config.get("job.name")):
                    raise InvalidInput(
                        _asked_of(it),
                        seen=f"no job.name in topic {job.coordinator_stream_topic}: it is empty, or has"
                        " lost its first records",
                        fix="a deployment of the job; that topic with cleanup.policy=compact and no other",
                    )
                require_owner(config, *it)
            except SamzaDagsterError as error:
                self._fail(it, error)

    def _fail(self, job: JobId, error: SamzaDagsterError) -> None:
        """The others go on without it."""
        self._unread["/".join(job)] = str(error)
        del self._jobs[job]
        self._configs.pop(job, None)
        self._pieces.pop(job, None)
        if not self._jobs:
            raise error

    def _publish(self, judged: Sequence[Judged]) -> dict[str, str]:
        of = defaultdict[JobId, list[tuple[bytes, bytes | None]]](list)
        for job, key, value in chain.from_iterable(one.published for one in judged):
            of[job].append((key, value))
        try:
            failed = publish_fleet(next(iter(self._jobs.values())), of) if of else {}
        except SamzaDagsterError as error:
            failed = dict.fromkeys(of, error)
        return {"/".join(job): str(error) for job, error in failed.items()}


def _asked_of(job: JobId) -> str:
    return f"a snapshot of job {job[0]!r}, id {job[1]!r}"


class Moment(NamedTuple):
    """The time of a snapshot. `why_own`: why it is this machine's own; empty: the brokers told it."""

    at: datetime
    why_own: str = ""


def moment(jobs: Sequence[Connection], here: datetime) -> Moment:
    """Return the brokers' time, by a record in the lag topic of the first job that may be written.

    `here` is this machine's time: `Refused` where it is far from the brokers'. A login that may write no
    lag topic has its machine's own time, which reports have to confirm (`refuse_unconfirmed`).
    """
    why = ""
    for job in jobs:
        try:
            at = datetime.fromtimestamp(brokers_time_ms(job) / 1000, UTC)
        except InvalidInput as error:
            why = why or str(error)
            continue
        if abs(at - here) > CLOCK_TOLERATED:
            side = "ahead of" if here > at else "behind"
            raise Refused(
                "the time of a snapshot is the brokers'",
                seen=f"this machine's clock, {here:%Y-%m-%d %H:%M:%S} UTC, is {abs(at - here)} {side} theirs",
                fix="set the clock right",
            )
        return Moment(at)
    return Moment(here, why)


def refuse_unconfirmed(moment: Moment, newest_ms: int | None, window_ms: int) -> None:
    """Raise `Refused` where neither the brokers nor a report of the window confirm the time."""
    here_ms = moment.at.timestamp() * 1000
    if moment.why_own and (newest_ms is None or abs(here_ms - newest_ms) > window_ms):
        raise Refused(
            "the time of a snapshot is the brokers', or reports confirm it",
            seen=f"{moment.why_own}; and no report of the last {window_ms / 60_000:g} min by this machine's clock",
            fix="the right to write to the job's lag topic, by which the brokers tell the time",
        )


def stream(
    take: Callable[[], FleetSnapshot],
    tidy: Callable[[], object],
    every_s: float,
    on_error: Callable[[SamzaDagsterError], object],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[FleetSnapshot]:
    """Yield a snapshot each `every_s` seconds, or as soon as the one before is done.

    An error of the first one is raised, since nothing has shown yet that it works. Later errors, and
    those of tidying, go to `on_error`: a broker that is away comes back, and so does room on a disk.
    The tables are tidied after the first snapshot and once a day.
    """
    tidied, first = -math.inf, True
    while True:
        began = monotonic()
        try:
            snapshot = take()
        except SamzaDagsterError as error:
            if first:
                raise
            on_error(error)
        else:
            first = False
            if began - tidied >= TIDIED_EVERY_S:
                tidied = began
                try:
                    tidy()
                except SamzaDagsterError as error:
                    on_error(error)
            yield snapshot
        sleep(max(0.0, began + every_s - monotonic()))
