"""From what was found of many jobs to the rows of all datasets, in Spark's Python workers or in this process."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.lag import Bounds, Errors, Speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots import lag, readiness
from samza_dagster.snapshots.history import earlier_reports, last_heard_ms
from samza_dagster.snapshots.job import Job
from samza_dagster.snapshots.lag import Row
from samza_dagster.snapshots.reading import KEPT_REPORTS, JobId, unpacked
from samza_dagster.snapshots.tables import File, Tables

LEAST_JOBS, MOST_JOBS = 10, 100
"""Of a part: of fewer it isn't worth a worker, of more it takes a worker much memory."""
_REPLICAS_AT_ONCE = 20_000
"""Whose changelogs the brokers are asked for by one question."""
_ROWS_A_FILE = 100_000
Pieces = Mapping[JobId, Sequence[bytes]]


def parts(pieces: Pieces, size: int) -> list[Pieces]:
    """Deal jobs into parts of so many, or of as many as a part may have."""
    jobs, size = sorted(pieces), min(size, MOST_JOBS)
    return [{job: pieces[job] for job in jobs[at : at + size]} for at in range(0, len(jobs), size)]


@dataclass
class Judged:
    """The rows of some jobs, in files that are written and not committed, and what the others need of them.

    `unreadable` counts records. `restoring` are hosts and how many records a second a standby applies there,
    `starts` those and the seconds of a start. `published` are a job, and key and value of a record of its
    lag topic. `packed` is what restores start from, which only workers read.
    """

    files: list[File] = field(default_factory=list[File])
    unreadable: int = 0
    hosts: set[str] = field(default_factory=set[str])
    restoring: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    published: list[tuple[JobId, bytes, bytes]] = field(default_factory=list[Any])
    packed: list[bytes] = field(default_factory=list[bytes])

    @classmethod
    def of(cls, parts: Iterable[Judged]) -> Judged:
        """Put the parts together."""
        whole = cls()
        for part in parts:
            whole.files += part.files
            whole.unreadable += part.unreadable
            whole.hosts |= part.hosts
            whole.restoring += part.restoring
            whole.starts += part.starts
            whole.published += part.published
            whole.packed += part.packed
        return whole


@dataclass(frozen=True)
class Judge:
    """What the workers must know: whose cluster and tables, what wasn't read, and the time.

    `newest_ms`: topic → when its newest record came, by the brokers' clock. `errors` are those of past
    forecasts, None while too few came true. `window_ms` is how far back reports and commits were read.
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
    errors: Errors | None

    def judged(self, part: Pieces) -> Judged:
        """Judge a part's jobs; run by a worker."""
        results, files = Judged(), _Files(self.tables)
        containers: list[readiness.Restores] = []
        cluster = KafkaCluster(self.servers, self.client_config)
        every = (Job.of(*job, unpacked(pieces)) for job, pieces in part.items())
        with closing(KafkaJobTopics(cluster)) as topics:
            for jobs in _at_once(every):
                for job in jobs:
                    results.hosts |= job.known_hosts
                    results.starts += job.starts
                    results.unreadable += job.unreadable
                self._judge(jobs, topics, results, files, containers)
        results.files += files.written()
        results.packed.append(zlib.compress(pickle.dumps(containers), 1))
        return results

    def _judge(
        self,
        jobs: Sequence[Job],
        topics: KafkaJobTopics,
        results: Judged,
        files: _Files,
        containers: list[readiness.Restores],
    ) -> None:
        """The end of a changelog is asked for after all that tells what was applied of it."""
        names = {store.topic for job in jobs for store in job.changelogs}
        ranges: Ranges = topics.offset_ranges(names) if names else {}
        earlier = self._earlier(jobs)
        known = [
            (job, list(lag.replicas(job, ranges, earlier.get((job.name, job.id), {}))))
            for job in jobs
        ]
        heard_ms = self._last_heard_ms(known)
        times = {
            at
            for job, every in known
            for at in (*lag.times_asked(every, job.patience_ms), *readiness.times_asked(every))
        }
        first_since = topics.offsets_since(times) if times else {}
        for job, every in known:
            ident = job.name, job.id
            stamp = {
                "snapshot_time": self.at_ms,
                "job_name": job.name or None,
                "job_id": job.id or None,
                "deployment_id": job.deployment_id,
            }
            its_topics = {checkpoint_topic(*ident), *metrics_topics(job.config)}
            silences = job.silences_ms(self.newest_ms)
            lags: list[tuple[lag.Replica, Row]] = []
            for one in every:
                at_ms = heard_ms.get((*ident, one.task.name, one.store.store))
                silent = None if at_ms is None else max(0, self.at_ms - at_ms)
                if silent is not None:
                    silences[one.task.name] = silent
                lags.append(
                    (
                        one,
                        lag.lag_row(
                            *(one, job.patience_ms, first_since),
                            all_observed=not its_topics & self.unread_topics,
                            silent_ms=silent,
                        ),
                    )
                )
            standbys, published = readiness.with_readiness(
                job, lags, first_since, self.bounds, silences, self.errors
            )
            rows: Mapping[str, Iterable[Row]] = {
                "container_locality": lag.container_rows(job),
                "task_locality": lag.task_rows(job),
                "changelog_lag": [row for _, row in lags],
                "standby_readiness": standbys,
                "violations": lag.violation_rows(job, every),
                "snapshots": [{"unreadable": job.unreadable, "unread": self.why_unread.get(ident)}],
            }
            for dataset, row in ((name, row) for name, found in rows.items() for row in found):
                files.add(dataset, {**stamp, **row})
            containers += readiness.restores(job, stamp, lags)
            results.published += [(ident, *record) for record in published]
            results.restoring += [(row["host"], row["apply_per_s"]) for _, row in lags if _is_restoring(row)]  # fmt: skip

    def _earlier(self, jobs: Sequence[Job]) -> Mapping[JobId, Mapping[Any, Any]]:
        """What earlier snapshots had of reports that are too old to be read again and still tell a pace."""
        since_ms = self.at_ms - KEPT_REPORTS * max(job.report_ms for job in jobs)
        if since_ms >= self.at_ms - self.window_ms:
            return {}
        names = {job.name for job in jobs}
        return earlier_reports(
            self.tables, names, self.at_ms, since_ms, self.at_ms - self.window_ms
        )

    def _last_heard_ms(
        self, known: Sequence[tuple[Job, Sequence[lag.Replica]]]
    ) -> Mapping[tuple[str, str, str, str], int]:
        """Of replicas of which nothing is in the window, when they were heard by earlier snapshots."""
        unheard = {
            (job.name, job.id, one.task.name, one.store.store)
            for job, every in known
            for one in every
            if not one.said
        }
        return last_heard_ms(self.tables, unheard, self.at_ms) if unheard else {}

    def restores(self, speeds: Speeds, fleet: Collection[str], packed: bytes) -> list[File]:
        """Write what restores of a part's containers take, also on `fleet`, and what hosts' deaths cost."""
        files = _Files(self.tables)
        for one in pickle.loads(zlib.decompress(packed)):  # noqa: S301 - our own workers wrote it
            for dataset, row in readiness.restore_rows(one, speeds, fleet):
                files.add(dataset, row)
        return files.written()


class _Files:
    """Rows of datasets on their way into files."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: dict[str, list[Row]] = {}
        self._written: list[File] = []

    def add(self, dataset: str, row: Row) -> None:
        rows = self._rows.setdefault(dataset, [])
        rows.append(row)
        if len(rows) >= _ROWS_A_FILE:
            self._written.append(self._tables.write(dataset, self._rows.pop(dataset)))

    def written(self) -> list[File]:
        for dataset in [*self._rows]:
            self._written.append(self._tables.write(dataset, self._rows.pop(dataset)))
        return self._written


def _is_restoring(row: Row) -> bool:
    """Whether it tells how quickly a standby applies: it has more than a second's to apply, and gains."""
    lag_records, apply_per_s, write_per_s = (
        row.get(name) for name in ("lag_records", "apply_per_s", "write_per_s")
    )
    if lag_records is None or apply_per_s is None or write_per_s is None:
        return False
    return row["host"] is not None and lag_records > apply_per_s > write_per_s


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
