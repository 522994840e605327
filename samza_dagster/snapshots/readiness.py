"""Of each standby of a job whether and when it is ready, and what restores of its containers start from. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from samza_dagster.errors import Unreachable
from samza_dagster.lag import (
    Bounds,
    Container,
    Errors,
    FirstSince,
    Forecast,
    ReplicaReport,
    ReplicaReports,
    Speeds,
    StandbyReadiness,
    StorePart,
    host_losses,
    published,
    restore_forecast,
    standby_readiness,
)
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model.naming import active_task_of
from samza_dagster.snapshots.job import ACTIVE, STANDBY, Job
from samza_dagster.snapshots.lag import Replica, Row

ANYWHERE = ""
"""Stands for any host that has no container of the job: nothing is warm there."""
CONTAINERS = "containers"
"""Rows of what restores start from, which `restore_rows` takes once speeds are known."""
PUBLISHED = "published"
"""Rows of what is published of standbys: its key as `processor_id`, its value as `why`."""


def with_readiness(
    job: Job,
    every: Sequence[tuple[Replica, Row]],
    first_since: FirstSince,
    bounds: Bounds,
    silences_ms: Mapping[str, int],
    errors: Errors | None = None,
) -> Iterator[tuple[str, Row]]:
    """Rows of `changelog_lag`, completed, of `standby_readiness` and of `PUBLISHED`, each with its name.

    `silences_ms`: task → for how long it has been silent. `errors` are those of past forecasts.
    """
    bounds = replace(bounds, report_s=job.report_ms / 1000 or bounds.report_s)
    standbys = [(one, row) for one, row in every if one.task.mode == STANDBY]
    judged = standby_readiness(
        (_standby(one, row, first_since, silences_ms) for one, row in standbys),
        bounds,
        errors,
        without_changelog=[
            (processor, job.host_of(processor))
            for processor in sorted({t.processor for t in job.tasks if t.mode == STANDBY})
        ],
    )
    parts = {(p.task, p.store): p for standby in judged for p in standby.parts}
    for one, row in every:
        part = parts.get((one.task.name, one.store.store))
        if part is not None:
            row["status"], row["why"] = part.status.value, part.why
            row["lag_s"] = part.lag_s
            if part.pace is not None:
                row["apply_per_s"] = part.pace.apply_per_s
                row["write_per_s"] = part.pace.write_per_s
            row.update(_times("ready_in_s", "ready", part.ready))
            row["ready_spread"] = part.ready.spread if part.ready is not None else None
            row["ready_since"] = part.ready_since_ms
        yield "changelog_lag", row
    rows_of: dict[str, list[Row]] = {}
    for one, row in standbys:
        rows_of.setdefault(one.task.processor, []).append(row)
    for standby in judged:
        yield (
            "standby_readiness",
            _readiness_row(
                standby, job.active_of(standby.standby), rows_of.get(standby.standby, [])
            ),
        )
    came = [row["came_at"] for _, row in standbys if row["came_at"] is not None]
    for key, value in published(judged, max(came)) if came else ():
        yield PUBLISHED, {"processor_id": key.decode(), "why": value.decode()}


def times_asked(every: Iterable[Replica]) -> set[tuple[str, int, int]]:
    """When each standby's oldest report came: where its changelog ended then."""
    return {
        (one.store.topic, one.task.partition, oldest)
        for one in every
        if one.task.mode == STANDBY
        and isinstance(one.span, OffsetRange)
        and one.task.partition is not None
        and len(one.said) > 1
        and (oldest := one.said[0].came_ms) is not None
    }


def _standby(
    one: Replica, row: Row, first_since: FirstSince, silences_ms: Mapping[str, int]
) -> ReplicaReports:
    return ReplicaReports(
        standby=one.task.processor,
        host=one.host,
        task=one.task.name,
        store=one.store.store,
        partition=one.task.partition or 0,
        reports=() if one.is_former else tuple(_reports(one, row, first_since)),
        silent_ms=silences_ms.get(one.task.name, 0),
        reason=row["unknown_because"] or "",
    )


def _reports(one: Replica, row: Row, first_since: FirstSince) -> Iterator[ReplicaReport]:
    """Its reports, with where the changelog ended when they came.

    Of the oldest and the newest that is known, between these it is taken to have grown evenly: to ask
    the brokers for each of a fleet's reports would cost more than the whole snapshot.
    """
    came = [said for said in one.said if said.came_ms is not None]
    if not came or not isinstance(one.span, OffsetRange) or one.task.partition is None:
        return
    oldest_ms, newest_ms = came[0].came_ms or 0, came[-1].came_ms or 0
    newest_end: int = row["end_offset"]
    oldest_end = first_since.get((one.store.topic, one.task.partition, oldest_ms), newest_end)
    per_ms = (newest_end - oldest_end) / max(1, newest_ms - oldest_ms)
    for said in came:
        applied, at_ms = said.offsets.get(one.gauge), said.came_ms or 0
        end = newest_end if said is came[-1] else oldest_end + round(per_ms * (at_ms - oldest_ms))
        if applied is not None and applied < newest_end:
            end = max(end, applied + 1)
        yield ReplicaReport(at_ms, said.process or said.host or "", applied, one.span.start, end)


def _readiness_row(standby: StandbyReadiness, active: str, rows: Sequence[Row]) -> Row:
    came = [row["came_at"] for row in rows if row["came_at"] is not None]
    return {
        "processor_id": standby.standby,
        "active_id": active,
        "host": standby.host,
        "replicas": len(rows),
        "status": standby.status.value,
        "why": standby.why,
        "lag_records": _sum(row["lag_records"] for row in rows),
        "lag_bytes": _sum(row["lag_bytes"] for row in rows),
        "lag_s": standby.lag_s,
        **_times("ready_in_s", "ready", standby.ready),
        "came_at": min(came, default=None),
    }


def container_rows(job: Job, every: Sequence[tuple[Replica, Row]]) -> Iterator[Row]:
    """For each active container what its stores are restored from, and where copies of them are."""
    by_active: dict[tuple[str, str], list[tuple[Replica, Row]]] = {}
    for one, row in every:
        by_active.setdefault((active_task_of(one.task.name), one.store.store), []).append(
            (one, row)
        )
    for processor in sorted({task.processor for task in job.tasks if task.mode == ACTIVE}):
        parts: list[Row] = []
        standby_hosts: set[str] = set()
        for one, _ in every:
            if one.task.processor == processor:
                copies = by_active[active_task_of(one.task.name), one.store.store]
                parts.append(_part(one, copies))
                standby_hosts |= {
                    copy.host for copy, _ in copies if copy.task.mode == STANDBY and copy.host
                }
        readiness = {
            "parts": parts,
            "standby_hosts": sorted(standby_hosts),
            "hosts": sorted(job.known_hosts),
        }
        yield {
            "processor_id": processor,
            "host": job.host_of(processor),
            "why": json.dumps(readiness),
        }


def _part(one: Replica, copies: Iterable[tuple[Replica, Row]]) -> Row:
    span = None if isinstance(one.span, Unreachable) else one.span
    sizes = [
        size
        for copy, _ in copies
        if copy.newest is not None
        and (size := copy.newest.record_bytes.get(one.store.store)) is not None
    ]
    return {
        "name": f"{one.store.store} {one.task.partition}",
        "beginning": None if span is None else span.start,
        "end": None if span is None else span.end,
        "warm": {
            copy.host: row["applied_offset"] + 1
            for copy, row in copies
            if copy.host is not None and row["applied_offset"] is not None
        },
        "record_bytes": max(sizes, default=None),
    }


def restore_rows(row: Row, speeds: Speeds, fleet: Collection[str]) -> Iterator[tuple[str, Row]]:
    """Rows of `restore_forecast` and `host_loss`, of a row of `container_rows`; `fleet`: hosts of all jobs."""
    readiness = json.loads(row["why"])
    sizes = [part.pop("record_bytes") for part in readiness["parts"]]
    container = Container(
        row["job_name"],
        row["processor_id"],
        row["host"],
        tuple(StorePart(**part) for part in readiness["parts"]),
        tuple(readiness["standby_hosts"]),
    )
    hosts: list[str] = [*sorted({*readiness["hosts"], *fleet}), ANYWHERE]
    for host in hosts:
        found = restore_forecast(container, host, speeds)
        lefts = [part.left(host) for part in container.parts]
        yield (
            "restore_forecast",
            {
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
            },
        )
    for loss in host_losses([container], hosts, speeds):
        for lost in loss.containers:
            best = lost.best
            yield (
                "host_loss",
                {
                    "host": loss.host,
                    "processor_id": lost.processor_id,
                    "has_standby": lost.has_standby,
                    "back_on": (best.host or None) if best is not None else None,
                    **_times("downtime_s", "downtime", None if best is None else best.down),
                    "why": (best.why or None) if best is not None else "no other host is known",
                },
            )


def _times(name: str, prefix: str, known: Forecast | None) -> Row:
    """A forecast in seconds."""
    if known is None:
        return {}
    return {
        name: _seconds(known.ready_in_ms),
        f"{prefix}_soonest_s": _seconds(known.soonest_ms),
        f"{prefix}_latest_s": _seconds(known.latest_ms),
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
