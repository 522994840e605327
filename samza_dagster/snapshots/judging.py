"""From what was found of many jobs to the rows of all datasets, in Spark's Python workers or in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from samza_dagster.lag import Bounds, Speeds, speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots.found import Found
from samza_dagster.snapshots.history import earlier_reports, last_heard_ms
from samza_dagster.snapshots.job import KEPT_REPORTS, Job
from samza_dagster.snapshots.reading import JobId
from samza_dagster.snapshots.rows import (
    Replica,
    Row,
    container_rows,
    lag_row,
    paces,
    replicas,
    restore_rows,
    task_rows,
    violation_rows,
    with_readiness,
)
from samza_dagster.snapshots.tables import Tables, arrow_table

LEAST_JOBS, MOST_JOBS = 10, 100
"""Of a part: of fewer it isn't worth a worker, of more it takes a worker much memory."""
START_S = 10.0
"""From the start of a container's process until it restores, while none was seen."""
Pieces = Mapping[JobId, Sequence[bytes]]


def parts(pieces: Pieces, size: int) -> list[Pieces]:
    """Deal jobs into parts of so many, or of as many as a part may have."""
    jobs, size = sorted(pieces), min(size, MOST_JOBS)
    return [{job: pieces[job] for job in jobs[at : at + size]} for at in range(0, len(jobs), size)]


class Judged(NamedTuple):
    """The rows of some jobs: table → `pyarrow.Table`; and a job, key and value of each record of its lag topic.

    `unreadable` counts records.
    """

    tables: Mapping[str, Any]
    published: Sequence[tuple[JobId, bytes, bytes]]
    unreadable: int


@dataclass(frozen=True)
class Judge:
    """What the workers must know: whose cluster and tables, what wasn't read, and the time.

    `newest_ms`: topic → when its newest record came, by the brokers' clock. `speeds` are those of past restores.
    `window_ms` is how far back reports and commits were read.
    """

    tables: Tables
    servers: str
    client_config: Mapping[str, str]
    why_unread: Mapping[JobId, str]
    unread_topics: frozenset[str]
    newest_ms: Mapping[str, int]
    at_ms: int
    window_ms: int
    bounds: Bounds
    speeds: Speeds

    def judged(self, part: Pieces) -> Judged:
        """Judge a part's jobs; run by a worker.

        The end of a changelog is asked for after all that tells what was applied of it.
        """
        jobs = [Job(*job, Found.of(map(Found.unpacked, pieces))) for job, pieces in part.items()]
        with closing(KafkaJobTopics(KafkaCluster(self.servers, self.client_config))) as topics:
            names = {store.topic for job in jobs for store in job.changelogs}
            ranges: Ranges = topics.offset_ranges(names) if names else {}
            earlier = self._earlier(jobs)
            known = [
                (job, list(replicas(job, ranges, earlier.get((job.name, job.id), {}))))
                for job in jobs
            ]
            times = {
                at
                for job, every in known
                for one in every
                for at in one.times_asked(job.patience_ms)
            }
            first_since = topics.offsets_since(times) if times else {}
        heard_ms = self._last_heard_ms(known)
        rows, published = defaultdict[str, list[Row]](list), list[tuple[JobId, bytes, bytes]]()
        for job, every in known:
            ident = job.name, job.id
            silent = {
                at: max(0, self.at_ms - heard_ms[(*ident, *at)])
                for one in every
                if (*ident, *(at := (one.task.name, one.store.store))) in heard_ms
            }
            its_topics = {checkpoint_topic(*ident), *metrics_topics(job.config)}
            observed = not its_topics & self.unread_topics
            lags = [
                (
                    one,
                    lag_row(
                        *(one, job.patience_ms, first_since),
                        all_observed=observed,
                        silent_ms=silent.get((one.task.name, one.store.store)),
                    ),
                )
                for one in every
            ]
            silences = {
                **job.silences_ms(self.newest_ms),
                **{t: ms for (t, _), ms in silent.items()},
            }
            standbys, records = with_readiness(job, lags, first_since, self.bounds, silences)
            published += [(ident, *record) for record in records]
            found: Mapping[str, Iterable[Row]] = {
                "container_locality": container_rows(job),
                "task_locality": task_rows(job),
                "changelog_lag": [row for _, row in lags],
                "standby_readiness": standbys,
                **restore_rows(job, lags, speeds_for(job, (row for _, row in lags), self.speeds)),
                "violations": violation_rows(job, every),
                "snapshots": [
                    {"unreadable": job.found.unreadable, "unread": self.why_unread.get(ident)}
                ],
            }
            stamp: Row = {
                "snapshot_time": self.at_ms,
                "job_name": job.name or None,
                "job_id": job.id or None,
                "deployment_id": job.deployment_id,
            }
            for table, its in found.items():
                rows[table] += [{**stamp, **row} for row in its]
        return Judged(
            {table: arrow_table(table, its) for table, its in rows.items()},
            published,
            sum(job.found.unreadable for job in jobs),
        )

    def _earlier(self, jobs: Sequence[Job]) -> Mapping[JobId, Mapping[Any, Any]]:
        """What earlier snapshots had of reports that are too old to be read again and still tell a pace."""
        since_ms = self.at_ms - KEPT_REPORTS * max(job.report_ms for job in jobs)
        before_ms = self.at_ms - self.window_ms
        if since_ms >= before_ms:
            return {}
        names = {job.name for job in jobs}
        return earlier_reports(self.tables, names, self.at_ms, since_ms, before_ms)

    def _last_heard_ms(
        self, known: Sequence[tuple[Job, Sequence[Replica]]]
    ) -> Mapping[tuple[str, str, str, str], int]:
        """Of replicas of which nothing is in the window, when they were heard by earlier snapshots."""
        unheard = {
            (job.name, job.id, one.task.name, one.store.store)
            for job, every in known
            for one in every
            if not one.said
        }
        return last_heard_ms(self.tables, unheard, self.at_ms) if unheard else {}


def speeds_for(job: Job, lags: Iterable[Row], past: Speeds) -> Speeds:
    """Return how fast restores of a job are.

    The pace is that of earlier snapshots (`past`); where these tell none, that at which the job's standbys apply now.
    The seconds of a start are the job's own.
    """
    known = speeds(paces(lags), job.found.starts, START_S)
    return known if past.pace is None else replace(known, pace=past.pace, pace_on=past.pace_on)
