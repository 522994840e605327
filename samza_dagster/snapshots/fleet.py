"""One snapshot of many jobs: where everything is, how far behind each replica, what a host's death would cost.

What was read is kept, in table `facts`, in one transaction with how far: a run that is killed at any
point leaves the next one neither short nor double, and each record is read once. A topic that was made
anew has another id, and is read from its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from samza_dagster.errors import InvalidInput, SamzaDagsterError, Unreachable
from samza_dagster.lag import Bounds, Errors, Speeds, speeds
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.lag_topic import publish_fleet
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic, require_owner, state_topic
from samza_dagster.snapshots import facts, group
from samza_dagster.snapshots.history import history
from samza_dagster.snapshots.job import window_ms
from samza_dagster.snapshots.job_step import Asked, job_rows, restored
from samza_dagster.snapshots.readiness import CONTAINERS, PUBLISHED, STARTS
from samza_dagster.snapshots.schemas import DATASETS, TABLES
from samza_dagster.snapshots.snapshot import FleetSnapshot
from samza_dagster.snapshots.source import (
    CHECKPOINTS,
    COORDINATOR,
    KEPT_REPORTS,
    METRICS,
    STATE,
    Span,
    read_facts,
)
from samza_dagster.snapshots.tables import Mark, Tables, local_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JobId = tuple[str, str]
At = tuple[str, int]
_KEY = "topic_id, partition, kind, job_name, job_id, name, source"
START_S = 10.0
"""From the start of a container's process until it restores, while none was seen."""
RESTORING = "lag_records > apply_per_s AND apply_per_s > write_per_s"
"""A replica that catches up: what it applies tells how fast a restore goes."""
FOLDED_AT = 40
"""Files of table `facts`, of which each snapshot adds some."""
_DAY_MS = 86_400_000


def take_fleet(
    spark: SparkSession,
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
    cluster = KafkaCluster.of(_one_cluster(jobs))
    with closing(KafkaJobTopics(cluster)) as topics:
        return _Taking(spark, jobs, at, store, topics, bounds, clock).take()


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
        spark: SparkSession,
        jobs: Sequence[Connection],
        at: datetime,
        store: Tables,
        topics: KafkaJobTopics,
        bounds: Bounds,
        clock: Callable[[], float],
    ) -> None:
        self._bounds = bounds
        self._fresh: dict[At, Span] = {}
        self._spark, self._at, self._store, self._topics = spark, at, store, topics
        self._jobs = {(job.job_name, job.job_id): job for job in jobs}
        self._servers, self._client = jobs[0].bootstrap_servers, jobs[0].client_config
        self._at_ms = int(at.timestamp() * 1000)
        self._unread: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._clock, self._lap_began = clock, clock()

    def take(self) -> FleetSnapshot:
        """Reads, judges, writes."""
        table = self._store.opened("facts")
        marks = self._store.marks(table)
        read_to = {at: mark.offset for at, mark in marks.items()}
        spans = self._spans_of_jobs(read_to)
        in_table = self._store.read(self._spark, "facts", table)
        kept = in_table.union(self._groups())
        own = self._facts(spans).persist()
        self._lap("offsets")
        settings = self._settings(kept.union(own))
        self._lap("coordinator_streams")
        shared = self._spans_of_metrics(settings, read_to)
        fresh = own.union(self._facts(shared)).persist()
        marks |= self._read_now(fresh, (*spans, *shared))
        self._lap("reports")
        fresh = fresh.where(f"kind NOT IN ('{facts.UNREAD}', '{facts.NEWEST}')")
        if spans or shared:
            self._store.add(self._spark, "facts", fresh.union(self._marked(marks)))
        if len(table.file_uris()) > FOLDED_AT:
            self._fold(table, in_table)
        self._lap("keep")
        past = history(self._store, self._at)
        asked = self._asked_of_workers(marks, past.past.errors)
        self._lap("history")
        judged = self._judged(newest(kept.union(fresh)), asked).persist()
        counted = _counted(judged)
        self._lap("judge")
        known = speeds(
            (*past.paces, *_seen(counted, "changelog_lag")), _seen(counted, STARTS), START_S
        )
        restores = self._restores(judged, asked, known).persist()
        counted += _counted(restores)
        self._lap("forecast")
        counts = {row["dataset"]: row["rows"] for row in counted}
        every = judged.union(restores)
        frames = {
            name: every.where(f"dataset = '{name}'").select([c.name for c in TABLES[name]])
            for name in (*DATASETS, "snapshots")
        }
        filled = [dataset for dataset in DATASETS if counts.get(dataset)]
        with ThreadPoolExecutor() as side_by_side:
            list(side_by_side.map(partial(self._add, frames), filled))
        self._add(frames, "snapshots")  # now they are whole
        self._lap("write")
        unpublished = self._publish(judged)
        self._lap("publish")
        return FleetSnapshot(
            self._at,
            {name: frames[name] for name in DATASETS},
            {name: counts.get(name, 0) for name in DATASETS},
            sum(row["unreadable"] or 0 for row in counted),
            self._unread,
            unpublished,
            past.past,
            self._seconds,
            (judged, restores, fresh, own),
        )

    def _publish(self, judged: DataFrame) -> dict[str, str]:
        rows = judged.where(f"dataset = '{PUBLISHED}'")
        records: dict[JobId, list[tuple[bytes, bytes]]] = {}
        # A part at a time: a fleet's are more than the driver's heap may have room for.
        for row in rows.select("job_name", "job_id", "processor_id", "why").toLocalIterator():
            mine = records.setdefault((row["job_name"], row["job_id"]), [])
            mine.append((row["processor_id"].encode(), row["why"].encode()))
        try:
            failed = publish_fleet(next(iter(self._jobs.values())), records) if records else {}
        except SamzaDagsterError as error:
            failed = dict.fromkeys(records, error)
        return {"/".join(job): str(error) for job, error in failed.items()}

    def _add(self, frames: Mapping[str, DataFrame], dataset: str) -> None:
        self._store.add(self._spark, dataset, frames[dataset], self._at)

    def _lap(self, part: str) -> None:
        now = self._clock()
        self._seconds[part] = round(now - self._lap_began, 3)
        self._lap_began = now

    def _spans_of_jobs(self, read_to: Mapping[At, int]) -> list[Span]:
        """What is new in coordinator streams, checkpoints and states, asked of the brokers for all jobs at once."""
        streams = {
            job.coordinator_stream_topic: it for it, job in self._jobs.items() if not job.zookeeper
        }
        checkpoints = {checkpoint_topic(*it): it for it in self._jobs}
        states = {state_topic(*it): it for it in streams.values()}
        ranges = self._asked({*streams, *checkpoints, *states})
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

    def _groups(self) -> DataFrame:
        """What ZooKeeper knows of standalone jobs: all of it each time."""
        rows: list[dict[str, Any]] = []
        for it, job in list(self._jobs.items()):
            if job.zookeeper:
                try:
                    rows += group.group_facts(job, self._at_ms)
                except SamzaDagsterError as error:
                    self._fail(it, error)
                self._ids[group.topic_id(job)] = group.topic_id(job)
        return local_rows(self._spark, "facts", rows)

    def _fail(self, job: JobId, error: SamzaDagsterError) -> None:
        """The others go on without it."""
        self._unread["/".join(job)] = str(error)
        del self._jobs[job]
        if not self._jobs:
            raise error

    def _asked(self, topics: set[str]) -> Ranges:
        self._ids |= self._topics.ids(topics)
        ranges = self._topics.offset_ranges(topics, committed_only=True)
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

    def _facts(self, spans: Sequence[Span]) -> DataFrame:
        return read_facts(self._spark, self._servers, self._client, spans, self._at_ms)

    def _settings(self, known: DataFrame) -> dict[JobId, dict[str, str]]:
        """Of each job what names its metrics topics, and whose its stream is."""
        wanted = "kind = 'config' AND (name LIKE 'metrics.%' OR name IN ('job.name', 'job.id'))"
        found: dict[JobId, dict[str, str]] = {}
        current = set(self._ids.values())
        # A few rows of each job: sorted here, that spares Spark a shuffle.
        for row in sorted(known.where(wanted).collect(), key=lambda row: row["offset"]):
            if row["topic_id"] in current:
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

    def _read_now(self, fresh: DataFrame, spans: Sequence[Span]) -> dict[At, Mark]:
        """How far each partition is read now; one of which a part couldn't be read isn't."""
        lost: set[At] = set()
        newest_ms: dict[At, int] = {}
        for row in fresh.where(f"kind IN ('{facts.UNREAD}', '{facts.NEWEST}')").collect():
            at = row["topic_id"], row["partition"]
            if row["kind"] == facts.UNREAD:
                lost.add(at)
                self._unread[row["topic"]] = row["text"]
            else:
                newest_ms[at] = max(row["came_ms"], newest_ms.get(at, 0))
        done = {(one.topic_id, one.partition): one for one in spans}
        self._fresh = {at: one for at, one in done.items() if at not in lost}
        return {
            at: Mark(one.end, self._at_ms, newest_ms.get(at)) for at, one in self._fresh.items()
        }

    def _marked(self, marks: Mapping[At, Mark]) -> DataFrame:
        rows = [
            {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "partition": one.partition,
                "offset": one.end,
                "came_ms": marks[at].read_ms,
                "kind": facts.READ,
                "name": "",
                "source": "",
                "at_ms": marks[at].newest_ms,
            }
            for at, one in self._fresh.items()
        ]
        return local_rows(self._spark, "facts", rows)

    def _fold(self, table: Any, in_table: DataFrame) -> None:
        """Of what was read by former snapshots, what counts still, in the place of all of it."""
        from deltalake.exceptions import CommitFailedError

        counts = newest(in_table).where(
            f"NOT (kind = '{facts.REPORT}' AND came_ms < {self._at_ms - _DAY_MS})"
            f" AND (text IS NOT NULL OR kind = '{facts.READ}')"
        )
        with suppress(CommitFailedError):  # another snapshot is at it
            self._store.replace(self._spark, "facts", table, counts)

    def _asked_of_workers(self, marks: Mapping[At, Mark], errors: Errors | None) -> Asked:
        newest_ms: dict[str, int] = {}
        names = {ident: topic for topic, ident in self._ids.items()}
        for (ident, _), mark in marks.items():
            if mark.newest_ms is not None and ident in names:
                # Nothing has come since it was read: that counts by the reader's own clock.
                now_ms = mark.newest_ms + self._at_ms - mark.read_ms
                newest_ms[names[ident]] = max(now_ms, newest_ms.get(names[ident], 0))
        return Asked(
            self._servers,
            dict(self._client),
            frozenset(self._jobs),
            frozenset(self._ids.values()),
            {it: why for it in self._jobs if (why := self._why_unread(it))},
            frozenset(self._unread),
            newest_ms,
            self._at_ms,
            self._bounds,
            errors,
        )

    def _judged(self, known: DataFrame, asked: Asked) -> DataFrame:
        """All that one look at each job tells; columns that a dataset hasn't are null."""
        rows: Any = known.repartition(asked.parts, "job_name", "job_id").sortWithinPartitions(
            "job_name", "job_id"
        )
        return rows.mapInArrow(job_rows(asked), asked.ddl)

    def _restores(self, judged: DataFrame, asked: Asked, known: Speeds) -> DataFrame:
        """What restores would take, at the speeds that were seen."""
        containers: Any = judged.where(f"dataset = '{CONTAINERS}'")
        return containers.mapInArrow(restored(asked, known), asked.ddl)

    def _why_unread(self, job: JobId) -> str | None:
        own = (
            self._jobs[job].coordinator_stream_topic,
            checkpoint_topic(*job),
            state_topic(*job),
        )
        return "; ".join(self._unread[topic] for topic in own if topic in self._unread) or None


def _counted(rows: DataFrame) -> list[Any]:
    """Of each dataset how many rows it has, how many records weren't read, and what was seen of speeds."""
    from pyspark.sql.functions import expr

    restoring = f"dataset = 'changelog_lag' AND {RESTORING}"
    found = {
        "rows": "count(*)",
        "unreadable": "sum(unreadable)",
        "seen": f"collect_list(CASE WHEN dataset = '{STARTS}' THEN struct(host, restore_s AS value)"
        f" WHEN {restoring} THEN struct(host, apply_per_s AS value) END)",
    }
    columns = [expr(one).alias(name) for name, one in found.items()]
    return rows.groupBy("dataset").agg(*columns).collect()


def _seen(counted: Sequence[Any], dataset: str) -> list[tuple[str, float]]:
    return [
        (one["host"], one["value"])
        for row in counted
        if row["dataset"] == dataset
        for one in row["seen"]
        if one["host"] is not None
    ]


def newest(known: DataFrame) -> DataFrame:
    """Of each fact the newest, of a replica's reports some; the same record may have been read twice."""
    ranked = known.selectExpr(
        "*", f"dense_rank() OVER (PARTITION BY {_KEY} ORDER BY offset DESC) AS age"
    )
    return ranked.where(
        f"age <= CASE WHEN kind = '{facts.REPORT}' THEN {KEPT_REPORTS} ELSE 1 END"
    ).drop("age")


def _never_deployed(job: JobId, stream: str, servers: str) -> InvalidInput:
    return InvalidInput(
        f"a snapshot of job {job[0]!r}, id {job[1]!r}",
        seen=f"no topic {stream} on {servers}",
        fix="the name and id of a job that has been deployed on this Kafka",
    )
