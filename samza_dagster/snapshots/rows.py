"""The rows of one job: where it is, how far behind each replica, when each standby is ready, what a loss would cost.

Pure. Lag and readiness are by the rules that everybody else goes by (`lag.behind`, `lag.replica_readiness`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from samza_dagster.errors import Unreachable
from samza_dagster.lag import (
    Behind,
    Bounds,
    Came,
    Container,
    FirstSince,
    Forecast,
    ReplicaReadiness,
    ReplicaReport,
    Speeds,
    StorePart,
    after_a_loss,
    behind,
    last_of,
    of_standby,
    published,
    replica_readiness,
    restore_forecast,
    times_to_ask,
)
from samza_dagster.metadata.job_topics import OffsetRange, Ranges, span_of
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.naming import active_task_of
from samza_dagster.snapshots.found import Said
from samza_dagster.snapshots.job import ACTIVE, STANDBY, Job, Task

Row = dict[str, Any]
NOT_HEARD = "not-heard"
ANYWHERE = ""
"""Stands for any host that has no container of the job: nothing is warm there."""


class Replica(NamedTuple):
    """A task's replica of one store, where its changelog begins and ends now, and what is known of it.

    `span` is None where there is no such topic or partition, `unread` says why it can't be read. `said` is in
    order of time, what was said last is last. `is_former`: that was on another host than the processor's: an
    offset from there tells nothing about the replica that is here now. `earlier` is what former snapshots had
    of it: a history, which tells nothing of now.
    """

    task: Task
    store: StoreChangelog
    host: str | None
    span: OffsetRange | None
    unread: Unreachable | None
    said: tuple[Said, ...]
    is_former: bool
    earlier: tuple[ReplicaReport, ...] = ()

    @property
    def partition(self) -> int:
        """Its changelog's; -1: it has none."""
        return -1 if self.task.partition is None else self.task.partition

    @property
    def gauge(self) -> str:
        """What the replica calls its changelog's partition."""
        return self.store.offset_gauge(self.partition)

    @property
    def newest(self) -> Said | None:
        """What was said last of the replica that is there now."""
        return self.said[-1] if self.said and not self.is_former else None

    @property
    def applied(self) -> int | None:
        """The last offset that it is known to hold."""
        return None if self.newest is None else self.newest.offsets.get(self.gauge)

    def came(self, said: Said | None) -> Came | None:
        """When a report came; None of a commit."""
        if said is None or said.came_ms is None:
            return None
        return self.store.topic, self.partition, said.came_ms

    def times_asked(self, patience_ms: int) -> Iterator[Came]:
        """What must be known of the changelog's records to tell its lag, and of a standby's its pace."""
        came = self.came(self.newest)
        if self.span is not None and self.applied is not None and came is not None:
            yield from times_to_ask(came, self.applied, self.span.end, patience_ms)
        if self.span is not None and self.task.mode == STANDBY and len(self.said) > 1:
            oldest = self.came(self.said[0])
            if oldest is not None:
                yield oldest


def replicas(
    job: Job, ranges: Ranges, earlier: Mapping[tuple[str, str], tuple[ReplicaReport, ...]] = {}
) -> Iterator[Replica]:
    """Yield one for each task and store; `earlier` is by task and store."""
    for task in job.tasks:
        host = job.host_of(task.processor)
        for store in job.changelogs:
            span = None if task.partition is None else span_of(ranges, store.topic, task.partition)
            known = (span, None) if not isinstance(span, Unreachable) else (None, span)
            one = Replica(task, store, host, *known, (), False, earlier.get((task.name, store.store), ()))  # fmt: skip
            # The newest commit and all reports that have the gauge.
            commits = [
                said for said in job.checkpoints.get(task.name, ()) if one.gauge in said.offsets
            ]
            reports = [said for said in job.reports.get(task.name, ()) if one.gauge in said.offsets]
            every = sorted(
                [*commits[-1:], *reports], key=lambda said: (said.came_ms or 0, said.order)
            )
            mine = tuple(said for said in every if host is None or said.host in (None, host))
            yield one._replace(said=mine or tuple(every), is_former=not mine)


def lag_row(
    one: Replica,
    patience_ms: int,
    first_since: FirstSince,
    *,
    all_observed: bool,
    silent_ms: int | None = None,
) -> Row:
    """Return a row of `changelog_lag`.

    `all_observed`: every partition was read that tells applied offsets. `silent_ms`: for how long nothing
    was heard of a replica of which nothing is in the window, by earlier snapshots; None: they had nothing.
    """
    found, span = Behind(0, None), one.span
    if span is not None:
        found = behind(
            *(span.start, span.end, one.applied, one.came(one.newest)),
            patience_ms=patience_ms,
            first_since=first_since,
        )
    seen = one.newest if one.applied is not None else None
    size = None if seen is None else seen.record_bytes.get(one.store.store)
    why = _unknown_because(one, found, all_observed, silent_ms)
    return {
        "store": one.store.store,
        "system": one.store.system,
        "changelog": one.store.topic,
        "partition": one.task.partition,
        "task_name": one.task.name,
        "active_task": active_task_of(one.task.name),
        "mode": one.task.mode,
        "processor_id": one.task.processor,
        "host": one.host,
        "beginning_offset": None if span is None else span.start,
        "end_offset": None if span is None else found.end_offset,
        "written_since": None if span is None else found.written_since,
        "applied_offset": one.applied,
        "applied_source": None if seen is None else seen.source,
        "observed_at": None if seen is None else seen.at_ms,
        "came_at": None if seen is None else seen.came_ms,
        "process": None if seen is None else seen.process or seen.host,
        "lag_records": found.lag,
        "lag_bytes": None if found.lag is None or size is None else round(found.lag * size),
        "unknown_because": why,
        "why": f"not heard for {(silent_ms or 0) / 1000:,.0f} s" if why == NOT_HEARD else None,
    }


def _unknown_because(
    one: Replica, found: Behind, all_observed: bool, silent_ms: int | None
) -> str | None:
    if one.span is None:
        return "no-changelog" if one.unread is None else "no-leader"
    if found.lag is not None:
        return None
    if one.applied is not None:
        return "beyond-end"
    if one.said and one.is_former:
        return "former-host"
    if not all_observed:
        return "no-leader-of-observations"
    return "no-observation" if silent_ms is None else NOT_HEARD


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
    """Yield what isn't as it must be, by what is known."""
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
    every: Sequence[tuple[Replica, Row]],
    first_since: FirstSince,
    bounds: Bounds,
    silences_ms: Mapping[str, int],
) -> tuple[list[Row], list[tuple[bytes, bytes]]]:
    """Complete rows of `changelog_lag`; return rows of `standby_readiness`, and what is published of standbys.

    `silences_ms`: task → for how long it has been silent.
    """
    bounds = replace(bounds, report_s=job.report_ms / 1000 or bounds.report_s)
    of: dict[str, list[tuple[Replica, Row, ReplicaReadiness]]] = {
        processor: []
        for processor, tasks in job.tasks_of.items()
        if any(task.mode == STANDBY for task in tasks)
    }
    for one, row in every:
        if one.task.mode == STANDBY:
            part = replica_readiness(
                () if one.is_former else _reports(one, row, first_since),
                bounds,
                silent_ms=silences_ms.get(one.task.name, 0),
                reason=row["unknown_because"] or "",
            )
            of[one.task.processor].append((one, row, part))
            row |= {
                "status": part.judgement.status.value,
                "why": part.judgement.why,
                "lag_s": part.judgement.lag_s,
                "apply_per_s": None if part.pace is None else part.pace.apply_per_s,
                "write_per_s": None if part.pace is None else part.pace.write_per_s,
                **_times("ready_in_s", "ready", part.ready),
                "ready_spread": None if part.ready is None else part.ready.spread,
                "ready_since": part.ready_since_ms,
            }
    came = [row["came_at"] for mine in of.values() for _, row, _ in mine if row["came_at"]]
    rows: list[Row] = []
    records: list[tuple[bytes, bytes]] = []
    for standby, mine in of.items():
        parts = {(one.task.name, one.store.store, one.task.partition or 0): p for one, _, p in mine}
        verdict = of_standby({f"{s} {number}": p.judgement for (_, s, number), p in parts.items()})
        rows.append(
            {
                "processor_id": standby,
                "active_id": job.active_of(standby),
                "host": job.host_of(standby),
                "replicas": len(mine),
                "status": verdict.status.value,
                "why": verdict.why,
                "lag_records": _sum(row["lag_records"] for _, row, _ in mine),
                "lag_bytes": _sum(row["lag_bytes"] for _, row, _ in mine),
                "lag_s": verdict.lag_s,
                **_times("ready_in_s", "ready", last_of(p.ready for p in parts.values())),
                "came_at": min(
                    (row["came_at"] for _, row, _ in mine if row["came_at"]), default=None
                ),
            }
        )
        if came:
            paces = {part: p.pace for part, p in parts.items()}
            records.append(published(standby, verdict, paces, max(came)))
    return rows, records


def _reports(one: Replica, row: Row, first_since: FirstSince) -> Iterator[ReplicaReport]:
    """Yield its reports, with where the changelog ended when they came; those of earlier snapshots first.

    Of the oldest and the newest that is known, between these it is taken to have grown evenly: to ask
    the brokers for each of a fleet's reports would cost more than the whole snapshot.
    """
    came = [(said.came_ms, said) for said in one.said if said.came_ms is not None]
    yield from (e for e in one.earlier if not came or e.came_ms < came[0][0])
    if not came or one.span is None:
        return
    oldest_ms, (newest_ms, newest) = came[0][0], came[-1]
    newest_end: int = row["end_offset"]
    oldest_end = first_since.get((one.store.topic, one.partition, oldest_ms), newest_end)
    per_ms = (newest_end - oldest_end) / max(1, newest_ms - oldest_ms)
    for at_ms, said in came:
        applied = said.offsets.get(one.gauge)
        end = newest_end if said is newest else oldest_end + round(per_ms * (at_ms - oldest_ms))
        if applied is not None and applied < newest_end:
            end = max(end, applied + 1)
        yield ReplicaReport(at_ms, said.process or said.host or "", applied, one.span.start, end)


def restore_rows(
    job: Job, every: Sequence[tuple[Replica, Row]], speeds: Speeds
) -> dict[str, list[Row]]:
    """Return rows of `restore_forecast`, of each active container on each host, and of `host_loss`."""
    by_active: dict[tuple[str, str], list[tuple[Replica, Row]]] = {}
    for one, row in every:
        at = active_task_of(one.task.name), one.store.store
        by_active.setdefault(at, []).append((one, row))
    hosts = [*sorted(job.known_hosts), ANYWHERE]
    rows: dict[str, list[Row]] = {"restore_forecast": [], "host_loss": []}
    for processor, tasks in job.tasks_of.items():
        if all(task.mode != ACTIVE for task in tasks):
            continue
        mine = [one for one, _ in every if one.task.processor == processor]
        copies = [by_active[active_task_of(one.task.name), one.store.store] for one in mine]
        standby_hosts = {
            copy.host
            for of_one in copies
            for copy, _ in of_one
            if copy.task.mode == STANDBY and copy.host
        }
        container = Container(
            processor,
            job.host_of(processor),
            tuple(map(_part, mine, copies)),
            tuple(sorted(standby_hosts)),
        )
        sizes = [_record_bytes(of_one) for of_one in copies]
        rows["restore_forecast"] += [_restore_row(container, sizes, h, speeds) for h in hosts]
        if container.host is None:
            continue
        has_standby, best = after_a_loss(container, hosts, speeds)
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


def _restore_row(
    container: Container, sizes: Sequence[float | None], host: str, speeds: Speeds
) -> Row:
    found = restore_forecast(container, host, speeds)
    lefts = [part.left(host) for part in container.parts]
    return {
        "processor_id": container.processor_id,
        "host": host or None,
        "is_warm": found.is_warm,
        "records": found.left,
        "bytes": _sum(
            None if left is None or size is None else round(left * size)
            for left, size in zip(lefts, sizes, strict=True)
        ),
        **_times("restore_s", "restore", found.down),
        "why": found.why or None,
    }


def paces(lags: Iterable[Row]) -> list[tuple[str, float]]:
    """Return host and offsets a second of each standby that restores: it has more than a second's to apply, and gains."""
    found: list[tuple[str, float]] = []
    for row in lags:
        left, write = row.get("lag_records"), row.get("write_per_s")
        apply, host = row.get("apply_per_s"), row["host"]
        if left is None or write is None or apply is None or host is None:
            continue
        if left > apply > write:
            found.append((host, apply))
    return found


def _part(one: Replica, copies: Iterable[tuple[Replica, Row]]) -> StorePart:
    """A copy of which the lag isn't known, as of one beyond its changelog's end, is no warm one."""
    warm = {
        copy.host: row["applied_offset"] + 1
        for copy, row in copies
        if copy.host is not None
        and row["applied_offset"] is not None
        and row["lag_records"] is not None
    }
    begins, ends = (None, None) if one.span is None else (one.span.start, one.span.end)
    return StorePart(f"{one.store.store} {one.task.partition}", begins, ends, warm)


def _record_bytes(copies: Iterable[tuple[Replica, Row]]) -> float | None:
    known = ((copy.newest, copy.store.store) for copy, _ in copies)
    sizes = (said.record_bytes.get(store) for said, store in known if said is not None)
    return max(filter(None, sizes), default=None)


def _times(name: str, prefix: str, known: Forecast | None) -> Row:
    """A forecast in seconds."""
    if known is None:
        return {}
    names = (name, f"{prefix}_soonest_s", f"{prefix}_latest_s")
    times = (known.ready_in_ms, known.soonest_ms, known.latest_ms)
    return {each: None if ms is None else ms / 1000 for each, ms in zip(names, times, strict=True)}


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(filter(None, known))
