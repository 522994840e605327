"""What a day of kept snapshots tells: how fast replicas restored, and when each was heard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.lag import Bounds, Speeds
from samza_dagster.snapshots import Tables
from samza_dagster.snapshots.found import Found, Job
from samza_dagster.snapshots.rows import Judge
from samza_dagster.snapshots.tables import arrow_table, last_heard_ms, restores

pytestmark = pytest.mark.unit
NOW = datetime(2023, 11, 14, 12, tzinfo=UTC)


def row(minutes: float, task: str = "Standby-Partition 0-0", **told: Any) -> dict[str, Any]:
    """Of a snapshot so many minutes ago, whose newest report was as old."""
    at_ms = round(1000 * (NOW - timedelta(minutes=minutes)).timestamp())
    about = {"job_name": "demo", "job_id": "1", "task_name": task, "store": "lab", "host": "host-1"}
    return {**about, "snapshot_time": at_ms, "came_at": at_ms, "process": "run-a", **told}


JOBS = {"demo": 300, "often": 10, "never": None}
"""Name → seconds between two reports."""


def job(name: str, seconds: int | None) -> Job:
    config = {"metrics.reporters": "r", "metrics.reporter.r.stream": "kafka.metrics"}
    config |= {"metrics.reporter.r.interval": f"{seconds}"}
    return Job(name, "1", Found({} if seconds is None else config))


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
    """By the brokers' time of the newest, whatever its own clock said; a commit has no other time than its record's."""
    names = ("Standby-Partition 0-0", "Partition 0")
    ahead = NOW + timedelta(days=2)
    tables = kept(
        tmp_path,
        *(row(minutes, names[0], observed_at=ahead) for minutes in (45, 30, 60)),
        row(10, names[1], came_at=None, observed_at=NOW - timedelta(minutes=12)),
    )
    now_ms = round(1000 * NOW.timestamp())
    replicas = {("demo", "1", name, "lab") for name in names}
    heard = last_heard_ms(tables, replicas, now_ms)
    assert {at[2]: (now_ms - ms) / 60_000 for at, ms in heard.items()} == {
        names[0]: 30,
        names[1]: 12,
    }


def test_a_job_s_earlier_reports_are_known_whichever_jobs_are_judged_beside_it(
    tmp_path: Path,
) -> None:
    """One reports every five minutes: the pace of its standbys is computed from reports of an hour."""
    offsets = {"beginning_offset": 0, "applied_offset": 5, "end_offset": 9}
    tables = kept(tmp_path, *(row(minutes, **offsets) for minutes in (50, 20, 10)))
    judge = Judge(
        *(tables, "", {}, {}, {}, round(1000 * NOW.timestamp()), 900_000),
        *(Bounds(), Speeds(None, 10.0)),
    )
    slow, often, never = (job(name, seconds) for name, seconds in JOBS.items())
    alone = judge._earlier([slow])
    assert [len(mine) for mine in alone.values()] == [2]
    for others in ([often], [never], [often, never]):
        assert judge._earlier([slow, *others]) == alone
