"""What earlier snapshots tell: how fast restores went, what a replica reported before, when it was heard last.

Earlier snapshots are history and never the present. They are read with `deltalake`, where rows are filtered as
they are read.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from samza_dagster.lag import ReplicaReport, Speeds, speeds
from samza_dagster.snapshots.arrow import compute
from samza_dagster.snapshots.tables import Tables, day_of

REMEMBERED = timedelta(days=1)
MOST_PACES = 10_000
_TABLE = "changelog_lag"
_REPLICA = ("job_name", "job_id", "task_name", "store")
Replica = tuple[str, str, str, str]
_field = compute.field


def restores(tables: Tables, at: datetime) -> Speeds:
    """Return how fast standbys restored in the day before `at`, by host."""
    restoring = _field("lag_records") > _field("apply_per_s")
    restoring &= (_field("apply_per_s") > _field("write_per_s")) & _field("host").is_valid()
    seen = _day_before(tables, at, restoring, "host", "apply_per_s")
    newest = seen.slice(max(0, seen.num_rows - MOST_PACES)).to_pylist()
    return speeds(((row["host"], row["apply_per_s"]) for row in newest), (), 0.0)


def earlier_reports(
    tables: Tables, jobs: Collection[str], at_ms: int, since_ms: int, before_ms: int
) -> dict[tuple[str, str], dict[tuple[str, str], tuple[ReplicaReport, ...]]]:
    """Return reports of standbys that came from `since_ms` on, in order: job → task and store → reports.

    `jobs` are names, `at_ms` is now; of a report that several snapshots had there is one.
    """
    came = _field("came_at")
    mine = (came >= compute.scalar(_time(since_ms))) & (came < compute.scalar(_time(before_ms)))
    mine &= _field("job_name").isin(sorted(jobs)) & _field("end_offset").is_valid()
    columns = ("came_at", "process", "applied_offset", "beginning_offset", "end_offset")
    found = _day_before(tables, _time(at_ms), mine, *_REPLICA, *columns).sort_by("came_at")
    reports: dict[Any, dict[Any, dict[datetime, ReplicaReport]]] = {}
    for row in found.to_pylist():
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
    mine = _field("task_name").isin(sorted({task for _, _, task, _ in replicas}))
    mine &= _field("observed_at").is_valid()
    heard: dict[Replica, int] = {}
    found = _day_before(tables, _time(at_ms), mine, *_REPLICA, "came_at", "observed_at")
    for row in found.to_pylist():
        replica: Replica = tuple(row[name] for name in _REPLICA)  # pyright: ignore[reportAssignmentType]
        if replica in replicas:
            heard_ms = _ms(row["came_at"] or row["observed_at"])
            heard[replica] = max(heard_ms, heard.get(replica, 0))
    return {replica: ms for replica, ms in heard.items() if ms < at_ms}


def _day_before(tables: Tables, at: datetime, wanted: Any, *columns: str) -> Any:
    """Read rows of the lags that snapshots had in the day before `at`, as a `pyarrow.Table`."""
    time, day = _field("snapshot_time"), _field("snapshot_day")
    wanted &= (day >= day_of(at - REMEMBERED)) & (day <= day_of(at))
    wanted &= (time > compute.scalar(at - REMEMBERED)) & (time < compute.scalar(at))
    opened = tables.opened(_TABLE)
    with tables.errors_at(_TABLE):
        return opened.to_pyarrow_dataset().to_table(columns=list(columns), filter=wanted)


def _ms(at: datetime) -> int:
    return round(1000 * at.timestamp())


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
