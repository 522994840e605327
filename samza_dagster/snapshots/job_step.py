"""From facts of many jobs to the rows of all datasets, in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from samza_dagster.lag import Bounds, Errors, Speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots import lag, readiness
from samza_dagster.snapshots.job import Job, window_ms
from samza_dagster.snapshots.lag import Row
from samza_dagster.snapshots.schemas import DATASETS, SNAPSHOTS, Column, ddl
from samza_dagster.snapshots.tables import Batch, batch_of

_JOBS_A_PART = 100
_REPLICAS_AT_ONCE = 20_000
"""Whose changelogs the brokers are asked for by one question."""


@dataclass(frozen=True)
class Asked:
    """What the workers must know: whose cluster, which jobs and topics, what wasn't read, and the time.

    `newest_ms`: topic → when its newest record came, by the brokers' clock, with the time for which no
    other has come since. `errors` are those of past forecasts, None while too few came true.
    """

    servers: str
    client_config: Mapping[str, str]
    jobs: frozenset[tuple[str, str]]
    topic_ids: frozenset[str]
    why_unread: Mapping[tuple[str, str], str]
    unread_topics: frozenset[str]
    newest_ms: Mapping[str, int]
    at_ms: int
    bounds: Bounds
    errors: Errors | None

    @property
    def parts(self) -> int:
        """Tasks of Spark."""
        return -(-len(self.jobs) // _JOBS_A_PART)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those of all datasets, each once: of one name are all of one type."""
        every = {c.name: c for columns in (*DATASETS.values(), SNAPSHOTS) for c in columns}
        return (Column("dataset", "string", "which one"), *every.values())

    @property
    def ddl(self) -> str:
        """Of the rows."""
        return ddl(self.columns)


def job_rows(asked: Asked) -> Callable[[Iterable[Batch]], Iterator[Batch]]:
    """A function for `mapInArrow` over facts that are sorted by job."""

    def judge(batches: Iterable[Batch]) -> Iterator[Batch]:
        cluster = KafkaCluster(asked.servers, asked.client_config)
        with closing(KafkaJobTopics(cluster)) as topics:
            for jobs in _at_once(_jobs(batches, asked)):
                yield batch_of(asked.columns, list(_judged(jobs, topics, asked)))

    return judge


def _jobs(batches: Iterable[Batch], asked: Asked) -> Iterator[Job]:
    """The jobs that were asked for, and what is known of no one job, as the job without a name."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for (name, ident), mine in groupby(rows, key=lambda row: (row["job_name"], row["job_id"])):
        if name is None or (name, ident) in asked.jobs:
            of_now = (row for row in mine if row["topic_id"] in asked.topic_ids)
            yield Job.of(name or "", ident or "", of_now)


def _at_once(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    taken: list[Job] = []
    replicas = 0
    for job in jobs:
        taken.append(job)
        replicas += len(job.tasks) * len(job.changelogs)
        if replicas >= _REPLICAS_AT_ONCE:
            yield taken
            taken, replicas = [], 0
    if taken:
        yield taken


def _judged(jobs: list[Job], topics: KafkaJobTopics, asked: Asked) -> Iterator[Row]:
    """The end of a changelog is asked for after all that tells what was applied of it."""
    names = {store.topic for job in jobs for store in job.changelogs}
    ranges: Ranges = topics.offset_ranges(names) if names else {}
    known = [
        (job, list(lag.replicas(job, ranges, asked.at_ms - window_ms(job.report_ms))))
        for job in jobs
    ]
    times = {
        at
        for job, every in known
        for at in (*lag.times_asked(every, job.patience_ms), *readiness.times_asked(every))
    }
    first_since = topics.offsets_since(times) if times else {}
    for job, every in known:
        stamp = {
            "snapshot_time": asked.at_ms,
            "job_name": job.name or None,
            "job_id": job.id or None,
            "deployment_id": job.deployment_id,
        }
        its_topics = {checkpoint_topic(job.name, job.id), *metrics_topics(job.config)}
        all_observed = not its_topics & asked.unread_topics
        lags = [
            (one, lag.lag_row(one, job.patience_ms, first_since, all_observed=all_observed))
            for one in every
        ]
        rows: Mapping[str, Iterable[Row]] = {
            "container_locality": lag.container_rows(job),
            "task_locality": lag.task_rows(job),
            "violations": lag.violation_rows(job),
            readiness.CONTAINERS: readiness.container_rows(job, lags),
            readiness.STARTS: [{"host": host, "restore_s": s} for host, s in job.starts],
            "snapshots": [
                {
                    "unreadable": job.unreadable,
                    "unread": asked.why_unread.get((job.name, job.id)),
                }
            ],
        }
        silences = job.silences_ms(asked.newest_ms)
        told = readiness.with_readiness(
            job, lags, first_since, asked.bounds, silences, asked.errors
        )
        for dataset, row in (
            *((name, row) for name, found in rows.items() for row in found),
            *told,
        ):
            yield {"dataset": dataset, **stamp, **row}


def restored(asked: Asked, speeds: Speeds) -> Callable[[Iterable[Batch]], Iterator[Batch]]:
    """A function for `mapInArrow` over the rows of containers: their restores, and what hosts' deaths cost."""

    def forecast(batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            rows: list[Row] = []
            for row in batch.to_pylist():
                stamp = {name: row[name] for name in ("job_name", "job_id", "deployment_id")}
                for dataset, found in readiness.restore_rows(row, speeds):
                    rows.append(
                        {"dataset": dataset, "snapshot_time": asked.at_ms, **stamp, **found}
                    )
            yield batch_of(asked.columns, rows)

    return forecast
