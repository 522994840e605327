"""From facts of many jobs to the rows of all datasets, in Spark's Python workers."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from samza_dagster.lag import Bounds, Errors, Speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots import facts, lag, readiness
from samza_dagster.snapshots.arrow import compute
from samza_dagster.snapshots.job import Job, newest_reports, window_ms
from samza_dagster.snapshots.lag import Row
from samza_dagster.snapshots.tables import File, Tables

LEAST_JOBS, MOST_JOBS = 10, 100
"""Of a part: of fewer it isn't worth a worker, of more it takes a worker much memory."""
_REPLICAS_AT_ONCE = 20_000
"""Whose changelogs the brokers are asked for by one question."""
_ROWS_A_FILE = 100_000
_DAY_MS = 86_400_000


class Names(NamedTuple):
    """Of the jobs of one part, from the first to the last in their order; the first part has what is of no job."""

    first: str
    last: str
    is_first: bool


def parts(names: Iterable[str], size: int) -> list[Names]:
    """Jobs in parts of so many, or of as many as a part may have."""
    every, size = sorted(set(names)), min(size, MOST_JOBS)
    return [
        Names(every[at], every[at : at + size][-1], is_first=at == 0)
        for at in range(0, len(every), size)
    ]


@dataclass
class Judged:
    """What is told of the jobs of one part, or of some.

    `folded` are the files to stand in place of those that were kept, `unreadable` counts records, `restoring`
    are hosts and how many records a second a standby applies there, `starts` those and the seconds of a
    start. `packed` is what restores start from: as bytes of each part, which whoever gathers them doesn't read.
    """

    files: list[File] = field(default_factory=list[File])
    folded: list[File] = field(default_factory=list[File])
    unreadable: int = 0
    hosts: set[str] = field(default_factory=set[str])
    restoring: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    starts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    published: list[Row] = field(default_factory=list[Row])
    packed: list[bytes] = field(default_factory=list[bytes])

    @classmethod
    def of(cls, parts: Iterable[Judged]) -> Judged:
        """All of them together."""
        whole = cls()
        for part in parts:
            whole.files += part.files
            whole.folded += part.folded
            whole.unreadable += part.unreadable
            whole.hosts |= part.hosts
            whole.restoring += part.restoring
            whole.starts += part.starts
            whole.published += part.published
            whole.packed += part.packed
        return whole


@dataclass(frozen=True)
class Asked:
    """What the workers must know: whose cluster, which jobs and topics, what wasn't read, and the time.

    `kept` and `fresh` are files of table `facts`: of former snapshots and of this one; `groups` are
    facts that are in none. `folds`: what still counts of `kept` is written, to stand in its place.
    `newest_ms`: topic → when its newest record came, by the brokers' clock, with the time for which no
    other has come since. `errors` are those of past forecasts, None while too few came true.
    """

    tables: Tables
    servers: str
    client_config: Mapping[str, str]
    jobs: frozenset[tuple[str, str]]
    topic_ids: frozenset[str]
    kept: Sequence[str]
    fresh: Sequence[str]
    groups: Sequence[Row]
    folds: bool
    why_unread: Mapping[tuple[str, str], str]
    unread_topics: frozenset[str]
    newest_ms: Mapping[str, int]
    at_ms: int
    bounds: Bounds
    errors: Errors | None

    def judged(self, names: Names) -> Judged:
        """What a worker has found of a part's jobs; its files are written, and not committed."""
        results = Judged()
        kept = newest(self._read(self.kept, names))
        if self.folds:
            still = [row for row in kept if self._counts_still(row)]
            results.folded.append(self.tables.write("facts", still))
        of_groups = [row for row in self.groups if names.first <= row["job_name"] <= names.last]
        known = newest([*kept, *self._read(self.fresh, names), *of_groups])
        files, containers = _Files(self.tables), list[Row]()
        cluster = KafkaCluster(self.servers, self.client_config)
        with closing(KafkaJobTopics(cluster)) as topics:
            for jobs in _at_once(self._jobs(known)):
                for job in jobs:
                    results.hosts |= job.known_hosts
                    results.starts += job.starts
                    results.unreadable += job.unreadable
                for dataset, row in _judged(jobs, topics, self):
                    if dataset == readiness.CONTAINERS:
                        containers.append(row)
                    elif dataset == readiness.PUBLISHED:
                        results.published.append(row)
                    else:
                        files.add(dataset, row)
                        if dataset == "changelog_lag" and _is_restoring(row):
                            results.restoring.append((row["host"], row["apply_per_s"]))
        results.files += files.written()
        results.packed.append(zlib.compress(orjson.dumps(containers), 1))
        return results

    def restores(self, speeds: Speeds, fleet: Collection[str], packed: bytes) -> list[File]:
        """The files of what restores of a part's containers take, also on `fleet`, and of what hosts' deaths cost."""
        files = _Files(self.tables)
        for row in orjson.loads(zlib.decompress(packed)):
            stamp = {name: row[name] for name in ("job_name", "job_id", "deployment_id")}
            for dataset, found in readiness.restore_rows(row, speeds, fleet):
                files.add(dataset, {"snapshot_time": self.at_ms, **stamp, **found})
        return files.written()

    def _read(self, paths: Sequence[str], names: Names) -> Iterator[Row]:
        """Facts of a part's jobs; of others that lie between, only where all are folded."""
        job = compute.field("job_name")
        mine = (job >= names.first) & (job <= names.last)
        return self.tables.read(
            "facts", paths, rows=mine | job.is_null() if names.is_first else mine
        )

    def _counts_still(self, row: Row) -> bool:
        if row["kind"] == facts.REPORT:
            return row["came_ms"] >= self.at_ms - _DAY_MS
        return row["text"] is not None or row["kind"] == facts.READ

    def _jobs(self, rows: Iterable[Row]) -> Iterator[Job]:
        """The jobs that were asked for, and what is known of no one job, as the job without a name."""
        mine: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            it = row["job_name"], row["job_id"]
            if row["topic_id"] in self.topic_ids and (it[0] is None or it in self.jobs):
                mine.setdefault((it[0] or "", it[1] or ""), []).append(row)
        for it in sorted(mine):
            yield Job.of(*it, mine[it])


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


def newest(rows: Iterable[Row]) -> list[Row]:
    """Of each fact the newest, of a replica's reports some; the same record may have been read twice."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        about = (row["topic_id"], row["partition"], row["kind"], row["job_name"], row["job_id"], row["name"], row["source"])  # fmt: skip
        known = found.get(about)
        if known is None:
            found[about] = row
            continue
        former, last = sorted((known, row), key=itemgetter("offset"))
        if row["kind"] == facts.REPORT:
            last = {**last, "text": newest_reports(former["text"], last["text"])}
        found[about] = last
    return list(found.values())


def _is_restoring(row: Row) -> bool:
    """Whether it tells how quickly a standby applies: one that has more than a second's to apply, and gains."""
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


def _judged(jobs: list[Job], topics: KafkaJobTopics, asked: Asked) -> Iterator[tuple[str, Row]]:
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
            "snapshots": [
                {
                    "unreadable": job.unreadable,
                    "unread": asked.why_unread.get((job.name, job.id)),
                }
            ],
        }
        silences = job.silences_ms(asked.newest_ms)
        kept = readiness.with_readiness(
            job, lags, first_since, asked.bounds, silences, asked.errors
        )
        for dataset, row in (
            *((name, row) for name, found in rows.items() for row in found),
            *kept,
        ):
            yield dataset, {**stamp, **row}
