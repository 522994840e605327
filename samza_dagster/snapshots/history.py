"""What a day of kept snapshots tells of the next one: how far forecasts were off, how fast restores went.

Read with `deltalake`, where the rows are filtered as they are read: no worker of Spark is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from samza_dagster.lag import Forecast, Kept, Past, PastError, back_test, pasts
from samza_dagster.snapshots.arrow import compute
from samza_dagster.snapshots.tables import Tables

REMEMBERED = timedelta(days=1)
MOST_REPLICAS = 200
"""Whose forecasts of a day are judged: their quantiles are told well enough by so many."""
MOST_PACES = 10_000
_REPLICA = ["job_name", "job_id", "task_name", "store"]
_OF_A_FORECAST = ["ready_in_s", "ready_soonest_s", "ready_latest_s", "ready_spread"]


@dataclass(frozen=True)
class History:
    """What became of the forecasts of the last day, and hosts with offsets a second that were applied there."""

    past: PastError
    paces: tuple[tuple[str, float], ...] = ()


def history(store: Tables, at: datetime) -> History:
    """Of the snapshots before `at`."""
    rows: Any = store.opened("changelog_lag").to_pyarrow_dataset()
    newer = compute.field("snapshot_time") > compute.scalar(at - REMEMBERED)
    newer &= compute.field("snapshot_time") < compute.scalar(at)
    restoring = compute.field("lag_records") > compute.field("apply_per_s")
    restoring &= compute.field("apply_per_s") > compute.field("write_per_s")
    paces = rows.to_table(columns=["host", "apply_per_s"], filter=newer & restoring)
    return History(
        back_test(_pasts(rows, newer)),
        tuple(
            (row["host"], row["apply_per_s"])
            for row in paces.slice(max(0, paces.num_rows - MOST_PACES)).to_pylist()
            if row["host"] is not None
        ),
    )


def _pasts(rows: Any, newer: Any) -> Iterator[Past]:
    forecast = newer & (compute.field("ready_in_s") > 0) & compute.field("ready_spread").is_valid()
    made = rows.to_table(columns=_REPLICA, filter=forecast).group_by(_REPLICA).aggregate([])
    if not made.num_rows:
        return
    tasks = compute.unique(made["task_name"])
    columns = [*_REPLICA, "came_at", "process", *_OF_A_FORECAST, "ready_since"]
    kept = rows.to_table(columns=columns, filter=newer & compute.field("task_name").isin(tasks))
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
