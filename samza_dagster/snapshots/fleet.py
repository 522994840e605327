"""One snapshot of many jobs: where everything is, how far behind each replica, what a host's death would cost.

What was read is kept, in table `facts`, in one transaction with how far: a run that is killed at any
point leaves the next one neither short nor double, and each record is read once. A topic that was made
anew has another id, and is read from its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from deltalake.exceptions import CommitFailedError

from samza_dagster.errors import InvalidInput, SamzaDagsterError, Unreachable
from samza_dagster.lag import Bounds, Errors, speeds
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.lag_topic import publish_fleet
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic, require_owner, state_topic
from samza_dagster.snapshots import facts, group
from samza_dagster.snapshots.arrow import compute
from samza_dagster.snapshots.history import history
from samza_dagster.snapshots.job import window_ms
from samza_dagster.snapshots.job_step import LEAST_JOBS, Asked, Judged, parts
from samza_dagster.snapshots.schemas import DATASETS
from samza_dagster.snapshots.snapshot import FleetSnapshot
from samza_dagster.snapshots.source import (
    CHECKPOINTS,
    COORDINATOR,
    METRICS,
    STATE,
    Found,
    Readers,
    Span,
    marked,
)
from samza_dagster.snapshots.tables import File, Mark, Tables, job_names, paths_of
from samza_dagster.snapshots.workers import Workers

JobId = tuple[str, str]
At = tuple[str, int]
START_S = 10.0
"""From the start of a container's process until it restores, while none was seen."""
MOST_RESTORES = 100_000
"""Containers × hosts of the fleet, up to which each is results of each; beyond, of the hosts of its own job and any other."""
FOLDED_AT = 40
"""Files of table `facts`, of which each snapshot adds some."""


def take_fleet(
    workers: Workers,
    jobs: Sequence[Connection],
    at: datetime,
    store: Tables,
    *,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    clock: Callable[[], float] = time.monotonic,
) -> FleetSnapshot:
    """Takes a snapshot of these jobs, all on one Kafka cluster, adds it to the tables and publishes it.

    `bounds` say when a standby is ready. Reads what was written since the last one that these tables
    hold. What is published is the newest readiness of each standby, in its job's lag topic, for who
    decides by it. A job that can't be read is in `unread`, one that can't be published in `unpublished`;
    when none can be read, that is raised: `InvalidInput` for a job that was never deployed, `Refused` for one whose
    stream is another job's, `Unreachable` when no broker answers.
    """
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)  # as rows have it: readers go by it
    cluster = KafkaCluster.of(_one_cluster(jobs))
    with closing(KafkaJobTopics(cluster)) as topics:
        return _Taking(workers, jobs, at, store, topics, bounds, clock).take()


def _one_cluster(jobs: Sequence[Connection]) -> Connection:
    servers = sorted({job.bootstrap_servers for job in jobs})
    if len(servers) != 1:
        raise InvalidInput(
            "a snapshot of a fleet",
            seen=f"{len(servers)} Kafka clusters: {', '.join(servers) or 'no job'}",
            fix="a snapshot for each of them",
        )
    return jobs[0]


class _Taking:
    """A snapshot on its way."""

    def __init__(
        self,
        workers: Workers,
        jobs: Sequence[Connection],
        at: datetime,
        store: Tables,
        topics: KafkaJobTopics,
        bounds: Bounds,
        clock: Callable[[], float],
    ) -> None:
        self._bounds = bounds
        self._workers, self._at, self._store, self._topics = workers, at, store, topics
        self._jobs = {(job.job_name, job.job_id): job for job in jobs}
        self._servers, self._client = jobs[0].bootstrap_servers, jobs[0].client_config
        self._at_ms = int(at.timestamp() * 1000)
        self._readers = Readers(self._servers, self._client, store, self._at_ms)
        self._unread: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._clock, self._lap_began = clock, clock()

    def take(self) -> FleetSnapshot:
        """Reads, judges, writes."""
        with ThreadPoolExecutor() as side_by_side:
            return self._taken(side_by_side)

    def _taken(self, side_by_side: ThreadPoolExecutor) -> FleetSnapshot:
        """What is asked of the brokers and what of the tables don't wait for each other."""
        remembered = side_by_side.submit(history, self._store, self._at)
        ranges = side_by_side.submit(self._asked_of_jobs)
        table = self._store.opened("facts")
        marks = self._store.marks(table)
        read_to = {at: mark.offset for at, mark in marks.items()}
        spans = self._spans_of_jobs(ranges.result(), read_to)
        groups = self._groups()
        self._lap("offsets")
        own = self._readers.read(self._workers, spans)
        self._lap("coordinator_streams")
        settings = self._settings(table, [*groups, *(row for one in own for row in one.settings)])
        shared = self._spans_of_metrics(settings, read_to)
        found = [*own, *self._readers.read(self._workers, shared)]
        read_now = self._read_now(found, (*spans, *shared))
        self._lap("reports")
        fresh = [file for one in found for file in one.files]
        if read_now:
            self._store.commit("facts", [*fresh, self._store.write("facts", marked(read_now))])
        marks |= {(one.topic_id, one.partition): mark for one, mark in read_now.items()}
        self._lap("keep")
        past = remembered.result()
        asked = self._asked_of_workers(marks, table, fresh, groups, past.past.errors)
        self._lap("history")
        results = self._judged(asked, table, past.paces)
        unpublished = side_by_side.submit(self._publish, results.published)
        list(side_by_side.map(partial(self._add, results.files), DATASETS))
        self._add(results.files, "snapshots")  # now they are whole
        self._lap("write")
        failed = unpublished.result()
        self._lap("publish")
        return FleetSnapshot(
            self._at,
            self._store,
            results.files,
            results.unreadable,
            self._unread,
            failed,
            past.past,
            self._seconds,
        )

    def _publish(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        records: dict[JobId, list[tuple[bytes, bytes]]] = {}
        for row in rows:
            mine = records.setdefault((row["job_name"], row["job_id"]), [])
            mine.append((row["processor_id"].encode(), row["why"].encode()))
        try:
            failed = publish_fleet(next(iter(self._jobs.values())), records) if records else {}
        except SamzaDagsterError as error:
            failed = dict.fromkeys(records, error)
        return {"/".join(job): str(error) for job, error in failed.items()}

    def _add(self, files: Sequence[File], dataset: str) -> None:
        self._store.commit(dataset, [one for one in files if one.table == dataset])

    def _lap(self, part: str) -> None:
        now = self._clock()
        self._seconds[part] = round(now - self._lap_began, 3)
        self._lap_began = now

    def _own_topics(self) -> tuple[dict[str, JobId], dict[str, JobId], dict[str, JobId]]:
        """Coordinator streams, checkpoints and states."""
        streams = {
            job.coordinator_stream_topic: it for it, job in self._jobs.items() if not job.zookeeper
        }
        checkpoints = {checkpoint_topic(*it): it for it in self._jobs}
        return streams, checkpoints, {state_topic(*it): it for it in streams.values()}

    def _asked_of_jobs(self) -> Ranges:
        """Of the brokers, for all jobs at once."""
        return self._asked(set(chain.from_iterable(self._own_topics())))

    def _spans_of_jobs(self, ranges: Ranges, read_to: Mapping[At, int]) -> list[Span]:
        """What is new in the jobs' own topics."""
        streams, checkpoints, states = self._own_topics()
        asked = {topic: span for (topic, _), span in ranges.items()}
        for stream, it in streams.items():
            span = asked.get(stream)
            if span is None:
                self._fail(it, _never_deployed(it, stream, self._servers))
            elif isinstance(span, Unreachable):
                self._fail(it, span)
        return [
            *self._spans(ranges, COORDINATOR, streams, read_to),
            *self._spans(ranges, CHECKPOINTS, checkpoints, read_to),
            *self._spans(ranges, STATE, states, read_to),
        ]

    def _groups(self) -> list[dict[str, Any]]:
        """What ZooKeeper knows of standalone jobs: all of it each time."""
        rows: list[dict[str, Any]] = []
        for it, job in list(self._jobs.items()):
            if job.zookeeper:
                try:
                    rows += group.group_facts(job, self._at_ms)
                except SamzaDagsterError as error:
                    self._fail(it, error)
                self._ids[group.topic_id(job)] = group.topic_id(job)
        return rows

    def _fail(self, job: JobId, error: SamzaDagsterError) -> None:
        """The others go on without it."""
        self._unread["/".join(job)] = str(error)
        del self._jobs[job]
        if not self._jobs:
            raise error

    def _asked(self, topics: set[str]) -> Ranges:
        ranges, ids = self._topics.ranges_and_ids(topics, committed_only=True)
        self._ids |= ids
        for (topic, _), span in ranges.items():
            if isinstance(span, Unreachable):
                self._unread[topic] = str(span)
        return ranges

    def _spans(
        self,
        ranges: Ranges,
        what: str,
        jobs: Mapping[str, JobId | None],
        read_to: Mapping[At, int],
    ) -> list[Span]:
        return [
            Span(topic, partition, start, span.end, self._ids[topic], what, jobs.get(topic))
            for (topic, partition), span in sorted(ranges.items())
            if topic in jobs and isinstance(span, OffsetRange)
            and (start := max(span.start, read_to.get((self._ids[topic], partition), 0))) < span.end
        ]  # fmt: skip

    def _settings(self, table: Any, fresh: Iterable[dict[str, Any]]) -> dict[JobId, dict[str, str]]:
        """Of each job what names its metrics topics, and whose its stream is."""
        columns = ["topic_id", "offset", "kind", "job_name", "job_id", "name", "text"]
        config = compute.field("kind") == facts.CONFIG
        known = [*self._store.read("facts", paths_of(table), columns, config), *fresh]
        found: dict[JobId, dict[str, str]] = {}
        current = set(self._ids.values())
        for row in sorted(known, key=itemgetter("offset")):
            named = row["kind"] == facts.CONFIG and facts.names_topics(row["name"])
            if named and row["topic_id"] in current:
                settings = found.setdefault((row["job_name"], row["job_id"]), {})
                settings.pop(row["name"], None)
                if row["text"] is not None:
                    settings[row["name"]] = row["text"]
        for it in list(self._jobs):
            try:
                require_owner(found.get(it, {}), *it)
            except SamzaDagsterError as error:
                self._fail(it, error)
        return found

    def _spans_of_metrics(
        self,
        settings: Mapping[JobId, Mapping[str, str]],
        read_to: Mapping[At, int],
    ) -> list[Span]:
        """What is new in the topics of the jobs' reporters; one that wasn't read yet, as far as it matters."""
        intervals: dict[str, int] = {}
        for it in self._jobs:
            for topic, seconds in metrics_topics(settings.get(it, {})).items():
                intervals[topic] = max(seconds, intervals.get(topic, 0))
        ranges = self._asked(set(intervals))
        anew = {
            (topic, partition, self._at_ms - window_ms(1000 * intervals[topic])): span.end
            for (topic, partition), span in ranges.items()
            if isinstance(span, OffsetRange) and (self._ids[topic], partition) not in read_to
        }
        first = self._topics.offsets_since(anew) if anew else {}
        since = {(self._ids[at[0]], at[1]): first.get(at, end) for at, end in anew.items()}
        return self._spans(ranges, METRICS, dict.fromkeys(intervals), {**read_to, **since})

    def _read_now(self, found: Iterable[Found], spans: Sequence[Span]) -> dict[Span, Mark]:
        """How far each partition is read now; one of which a part couldn't be read isn't."""
        lost: set[At] = set()
        newest_ms: dict[At, int] = {}
        for one in found:
            for span, why in one.unread:
                lost.add((span.topic_id, span.partition))
                self._unread[span.topic] = why
            for span, came_ms in one.newest_ms:
                at = span.topic_id, span.partition
                newest_ms[at] = max(came_ms, newest_ms.get(at, 0))
        return {
            one: Mark(one.end, self._at_ms, newest_ms.get(at))
            for one in spans
            if (at := (one.topic_id, one.partition)) not in lost
        }

    def _asked_of_workers(
        self,
        marks: Mapping[At, Mark],
        table: Any,
        fresh: Sequence[File],
        groups: Sequence[dict[str, Any]],
        errors: Errors | None,
    ) -> Asked:
        newest_ms: dict[str, int] = {}
        names = {ident: topic for topic, ident in self._ids.items()}
        for (ident, _), mark in marks.items():
            if mark.newest_ms is not None and ident in names:
                # Nothing has come since it was read: that counts by the reader's own clock.
                now_ms = mark.newest_ms + self._at_ms - mark.read_ms
                newest_ms[names[ident]] = max(now_ms, newest_ms.get(names[ident], 0))
        kept = paths_of(table)
        return Asked(
            self._store,
            self._servers,
            dict(self._client),
            frozenset(self._jobs),
            frozenset(self._ids.values()),
            kept,
            [file.path for file in fresh],
            groups,
            len(kept) > FOLDED_AT,
            {it: why for it in self._jobs if (why := self._why_unread(it))},
            frozenset(self._unread),
            newest_ms,
            self._at_ms,
            self._bounds,
            errors,
        )

    def _judged(self, asked: Asked, table: Any, paces: Sequence[tuple[str, float]]) -> Judged:
        """What workers tell of the jobs; folds what was kept, when it is time."""
        names = {name for name, _ in asked.jobs}
        if asked.folds:
            names |= job_names(table)
        dealt = parts(names, self._workers.share(len(names), LEAST_JOBS))
        results = Judged.of(self._workers.each(asked.judged, dealt))
        self._lap("judge")
        known = speeds((*paces, *results.restoring), results.starts, START_S)
        total = sum(one.rows for one in results.files if one.table == "container_locality")
        fleet = results.hosts if total * len(results.hosts) <= MOST_RESTORES else ()
        restores = self._workers.each(partial(asked.restores, known, fleet), results.packed)
        results.files += chain.from_iterable(restores)
        if asked.folds:
            with suppress(CommitFailedError):  # another snapshot is at it
                self._store.commit("facts", results.folded, instead_of=table)
        self._lap("forecast")
        return results

    def _why_unread(self, job: JobId) -> str | None:
        stream = self._jobs[job].coordinator_stream_topic
        own = (stream, checkpoint_topic(*job), state_topic(*job))
        return "; ".join(self._unread[topic] for topic in own if topic in self._unread) or None


def _never_deployed(job: JobId, stream: str, servers: str) -> InvalidInput:
    return InvalidInput(
        f"a snapshot of job {job[0]!r}, id {job[1]!r}",
        seen=f"no topic {stream} on {servers}",
        fix="the name and id of a job that has been deployed on this Kafka",
    )
