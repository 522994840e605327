"""Changelog lag of every replica, out of what Spark has read of tasks and of applied offsets.

What is read may be large; what is left of it is a row for each task and store, and is judged here by
the rule that everybody else goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Behind, Came, FirstSince, behind, times_to_ask
from samza_dagster.metadata.job_topics import OffsetRange, Ranges, span_of
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.naming import active_task_of

Row = Mapping[str, Any]


class _Replica(NamedTuple):
    """A task's replica of one store, where its changelog begins and ends now, and what is known of it.

    `known` is a row of `applied`'s frames; `is_former`: it tells of another host than the processor's.
    """

    task: Row
    store: StoreChangelog
    span: OffsetRange | Unreachable | None
    known: Row | None
    is_former: bool

    @property
    def applied(self) -> int | None:
        return None if self.known is None or self.is_former else self.known["applied_offset"]

    @property
    def came(self) -> Came | None:
        """When a standby's report came; None of a commit."""
        if self.known is None or self.known["came_ms"] is None:
            return None
        return self.store.topic, self.task["changelog_partition"], self.known["came_ms"]


def changelog_lag(
    tasks: Iterable[Row],
    changelogs: Sequence[StoreChangelog],
    ranges: Ranges,
    known: Iterable[Row],
    first_since: Callable[[Collection[Came]], FirstSince],
    *,
    patience_ms: int,
    all_observed: bool = True,
) -> list[dict[str, str | int | None]]:
    """One row per task and store; `tasks` are rows of `task_locality`, `ranges` those of the changelogs.

    An offset that a standby reported from another host than its processor's tells
    nothing about the replica that is there now: it counts as unknown. `all_observed`: every
    partition was read that tells applied offsets.
    """
    replicas = list(_replicas(tasks, changelogs, ranges, known))
    asked = {
        at
        for one in replicas
        if isinstance(one.span, OffsetRange) and one.applied is not None and one.came is not None
        for at in times_to_ask(one.came, one.applied, one.span.end, patience_ms)
    }
    answers: FirstSince = first_since(asked) if asked else {}
    return [_row(one, patience_ms, answers, all_observed) for one in replicas]


def _replicas(
    tasks: Iterable[Row], changelogs: Sequence[StoreChangelog], ranges: Ranges, known: Iterable[Row]
) -> Iterator[_Replica]:
    told: dict[tuple[str, str], list[Row]] = {}
    for row in known:
        told.setdefault((row["task_name"], row["gauge"]), []).append(row)
    for task in tasks:
        partition = task["changelog_partition"]
        for store in changelogs:
            span = None if partition is None else span_of(ranges, store.topic, partition)
            gauge = "" if partition is None else store.offset_gauge(partition)
            rows = told.get((task["task_name"], gauge), [])
            mine = (row for row in rows if not _is_former(row, task))
            own = max(mine, key=lambda row: row["came_ms"] or 0, default=None)
            yield _Replica(task, store, span, own or (rows[0] if rows else None), own is None)


def _is_former(row: Row, task: Row) -> bool:
    return None not in (row["observed_host"], task["host"]) and row["observed_host"] != task["host"]


def _row(
    one: _Replica, patience_ms: int, first_since: FirstSince, all_observed: bool
) -> dict[str, str | int | None]:
    span = one.span if isinstance(one.span, OffsetRange) else None
    found: Behind | None = None
    if span is not None:
        found = behind(
            *(span.start, span.end, one.applied, one.came),
            patience_ms=patience_ms,
            first_since=first_since,
        )
    seen: Row = one.known if one.applied is not None and one.known is not None else {}
    return {
        **{name: one.task[name] for name in ("task_name", "mode", "processor_id", "host")},
        "active_task": active_task_of(one.task["task_name"]),
        "store": one.store.store,
        "system": one.store.system,
        "changelog": one.store.topic,
        "partition": one.task["changelog_partition"],
        "beginning_offset": None if span is None else span.start,
        "end_offset": None if found is None else found.end_offset,
        "written_since": None if found is None else found.written_since,
        "applied_offset": one.applied,
        "applied_source": seen.get("source"),
        "observed_at_ms": seen.get("observed_at_ms"),
        "lag_records": None if found is None else found.lag,
        "unknown_because": _unknown_because(one, found, all_observed),
    }


def _unknown_because(one: _Replica, found: Behind | None, all_observed: bool) -> str | None:
    if found is None:
        return "no-leader" if isinstance(one.span, Unreachable) else "no-changelog"
    if found.lag is not None:
        return None
    if one.applied is not None:
        return "beyond-end"
    if one.known is not None:
        return "former-host"
    return "no-observation" if all_observed else "no-leader-of-observations"
