"""Of each standby of a job whether and when it is ready, and what restores of its containers start from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from samza_dagster.lag import (
    Bounds,
    Container,
    Errors,
    FirstSince,
    Forecast,
    ReplicaReadiness,
    ReplicaReport,
    Speeds,
    StorePart,
    after_a_loss,
    last_of,
    of_standby,
    published,
    replica_readiness,
    restore_forecast,
)
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model.naming import active_task_of
from samza_dagster.snapshots.job import ACTIVE, STANDBY, Job
from samza_dagster.snapshots.lag import Replica, Row

ANYWHERE = ""
"""Stands for any host that has no container of the job: nothing is warm there."""


def with_readiness(
    job: Job,
    every: Sequence[tuple[Replica, Row]],
    first_since: FirstSince,
    bounds: Bounds,
    silences_ms: Mapping[str, int],
    errors: Errors | None = None,
) -> tuple[list[Row], list[tuple[bytes, bytes]]]:
    """Complete rows of `changelog_lag`; return rows of `standby_readiness`, and what is published of standbys.

    `silences_ms`: task → for how long it has been silent. `errors` are those of past forecasts.
    """
    bounds = replace(bounds, report_s=job.report_ms / 1000 or bounds.report_s)
    of: dict[str, list[tuple[Replica, Row, ReplicaReadiness]]] = {
        processor: [] for processor in sorted({t.processor for t in job.tasks if t.mode == STANDBY})
    }
    for one, row in every:
        if one.task.mode == STANDBY:
            part = replica_readiness(
                () if one.is_former else _reports(one, row, first_since),
                bounds,
                silent_ms=silences_ms.get(one.task.name, 0),
                reason=row["unknown_because"] or "",
                errors=errors,
            )
            of[one.task.processor].append((one, row, part))
            row["status"], row["why"] = part.judgement.status.value, part.judgement.why
            row["lag_s"] = part.judgement.lag_s
            if part.pace is not None:
                row["apply_per_s"] = part.pace.apply_per_s
                row["write_per_s"] = part.pace.write_per_s
            row.update(_times("ready_in_s", "ready", part.ready))
            row["ready_spread"] = part.ready.spread if part.ready is not None else None
            row["ready_since"] = part.ready_since_ms
    came = [row["came_at"] for mine in of.values() for _, row, _ in mine if row["came_at"]]
    rows: list[Row] = []
    records: list[tuple[bytes, bytes]] = []
    for standby, mine in of.items():
        parts = {(one.task.name, one.store.store, one.task.partition or 0): p for one, _, p in mine}
        verdict = of_standby({f"{s} {number}": p.judgement for (_, s, number), p in parts.items()})
        mine_came = [row["came_at"] for _, row, _ in mine if row["came_at"]]
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
                "came_at": min(mine_came, default=None),
            }
        )
        if came:
            paces = {part: p.pace for part, p in parts.items()}
            records.append(published(standby, verdict, paces, max(came)))
    return rows, records


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


def _reports(one: Replica, row: Row, first_since: FirstSince) -> Iterator[ReplicaReport]:
    """Yield its reports, with where the changelog ended when they came; those of earlier snapshots first.

    Of the oldest and the newest that is known, between these it is taken to have grown evenly: to ask
    the brokers for each of a fleet's reports would cost more than the whole snapshot.
    """
    came = [said for said in one.said if said.came_ms is not None]
    yield from (e for e in one.earlier if not came or e.came_ms < (came[0].came_ms or 0))
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


def restore_rows(
    job: Job, every: Sequence[tuple[Replica, Row]], speeds: Speeds
) -> dict[str, list[Row]]:
    """Return rows of `restore_forecast`, of each active container on each host, and of `host_loss`."""
    by_active: dict[tuple[str, str], list[tuple[Replica, Row]]] = {}
    for one, row in every:
        by_active.setdefault((active_task_of(one.task.name), one.store.store), []).append(
            (one, row)
        )
    hosts = [*sorted(job.known_hosts), ANYWHERE]
    rows: dict[str, list[Row]] = {"restore_forecast": [], "host_loss": []}
    for processor in sorted({task.processor for task in job.tasks if task.mode == ACTIVE}):
        mine = [one for one, _ in every if one.task.processor == processor]
        copies = [by_active[active_task_of(one.task.name), one.store.store] for one in mine]
        standby_hosts = {
            copy.host
            for copy, _ in (each for of_one in copies for each in of_one)
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


def is_restoring(row: Row) -> bool:
    """Whether a row of `changelog_lag` tells how quickly a standby applies: it has more than a second's to apply, and gains."""
    lag_records, apply_per_s, write_per_s = (
        row.get(name) for name in ("lag_records", "apply_per_s", "write_per_s")
    )
    if lag_records is None or apply_per_s is None or write_per_s is None:
        return False
    return row["host"] is not None and lag_records > apply_per_s > write_per_s


def _part(one: Replica, copies: Iterable[tuple[Replica, Row]]) -> StorePart:
    """A copy of which the lag isn't known, as of one beyond its changelog's end, is no warm one."""
    span = one.span if isinstance(one.span, OffsetRange) else None
    return StorePart(
        f"{one.store.store} {one.task.partition}",
        None if span is None else span.start,
        None if span is None else span.end,
        {
            copy.host: row["applied_offset"] + 1
            for copy, row in copies
            if copy.host is not None
            and row["applied_offset"] is not None
            and row["lag_records"] is not None
        },
    )


def _record_bytes(copies: Iterable[tuple[Replica, Row]]) -> float | None:
    sizes = (
        copy.newest.record_bytes.get(copy.store.store)
        for copy, _ in copies
        if copy.newest is not None
    )
    return max((size for size in sizes if size is not None), default=None)


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
