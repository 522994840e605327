"""Changelog lag of every replica of a job. Pure, by the rule that everybody else goes by (`lag.behind`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Behind, Came, FirstSince, ReplicaReport, behind, times_to_ask
from samza_dagster.metadata.job_topics import OffsetRange, Ranges, span_of
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.naming import active_task_of
from samza_dagster.snapshots.found import Said
from samza_dagster.snapshots.job import ACTIVE, Job, Task

Row = dict[str, Any]
NOT_HEARD = "not-heard"


class Replica(NamedTuple):
    """A task's replica of one store, where its changelog begins and ends now, and what is known of it.

    `said` is in order of time, what was said last is last. `is_former`: that was on another host than
    the processor's. `earlier` is what former snapshots had of it: a history, which tells nothing of now.
    """

    task: Task
    store: StoreChangelog
    host: str | None
    span: OffsetRange | Unreachable | None
    said: tuple[Said, ...]
    is_former: bool
    earlier: tuple[ReplicaReport, ...] = ()

    @property
    def gauge(self) -> str:
        """What the replica calls its changelog's partition."""
        return "" if self.task.partition is None else self.store.offset_gauge(self.task.partition)

    @property
    def newest(self) -> Said | None:
        """What was said last of the replica that is there now."""
        return self.said[-1] if self.said and not self.is_former else None

    @property
    def applied(self) -> int | None:
        """The last offset that it is known to hold."""
        return None if self.newest is None else self.newest.offsets.get(self.gauge)

    @property
    def came(self) -> Came | None:
        """When a standby's report came; None of a commit."""
        if self.newest is None or self.newest.came_ms is None or self.task.partition is None:
            return None
        return self.store.topic, self.task.partition, self.newest.came_ms


def replicas(
    job: Job, ranges: Ranges, earlier: Mapping[tuple[str, str], tuple[ReplicaReport, ...]] = {}
) -> Iterator[Replica]:
    """Yield one for each task and store; `earlier` is by task and store.

    An offset that a standby reported from another host than its processor's tells
    nothing about the replica that is there now: it counts as unknown.
    """
    for task in job.tasks:
        host = job.host_of(task.processor)
        for store in job.changelogs:
            span = None if task.partition is None else span_of(ranges, store.topic, task.partition)
            gauge = "" if task.partition is None else store.offset_gauge(task.partition)
            every = _said(job, task, gauge)
            mine = tuple(one for one in every if None in (one.host, host) or one.host == host)
            yield Replica(
                *(task, store, host, span, mine or every),
                is_former=not mine,
                earlier=earlier.get((task.name, store.store), ()),
            )


def _said(job: Job, task: Task, gauge: str) -> tuple[Said, ...]:
    """What was said of it: the newest commit and all reports that have the gauge."""
    reports = job.reports.get(task.name, ())
    commits = [one for one in job.checkpoints.get(task.name, ()) if gauge in one.offsets]
    reports_of = commits[-1:] + [one for one in reports if gauge in one.offsets]
    return tuple(sorted(reports_of, key=lambda one: (one.came_ms or 0, one.order)))


def times_asked(every: list[Replica], patience_ms: int) -> set[Came]:
    """What must be known of the changelogs' records to tell these replicas' lag."""
    return {
        at
        for one in every
        if isinstance(one.span, OffsetRange) and one.applied is not None and one.came is not None
        for at in times_to_ask(one.came, one.applied, one.span.end, patience_ms)
    }


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
    span = one.span if isinstance(one.span, OffsetRange) else None
    found: Behind | None = None
    if span is not None:
        found = behind(
            *(span.start, span.end, one.applied, one.came),
            patience_ms=patience_ms,
            first_since=first_since,
        )
    seen = one.newest if one.applied is not None else None
    lag = None if found is None else found.lag
    size = None if seen is None else seen.record_bytes.get(one.store.store)
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
        "end_offset": None if found is None else found.end_offset,
        "written_since": None if found is None else found.written_since,
        "applied_offset": one.applied,
        "applied_source": None if seen is None else seen.source,
        "observed_at": None if seen is None else seen.at_ms,
        "came_at": None if seen is None else seen.came_ms,
        "process": None if seen is None else seen.process or seen.host,
        "lag_records": lag,
        "lag_bytes": None if lag is None or size is None else round(lag * size),
        "unknown_because": (why := _unknown_because(one, found, all_observed, silent_ms)),
        "why": f"not heard for {(silent_ms or 0) / 1000:,.0f} s" if why == NOT_HEARD else None,
    }


def _unknown_because(
    one: Replica, found: Behind | None, all_observed: bool, silent_ms: int | None
) -> str | None:
    if found is None:
        return "no-leader" if isinstance(one.span, Unreachable) else "no-changelog"
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
    """One for each processor that has tasks or has reported a host."""
    for processor in sorted({*job.hosts, *job.places, *(task.processor for task in job.tasks)}):
        host, reported_ms = job.hosts.get(processor, (None, None))
        yield {
            "processor_id": processor,
            "host": host,
            "mode": job.mode_of(processor),
            "tasks": sum(task.processor == processor for task in job.tasks),
            "reported_at": reported_ms,
            "phase": place.phase if (place := job.places.get(processor)) is not None else None,
            "execution_id": None if place is None else place.execution_id,
        }


def task_rows(job: Job) -> Iterator[Row]:
    """One for each assigned task, with the host of its processor."""
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
        if one.span is None:
            gone.setdefault(one.store, []).append(one.task.name)
    for store, tasks in gone.items():
        yield {
            "rule": "no-changelog",
            "seen": f"store {store.store}: its changelog {store.topic} has no partition of {_some(tasks)}",
        }
    by_place: dict[tuple[str, str], list[str]] = {}
    for task in job.tasks:
        host = job.host_of(task.processor)
        if host is not None:
            by_place.setdefault((active_task_of(task.name), host), []).append(task.processor)
    pairs: dict[tuple[str, str, str], list[str]] = {}
    for (active_task, host), processors in sorted(by_place.items()):
        first, *others = sorted(set(processors))
        for other in others:
            pairs.setdefault((first, other, host), []).append(active_task)
    for (first, other, host), shared in pairs.items():
        seen = f"both have {_some(shared)}"
        yield {
            "rule": "same-host",
            "processor_id": first,
            "other_id": other,
            "host": host,
            "seen": seen,
        }
    standbys = {active_task_of(task.name) for task in job.tasks if task.mode != ACTIVE}
    for processor in sorted({task.processor for task in job.tasks}):
        mine = [task for task in job.tasks if task.processor == processor]
        about: Row = {"processor_id": processor, "host": job.host_of(processor)}
        if about["host"] is None:
            yield {"rule": "no-host", **about, "seen": f"{len(mine)} tasks, and no host reported"}
        bare = [t.name for t in mine if t.mode == ACTIVE and t.name not in standbys]
        if standbys and bare and job.changelogs:
            yield {
                "rule": "no-standby",
                **about,
                "seen": f"no standby task of {', '.join(bare[:5])}",
            }
    if job.unreadable:
        yield {
            "rule": "unreadable",
            "seen": f"{job.unreadable} records can't be read, as {job.found.example}",
        }


def _some(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")
