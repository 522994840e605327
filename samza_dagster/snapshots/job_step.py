"""From facts of many jobs to the rows of all datasets, in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple

from samza_dagster.lag import Bounds, Errors, Speeds
from samza_dagster.metadata.job_topics import KafkaJobTopics, Ranges
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots import facts, lag, readiness
from samza_dagster.snapshots.job import Job, newest_reports, window_ms
from samza_dagster.snapshots.lag import Row
from samza_dagster.snapshots.schemas import TABLES
from samza_dagster.snapshots.tables import File, Tables

FILE, FOLDED, HOSTS, RESTORING, UNREADABLE = "file", "folded", "hosts", "restoring", "unreadable"
_JOBS_A_PART = range(10, 101)
_REPLICAS_AT_ONCE = 20_000
"""Whose changelogs the brokers are asked for by one question."""
_ROWS_A_FILE = 100_000
_DAY_MS = 86_400_000


class Names(NamedTuple):
    """Of the jobs of one part, from the first to the last in their order; the first part has what is of no job."""

    first: str
    last: str
    is_first: bool


def parts(names: Iterable[str], processors: int) -> list[Names]:
    """Jobs in parts of about equal size, each enough for a worker."""
    every = sorted(set(names))
    size = min(max(-(-len(every) // processors), _JOBS_A_PART.start), _JOBS_A_PART.stop - 1)
    return [
        Names(every[at], every[at : at + size][-1], is_first=at == 0)
        for at in range(0, len(every), size)
    ]


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

    def judged(self, names: Names) -> Iterator[tuple[str, Any]]:
        """What a worker has found of a part's jobs, with what it is.

        Each `FILE` and each `FOLDED` that it has written, rows of `readiness.CONTAINERS`, how many
        records are `UNREADABLE`, how many a second a standby applies on its host that is `RESTORING`, and
        once the `HOSTS` of all these jobs.
        """
        kept = newest(self._read(self.kept, names))
        if self.folds:
            yield FOLDED, self.tables.write("facts", [r for r in kept if self._counts_still(r)])
        of_groups = [row for row in self.groups if names.first <= row["job_name"] <= names.last]
        known = newest([*kept, *self._read(self.fresh, names), *of_groups])
        files, hosts = _Files(self.tables), set[str]()
        cluster = KafkaCluster(self.servers, self.client_config)
        with closing(KafkaJobTopics(cluster)) as topics:
            for jobs in _at_once(self._jobs(known)):
                hosts.update(*(job.known_hosts for job in jobs))
                for dataset, row in _judged(jobs, topics, self):
                    if dataset not in TABLES:
                        yield dataset, row
                        continue
                    files.add(dataset, row)
                    if row.get("unreadable"):
                        yield UNREADABLE, row["unreadable"]
                    if dataset == "changelog_lag" and _is_restoring(row):
                        yield RESTORING, (row["host"], row["apply_per_s"])
        yield HOSTS, hosts
        for file in files.written():
            yield FILE, file

    def restores(
        self, speeds: Speeds, fleet: Collection[str], containers: Iterable[Row]
    ) -> Iterator[File]:
        """The files of what restores of these containers take, also on `fleet`, and of what hosts' deaths cost."""
        files = _Files(self.tables)
        for row in containers:
            stamp = {name: row[name] for name in ("job_name", "job_id", "deployment_id")}
            for dataset, found in readiness.restore_rows(row, speeds, fleet):
                files.add(dataset, {"snapshot_time": self.at_ms, **stamp, **found})
        return files.written()

    def _read(self, paths: Sequence[str], names: Names) -> Iterator[Row]:
        """Facts of a part's jobs; of others that lie between, only where all are folded."""
        pc: Any = import_module("pyarrow.compute")
        job = pc.field("job_name")
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

    def written(self) -> Iterator[File]:
        for dataset in [*self._rows]:
            self._written.append(self._tables.write(dataset, self._rows.pop(dataset)))
        return iter(self._written)


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
            readiness.STARTS: [{"host": host, "restore_s": s} for host, s in job.starts],
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
