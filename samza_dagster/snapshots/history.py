"""What earlier snapshots tell: how far forecasts were off, how fast restores went, when a replica was heard last.

Earlier snapshots are history and never the present. They are read with `deltalake`, where rows are filtered as
they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from samza_dagster.lag import (
    Forecast,
    Kept,
    Past,
    PastError,
    ReplicaReport,
    Speeds,
    back_test,
    pasts,
    speeds,
)
from samza_dagster.snapshots.arrow import compute
from samza_dagster.snapshots.tables import Tables, day_of

REMEMBERED = timedelta(days=1)
MOST_REPLICAS = 200
"""Whose forecasts of a day are judged: their quantiles are told well enough by so many."""
MOST_PACES = 10_000
_TABLE = "changelog_lag"
_REPLICA = ["job_name", "job_id", "task_name", "store"]
_OF_A_FORECAST = ["ready_in_s", "ready_soonest_s", "ready_latest_s", "ready_spread"]
Replica = tuple[str, str, str, str]
_field = compute.field


def history(tables: Tables, at: datetime) -> tuple[PastError, Speeds]:
    """Return what became of the forecasts of the day before `at`, and how fast standbys restored in it, by host."""
    rows, newer = _day_before(tables, at)
    restoring = _field("lag_records") > _field("apply_per_s")
    restoring &= (_field("apply_per_s") > _field("write_per_s")) & _field("host").is_valid()
    with tables.errors_at(_TABLE):
        past = back_test(_pasts(rows, newer))
        seen = rows.to_table(columns=["host", "apply_per_s"], filter=newer & restoring)
        newest = seen.slice(max(0, seen.num_rows - MOST_PACES)).to_pylist()
    return past, speeds(((row["host"], row["apply_per_s"]) for row in newest), (), 0.0)


def earlier_reports(
    tables: Tables, jobs: Collection[str], at_ms: int, since_ms: int, before_ms: int
) -> dict[tuple[str, str], dict[tuple[str, str], tuple[ReplicaReport, ...]]]:
    """Return reports of standbys that came from `since_ms` on, in order: job → task and store → reports.

    `jobs` are names, `at_ms` is now; of a report that several snapshots had there is one.
    """
    rows, newer = _day_before(tables, _time(at_ms))
    came = _field("came_at")
    mine = newer & (came >= _scalar(since_ms)) & (came < _scalar(before_ms))
    mine &= _field("job_name").isin(sorted(jobs)) & _field("end_offset").is_valid()
    columns = [*_REPLICA, "came_at", "process", "applied_offset", "beginning_offset", "end_offset"]
    with tables.errors_at(_TABLE):
        found = rows.to_table(columns=columns, filter=mine).to_pylist()
    reports: dict[Any, dict[Any, dict[datetime, ReplicaReport]]] = {}
    for row in sorted(found, key=_came):
        job, task, store = (row["job_name"], row["job_id"]), row["task_name"], row["store"]
        reports.setdefault(job, {}).setdefault((task, store), {})[row["came_at"]] = ReplicaReport(
            *(_ms(row["came_at"]), row["process"] or "", row["applied_offset"]),
            *(row["beginning_offset"], row["end_offset"]),
        )
    return {
        job: {replica: tuple(known.values()) for replica, known in mine.items()}
        for job, mine in reports.items()
    }


def last_heard_ms(tables: Tables, replicas: Collection[Replica], at_ms: int) -> dict[Replica, int]:
    """Return when the newest report or commit of these replicas came, by the snapshots of the last day."""
    rows, newer = _day_before(tables, _time(at_ms))
    mine = newer & _field("task_name").isin(sorted({task for _, _, task, _ in replicas}))
    mine &= _field("observed_at").is_valid()
    with tables.errors_at(_TABLE):
        found = rows.to_table(columns=[*_REPLICA, "came_at", "observed_at"], filter=mine)
    heard: dict[Replica, int] = {}
    for row in found.to_pylist():
        replica: Replica = tuple(row[name] for name in _REPLICA)  # pyright: ignore[reportAssignmentType]
        if replica in replicas:
            heard_ms = _ms(row["came_at"] or row["observed_at"])
            heard[replica] = max(heard_ms, heard.get(replica, 0))
    return {replica: ms for replica, ms in heard.items() if ms < at_ms}


def _day_before(tables: Tables, at: datetime) -> tuple[Any, Any]:
    """The lags of snapshots, and what chooses those of the day before."""
    time, day = _field("snapshot_time"), _field("snapshot_day")
    newer = (day >= day_of(at - REMEMBERED)) & (day <= day_of(at))
    newer &= (time > compute.scalar(at - REMEMBERED)) & (time < compute.scalar(at))
    return tables.opened(_TABLE).to_pyarrow_dataset(), newer


def _pasts(rows: Any, newer: Any) -> Iterator[Past]:
    forecast = newer & (_field("ready_in_s") > 0) & _field("ready_spread").is_valid()
    made = rows.to_table(columns=_REPLICA, filter=forecast).group_by(_REPLICA).aggregate([])
    if not made.num_rows:
        return
    tasks = compute.unique(made["task_name"])
    columns = [*_REPLICA, "came_at", "process", *_OF_A_FORECAST, "ready_since"]
    kept = rows.to_table(columns=columns, filter=newer & _field("task_name").isin(tasks))
    kept = kept.filter(compute.is_valid(kept["came_at"]))
    wanted = made.slice(0, MOST_REPLICAS)
    found: list[dict[str, Any]] = kept.join(
        wanted, keys=_REPLICA, join_type="left semi"
    ).to_pylist()
    # One report may have been the newest of several snapshots.
    of: dict[tuple[Any, ...], dict[datetime, Kept]] = {}
    for row in sorted(found, key=_came):
        of.setdefault(tuple(row[name] for name in _REPLICA), {})[row["came_at"]] = _kept(row)
    for mine in of.values():
        yield from pasts(list(mine.values()))


def _came(row: Mapping[str, Any]) -> datetime:
    return row["came_at"]


def _kept(row: Mapping[str, Any]) -> Kept:
    soonest, expected, latest = (
        None if row[name] is None else round(1000 * row[name])
        for name in ("ready_soonest_s", "ready_in_s", "ready_latest_s")
    )
    return Kept(
        _ms(row["came_at"]),
        row["process"] or "",
        Forecast(expected, soonest, latest, row["ready_spread"]) if expected else None,
        row["ready_since"] and _ms(row["ready_since"]),
    )


def _ms(at: datetime) -> int:
    return round(1000 * at.timestamp())


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _scalar(ms: int) -> Any:
    return compute.scalar(_time(ms))
