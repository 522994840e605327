"""From what was found of jobs to their rows: where they are, how far behind, when ready, what a loss would cost.

Lag and readiness are by the rules that everybody else goes by (`lag.behind`, `lag.replica_readiness`). `Judge`
does it in Spark's Python workers or in this process; all else is pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from samza_dagster import lag
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange, Ranges, span_of
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import (
    active_task_of,
    checkpoint_topic,
    coordinator_stream_topic,
    state_topic,
)
from samza_dagster.snapshots.found import ACTIVE, STANDBY, Found, Job, Said, Task
from samza_dagster.snapshots.reading import JobId
from samza_dagster.snapshots.tables import (
    ReplicaId,
    Tables,
    arrow_table,
    earlier_reports,
    last_heard_ms,
)

LEAST_JOBS, MOST_JOBS = 10, 100
"""Of a part: of fewer it isn't worth a worker, of more it takes a worker much memory."""
START_S = 10.0
"""From the start of a container's process until it restores, while none was seen."""
_OWN_TOPICS = (coordinator_stream_topic, checkpoint_topic, state_topic)
Pieces = Mapping[JobId, Sequence[bytes]]
Row = dict[str, Any]
NOT_HEARD = "not-heard"
ANYWHERE = ""
"""Stands for any host that has no container of the job: nothing is warm there."""


@dataclass(eq=False)
class Replica:
    """A task's replica of one store, its changelog's present range, and its reports.

    `span` is None if there is no such topic or partition; `unread` is the reason why it can't be read.
    `said` are the reports in order of time. `is_former`: they came from another host than the
    processor's, and an offset from there tells nothing about the present replica. Former snapshots give
    `earlier` reports and, if there is none in the window, `silent_ms`, the length of the silence:
    history, which tells nothing of now. `row` is its row of `changelog_lag`, by `measure` and
    `with_readiness`.
    """

    task: Task
    store: StoreChangelog
    host: str | None
    span: OffsetRange | None
    unread: Unreachable | None
    said: tuple[Said, ...]
    is_former: bool
    earlier: tuple[lag.ReplicaReport, ...] = ()
    silent_ms: int | None = None
    row: Row = field(default_factory=dict[str, Any])

    @property
    def partition(self) -> int:
        """Its changelog's; -1: it has none."""
        return -1 if self.task.partition is None else self.task.partition

    @property
    def gauge(self) -> str:
        """The gauge by which the replica reports its changelog's partition."""
        return self.store.offset_gauge(self.partition)

    @property
    def newest(self) -> Said | None:
        """The newest report of the present replica."""
        return self.said[-1] if self.said and not self.is_former else None

    @property
    def applied(self) -> int | None:
        """The last offset that it is known to hold."""
        return None if self.newest is None else self.newest.offsets.get(self.gauge)

    def came(self, said: Said | None) -> lag.Came | None:
        """When a report came; None of a commit."""
        if said is None or said.came_ms is None:
            return None
        return self.store.topic, self.partition, said.came_ms

    def times_asked(self, patience_ms: int) -> Iterator[lag.Came]:
        """Yield the times of changelog records that its lag needs, and for a standby its pace."""
        came = self.came(self.newest)
        if self.span is not None and self.applied is not None and came is not None:
            yield from lag.times_to_ask(came, self.applied, self.span.end, patience_ms)
        if self.span is not None and self.task.mode == STANDBY and len(self.said) > 1:
            oldest = self.came(self.said[0])
            if oldest is not None:
                yield oldest

    def measure(self, patience_ms: int, first_since: lag.FirstSince, *, all_observed: bool) -> Row:
        """Make its row; `all_observed`: every partition was read that tells applied offsets."""
        found, span, seen = lag.Behind(0, None), self.span, self.newest
        if span is not None:
            found = lag.behind(
                *(span.start, span.end, self.applied, self.came(seen)),
                patience_ms=patience_ms,
                first_since=first_since,
            )
        if self.applied is None:
            seen = None
        size = None if seen is None else seen.record_bytes.get(self.store.store)
        why = self._unknown_because(found, all_observed=all_observed)
        self.row = {
            "store": self.store.store,
            "system": self.store.system,
            "changelog": self.store.topic,
            "partition": self.task.partition,
            "task_name": self.task.name,
            "active_task": active_task_of(self.task.name),
            "mode": self.task.mode,
            "processor_id": self.task.processor,
            "host": self.host,
            "beginning_offset": None if span is None else span.start,
            "end_offset": None if span is None else found.end_offset,
            "written_since": None if span is None else found.written_since,
            "applied_offset": self.applied,
            "applied_source": None if seen is None else seen.source,
            "observed_at": None if seen is None else seen.at_ms,
            "came_at": None if seen is None else seen.came_ms,
            "process": None if seen is None else seen.process or seen.host,
            "lag_records": found.lag,
            "lag_bytes": None if found.lag is None or size is None else round(found.lag * size),
            "unknown_because": why,
            "why": f"not heard for {(self.silent_ms or 0) / 1000:,.0f} s"
            if why == NOT_HEARD
            else None,
        }
        return self.row

    def _unknown_because(self, found: lag.Behind, *, all_observed: bool) -> str | None:
        if self.span is None:
            return "no-changelog" if self.unread is None else "no-leader"
        if found.lag is not None:
            return None
        if self.applied is not None:
            return "beyond-end"
        if self.said and self.is_former:
            return "former-host"
        if not all_observed:
            return "no-leader-of-observations"
        return "no-observation" if self.silent_ms is None else NOT_HEARD


def replicas(
    job: Job, ranges: Ranges, earlier: Mapping[ReplicaId, tuple[lag.ReplicaReport, ...]] = {}
) -> list[Replica]:
    """Return one for each task and store, with its `earlier` reports."""
    found: list[Replica] = []
    for task in job.tasks:
        host = job.host_of(task.processor)
        for store in job.changelogs:
            span = None if task.partition is None else span_of(ranges, store.topic, task.partition)
            known = (span, None) if not isinstance(span, Unreachable) else (None, span)
            before = earlier.get((*job.ident, task.name, store.store), ())
            one = Replica(task, store, host, *known, (), False, before)
            # The newest commit and all reports that have the gauge.
            commits, reports = (
                [said for said in every.get(task.name, ()) if one.gauge in said.offsets]
                for every in (job.checkpoints, job.reports)
            )
            every = sorted([*commits[-1:], *reports], key=lambda s: (s.came_ms or 0, s.order))
            mine = [said for said in every if host is None or said.host in (None, host)]
            one.said, one.is_former = tuple(mine or every), not mine
            found.append(one)
    return found


def container_rows(job: Job) -> Iterator[Row]:
    """Yield one for each processor that has tasks or has reported a host."""
    for processor in sorted({*job.hosts, *job.places, *job.tasks_of}):
        host, reported_ms = job.hosts.get(processor, (None, None))
        place = job.places.get(processor)
        yield {
            "processor_id": processor,
            "host": host,
            "mode": job.mode_of(processor),
            "tasks": len(job.tasks_of.get(processor, ())),
            "reported_at": reported_ms,
            "phase": None if place is None else place.phase,
            "execution_id": None if place is None else place.execution_id,
        }


def task_rows(job: Job) -> Iterator[Row]:
    """Yield one for each assigned task, with the host of its processor."""
    for task in job.tasks:
        host, reported_ms = job.hosts.get(task.processor, (None, None))
        yield {
            "task_name": task.name,
            "processor_id": task.processor,
            "host": host,
            "mode": task.mode,
            "changelog_partition": task.partition,
            "reported_at": reported_ms,
        }


def violation_rows(job: Job, every: Iterable[Replica]) -> Iterator[Row]:
    """Yield violations of invariants, as far as the facts are known."""
    gone: dict[StoreChangelog, list[str]] = {}
    for one in every:
        if one.span is None and one.unread is None:
            gone.setdefault(one.store, []).append(one.task.name)
    for store, tasks in gone.items():
        seen = (
            f"store {store.store}: its changelog {store.topic} has no partition of {_some(tasks)}"
        )
        yield {"rule": "no-changelog", "seen": seen}
    by_place: dict[tuple[str, str], set[str]] = {}
    for task in job.tasks:
        host = job.host_of(task.processor)
        if host is not None:
            by_place.setdefault((active_task_of(task.name), host), set()).add(task.processor)
    pairs: dict[tuple[str, str, str], list[str]] = {}
    for (active_task, host), processors in sorted(by_place.items()):
        first, *others = sorted(processors)
        for other in others:
            pairs.setdefault((first, other, host), []).append(active_task)
    for (first, other, host), shared in pairs.items():
        about = {"processor_id": first, "other_id": other, "host": host}
        yield {"rule": "same-host", **about, "seen": f"both have {_some(shared)}"}
    standbys = {active_task_of(task.name) for task in job.tasks if task.mode != ACTIVE}
    for processor, mine in job.tasks_of.items():
        about: Row = {"processor_id": processor, "host": job.host_of(processor)}
        if about["host"] is None:
            yield {"rule": "no-host", **about, "seen": f"{len(mine)} tasks, and no host reported"}
        bare = [t.name for t in mine if t.mode == ACTIVE and t.name not in standbys]
        if standbys and bare and job.changelogs:
            seen = f"no standby task of {', '.join(bare[:5])}"
            yield {"rule": "no-standby", **about, "seen": seen}
    if job.found.unreadable:
        seen = f"{job.found.unreadable} records can't be read, as {job.found.example}"
        yield {"rule": "unreadable", "seen": seen}


def _some(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


def with_readiness(
    job: Job,
    every: Sequence[Replica],
    first_since: lag.FirstSince,
    bounds: lag.Bounds,
    newest_ms: Mapping[str, int],
) -> tuple[list[Row], list[tuple[bytes, bytes]]]:
    """Complete the replicas' rows; return rows of `standby_readiness`, and the readiness to publish.

    `newest_ms` maps a topic to the time of its newest record, which tells how long tasks have been
    silent.
    """
    bounds = replace(bounds, report_s=job.report_ms / 1000 or bounds.report_s)
    silences_ms = job.silences_ms(newest_ms)
    of: dict[str, list[tuple[Replica, lag.ReplicaReadiness]]] = {
        processor: []
        for processor, tasks in job.tasks_of.items()
        if any(task.mode == STANDBY for task in tasks)
    }
    for one in every:
        if one.task.mode == STANDBY:
            part = lag.replica_readiness(
                () if one.is_former else _reports(one, first_since),
                bounds,
                silent_ms=one.silent_ms or silences_ms.get(one.task.name, 0),
                reason=one.row["unknown_because"] or "",
            )
            of[one.task.processor].append((one, part))
            one.row |= {
                "status": part.judgement.status.value,
                "why": part.judgement.why,
                "lag_s": part.judgement.lag_s,
                "apply_per_s": None if part.pace is None else part.pace.apply_per_s,
                "write_per_s": None if part.pace is None else part.pace.write_per_s,
                **_times("ready_in_s", "ready", part.ready),
                "ready_spread": None if part.ready is None else part.ready.spread,
                "ready_since": part.ready_since_ms,
            }
    as_of_ms = max((one.row["came_at"] or 0 for mine in of.values() for one, _ in mine), default=0)
    rows: list[Row] = []
    records: list[tuple[bytes, bytes]] = []
    for standby, mine in of.items():
        parts = {(one.task.name, one.store.store, one.task.partition or 0): p for one, p in mine}
        verdict = lag.of_standby(
            {f"{s} {number}": p.judgement for (_, s, number), p in parts.items()}
        )
        came = [one.row["came_at"] for one, _ in mine if one.row["came_at"]]
        rows.append(
            {
                "processor_id": standby,
                "active_id": job.active_of(standby),
                "host": job.host_of(standby),
                "replicas": len(mine),
                "status": verdict.status.value,
                "why": verdict.why,
                "lag_records": _sum(one.row["lag_records"] for one, _ in mine),
                "lag_bytes": _sum(one.row["lag_bytes"] for one, _ in mine),
                "lag_s": verdict.lag_s,
                **_times("ready_in_s", "ready", lag.last_of(p.ready for p in parts.values())),
                "came_at": min(came, default=None),
            }
        )
        if as_of_ms:
            paces = {part: p.pace for part, p in parts.items()}
            records.append(lag.published(standby, verdict, paces, as_of_ms))
    return rows, records


def _reports(one: Replica, first_since: lag.FirstSince) -> Iterator[lag.ReplicaReport]:
    """Yield its reports, with where the changelog ended when they came; those of earlier snapshots first.

    Of the oldest and the newest that is known, between these it is taken to have grown evenly: to ask
    the brokers for each of a fleet's reports would cost more than the whole snapshot.
    """
    came = [(said.came_ms, said) for said in one.said if said.came_ms is not None]
    yield from (e for e in one.earlier if not came or e.came_ms < came[0][0])
    if not came or one.span is None:
        return
    oldest_ms, (newest_ms, newest) = came[0][0], came[-1]
    newest_end: int = one.row["end_offset"]
    oldest_end = first_since.get((one.store.topic, one.partition, oldest_ms), newest_end)
    per_ms = (newest_end - oldest_end) / max(1, newest_ms - oldest_ms)
    for at_ms, said in came:
        applied = said.offsets.get(one.gauge)
        end = newest_end if said is newest else oldest_end + round(per_ms * (at_ms - oldest_ms))
        if applied is not None and applied < newest_end:
            end = max(end, applied + 1)
        process = said.process or said.host or ""
        yield lag.ReplicaReport(at_ms, process, applied, one.span.start, end)


def restore_rows(job: Job, every: Sequence[Replica], speeds: lag.Speeds) -> dict[str, list[Row]]:
    """Return rows of `restore_forecast`, of each active container on each host, and of `host_loss`."""
    by_active: dict[tuple[str, str], list[Replica]] = {}
    by_processor: dict[str, list[Replica]] = {}
    for one in every:
        by_active.setdefault((active_task_of(one.task.name), one.store.store), []).append(one)
        by_processor.setdefault(one.task.processor, []).append(one)
    hosts = [*sorted(job.known_hosts), ANYWHERE]
    rows: dict[str, list[Row]] = {"restore_forecast": [], "host_loss": []}
    for processor, tasks in job.tasks_of.items():
        if all(task.mode != ACTIVE for task in tasks):
            continue
        mine = by_processor.get(processor, ())
        copies = [by_active[active_task_of(one.task.name), one.store.store] for one in mine]
        standbys = {c.host for its in copies for c in its if c.task.mode == STANDBY and c.host}
        parts = tuple(map(_part, mine, copies))
        container = lag.Container(processor, job.host_of(processor), parts, tuple(sorted(standbys)))
        forecasts = [lag.restore_forecast(container, host, speeds) for host in hosts]
        rows["restore_forecast"] += [
            {
                "processor_id": processor,
                "host": found.host or None,
                "is_warm": found.is_warm,
                "records": found.left,
                "bytes": found.left_bytes,
                **_times("restore_s", "restore", found.down),
                "why": found.why or None,
            }
            for found in forecasts
        ]
        if container.host is None:
            continue
        has_standby, best = lag.after_a_loss(container, forecasts)
        rows["host_loss"].append(
            {
                "host": container.host,
                "processor_id": processor,
                "has_standby": has_standby,
                "back_on": (best.host or None) if best is not None else None,
                **_times("downtime_s", "downtime", None if best is None else best.down),
                "why": (best.why or None) if best is not None else "no other host is known",
            }
        )
    return rows


def speeds_for(job: Job, lags: Iterable[Row], past: lag.Speeds, start_s: float) -> lag.Speeds:
    """Return how fast restores of a job are; a start takes `start_s` while none was seen.

    The pace is that of earlier snapshots (`past`); where these tell none, that of the job's standbys that restore
    now: which have more than a second's to apply, and gain.
    """
    paces = [
        (row["host"], row["apply_per_s"])
        for row in lags
        if row["host"] is not None
        and (row["lag_records"] or 0)
        > (row.get("apply_per_s") or 0)
        > (row.get("write_per_s") or 0)
    ]
    known = lag.speeds(paces, job.found.starts, start_s)
    return known if past.pace is None else replace(known, pace=past.pace, pace_on=past.pace_on)


def _part(one: Replica, copies: Sequence[Replica]) -> lag.StorePart:
    """Return whether a copy is warm; one with unknown lag, as beyond its changelog's end, isn't."""
    warm = {
        copy.host: copy.row["applied_offset"] + 1
        for copy in copies
        if copy.host is not None
        and copy.row["applied_offset"] is not None
        and copy.row["lag_records"] is not None
    }
    sizes = (copy.newest.record_bytes.get(one.store.store) for copy in copies if copy.newest)
    begins, ends = (None, None) if one.span is None else (one.span.start, one.span.end)
    return lag.StorePart(
        *(f"{one.store.store} {one.task.partition}", begins, ends, warm),
        max(filter(None, sizes), default=None),
    )


def _times(name: str, prefix: str, known: lag.Forecast | None) -> Row:
    """A forecast in seconds."""
    if known is None:
        return {}
    names = (name, f"{prefix}_soonest_s", f"{prefix}_latest_s")
    times = (known.ready_in_ms, known.soonest_ms, known.latest_ms)
    return {each: None if ms is None else ms / 1000 for each, ms in zip(names, times, strict=True)}


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(filter(None, known))


def parts(pieces: Pieces, size: int) -> list[Pieces]:
    """Deal jobs into parts of so many, or of as many as a part may have."""
    jobs, size = sorted(pieces), min(size, MOST_JOBS)
    return [{job: pieces[job] for job in jobs[at : at + size]} for at in range(0, len(jobs), size)]


class Judged(NamedTuple):
    """The rows of some jobs: table → `pyarrow.Table`; and a job, key and value of each record of its lag topic."""

    tables: Mapping[str, Any]
    published: Sequence[tuple[JobId, bytes, bytes]]


@dataclass(frozen=True)
class Judge:
    """The workers' common input: cluster, tables, and the time.

    `unread`: topic or job → why it couldn't be read. `newest_ms`: topic → when its newest record came, by the
    brokers' clock. `speeds` are those of past restores. `window_ms` is how far back reports and commits were read.
    """

    tables: Tables
    servers: str
    client_config: Mapping[str, str]
    unread: Mapping[str, str]
    newest_ms: Mapping[str, int]
    at_ms: int
    window_ms: int
    bounds: lag.Bounds
    speeds: lag.Speeds

    def judged(self, part: Pieces) -> Judged:
        """Judge a part's jobs; run by a worker.

        It reads the end of a changelog after all reports of what was applied.
        """
        jobs = [Job(*job, Found.of(map(Found.unpacked, pieces))) for job, pieces in part.items()]
        with closing(KafkaJobTopics(KafkaCluster(self.servers, self.client_config))) as topics:
            names = {store.topic for job in jobs for store in job.changelogs}
            ranges: Ranges = topics.offset_ranges(names) if names else {}
            earlier = self._earlier(jobs)
            known = [(job, replicas(job, ranges, earlier)) for job in jobs]
            times = {
                at for job, every in known for r in every for at in r.times_asked(job.patience_ms)
            }
            first_since = topics.offsets_since(times) if times else {}
        # Of those of which nothing is in the window, earlier snapshots tell when they were heard.
        unheard = {
            (*job.ident, one.task.name, one.store.store): one
            for job, every in known
            for one in every
            if not one.said
        }
        heard = last_heard_ms(self.tables, unheard.keys(), self.at_ms) if unheard else {}
        for at, ms in heard.items():
            unheard[at].silent_ms = self.at_ms - ms
        found, published = defaultdict[str, list[Row]](list), list[tuple[JobId, bytes, bytes]]()
        for job, every in known:
            its_topics = {checkpoint_topic(*job.ident), *metrics_topics(job.config)}
            observed = not its_topics & self.unread.keys()
            own = (name(*job.ident) for name in _OWN_TOPICS)
            unread = "; ".join(self.unread[topic] for topic in own if topic in self.unread)
            lags = [
                one.measure(job.patience_ms, first_since, all_observed=observed) for one in every
            ]
            standbys, records = with_readiness(job, every, first_since, self.bounds, self.newest_ms)
            published += [(job.ident, *record) for record in records]
            stamp: Row = {
                "snapshot_time": self.at_ms,
                "job_name": job.name or None,
                "job_id": job.id or None,
                "deployment_id": job.deployment_id,
            }
            its: Mapping[str, Iterable[Row]] = {
                "container_locality": container_rows(job),
                "task_locality": task_rows(job),
                "changelog_lag": lags,
                "standby_readiness": standbys,
                **restore_rows(job, every, speeds_for(job, lags, self.speeds, START_S)),
                "violations": violation_rows(job, every),
                "snapshots": [{"unreadable": job.found.unreadable, "unread": unread or None}],
            }
            for table, mine in its.items():
                found[table] += [{**stamp, **row} for row in mine]
        return Judged({table: arrow_table(table, mine) for table, mine in found.items()}, published)

    def _earlier(self, jobs: Sequence[Job]) -> Mapping[ReplicaId, tuple[lag.ReplicaReport, ...]]:
        """Return earlier snapshots' reports that are too old to be read again and still tell a pace."""
        since_ms = self.at_ms - lag.PACED_BY * max(job.report_ms for job in jobs)
        before_ms = self.at_ms - self.window_ms
        if since_ms >= before_ms:
            return {}
        names = {job.name for job in jobs}
        return earlier_reports(self.tables, names, self.at_ms, since_ms, before_ms)
