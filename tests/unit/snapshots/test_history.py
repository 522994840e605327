"""What a day of kept snapshots tells: how fast replicas restored, and when each was heard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.snapshots import Tables
from samza_dagster.snapshots.tables import arrow_table, last_heard_ms, restores

pytestmark = pytest.mark.unit
NOW = datetime(2023, 11, 14, 12, tzinfo=UTC)


def row(minutes: float, task: str = "Standby-Partition 0-0", **told: Any) -> dict[str, Any]:
    """Of a snapshot so many minutes ago, whose newest report was as old."""
    at_ms = round(1000 * (NOW - timedelta(minutes=minutes)).timestamp())
    about = {"job_name": "demo", "job_id": "1", "task_name": task, "store": "lab", "host": "host-1"}
    return {**about, "snapshot_time": at_ms, "came_at": at_ms, "process": "run-a", **told}


def kept(directory: Path, *rows: dict[str, Any]) -> Tables:
    tables = Tables(str(directory))
    tables.add("changelog_lag", arrow_table("changelog_lag", rows))
    return tables


def test_paces_are_those_of_who_caught_up_within_a_day(tmp_path: Path) -> None:
    """One that stands at the end applies as fast as is written, and no faster than it could."""
    tables = kept(
        tmp_path,
        row(3, lag_records=90_000, apply_per_s=900.0, write_per_s=100.0),
        row(2, lag_records=5, apply_per_s=100.0, write_per_s=100.0),
        row(2_000, lag_records=90_000, apply_per_s=700.0, write_per_s=100.0),
        row(0, lag_records=90_000, apply_per_s=500.0, write_per_s=100.0),
    )
    pace = restores(tables, NOW).pace
    assert pace is not None
    assert pace.apply_per_s == 900


def test_a_replica_was_heard_when_its_report_came(tmp_path: Path) -> None:
    """By the brokers' time of it, whatever its own clock said; a commit has no other time than its record's."""
    names = ("Standby-Partition 0-0", "Partition 0")
    ahead = NOW + timedelta(days=2)
    tables = kept(
        tmp_path,
        row(30, names[0], observed_at=ahead),
        row(10, names[1], came_at=None, observed_at=NOW - timedelta(minutes=12)),
    )
    now_ms = round(1000 * NOW.timestamp())
    replicas = {("demo", "1", name, "lab") for name in names}
    heard = last_heard_ms(tables, replicas, now_ms)
    assert {at[2]: (now_ms - ms) / 60_000 for at, ms in heard.items()} == {
        names[0]: 30,
        names[1]: 12,
    }
