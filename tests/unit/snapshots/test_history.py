"""What a day of kept snapshots tells: how fast replicas restored, and when each was heard."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.lag import Bounds, ReplicaReport, Speeds, speeds
from samza_dagster.snapshots import Tables
from samza_dagster.snapshots import tables as tables_module
from samza_dagster.snapshots.found import Found, Job
from samza_dagster.snapshots.rows import Judge
from samza_dagster.snapshots.tables import (
    REMEMBERED,
    arrow_table,
    earlier_reports,
    last_heard_ms,
    restores,
)

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


NOW_MS = round(1000 * NOW.timestamp())
DAY = REMEMBERED.total_seconds() / 60
MINUTES = (-1, 0, 3, DAY - 1, DAY, DAY + 1)
"""Ages of snapshots: of the future, of now, of the day before, and older."""


def is_remembered(minutes: float) -> bool:
    """What a snapshot takes from earlier ones: those of the day before."""
    return 0 < minutes < DAY


def test_paces_are_those_of_who_caught_up_within_a_day(tmp_path: Path) -> None:
    """More than a second behind and gaining: at the end it applies as fast as is written, not as it could."""
    every = [
        (host, row(minutes, host=host, lag_records=left, apply_per_s=pace, write_per_s=100.0))
        for n, (minutes, host, left, rate) in enumerate(
            product(MINUTES, ("host-1", "host-2", None), (None, 300, 90_000), (None, 90.0, 400.0))
        )
        for pace in [rate and rate + n / 1000]
    ]
    told = [
        (host, one["apply_per_s"])
        for host, one in every
        if is_remembered((NOW_MS - one["snapshot_time"]) / 60_000)
        and host is not None
        and (one["lag_records"] or 0) > (one["apply_per_s"] or 0) > 100
    ]
    tables = kept(tmp_path, *(one for _, one in every))
    assert restores(tables, NOW) == speeds(told, (), 0.0)
    assert len(told) == 4


def test_of_more_paces_than_are_kept_the_newest_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time of their snapshot, in whatever order the table's files have them."""
    monkeypatch.setattr(tables_module, "MOST_PACES", 2)
    paces = {5: 400.0, 50: 300.0, 30: 200.0}
    rows = (
        row(minutes, host="host-1", lag_records=90_000, apply_per_s=pace, write_per_s=100.0)
        for minutes, pace in paces.items()
    )
    newest = (("host-1", paces[minutes]) for minutes in (30, 5))
    assert restores(kept(tmp_path, *rows), NOW) == speeds(newest, (), 0.0)


def test_reports_of_earlier_snapshots_are_those_of_the_time_and_jobs_that_are_asked_for(
    tmp_path: Path,
) -> None:
    """In order, each once, by the brokers' time; one whose changelog couldn't be read tells nothing."""
    since_ms, before_ms = NOW_MS - 50 * 60_000, NOW_MS - 15 * 60_000
    times = (since_ms - 1, since_ms, before_ms - 1, before_ms)
    offsets = {"beginning_offset": 1, "applied_offset": 5}
    rows = [
        row(minutes, job_name=name, came_at=came_ms, end_offset=end, **offsets)
        for minutes, name, came_ms, end in product(
            MINUTES, ("demo", "other"), reversed(times), (9, None)
        )
    ]
    found = earlier_reports(kept(tmp_path, *rows), ["demo"], NOW_MS, since_ms, before_ms)
    reports = tuple(ReplicaReport(ms, "run-a", 5, 1, 9) for ms in times[1:3])
    assert found == {("demo", "1", "Standby-Partition 0-0", "lab"): reports}


def test_a_replica_was_heard_last_by_a_snapshot_of_the_day_before(tmp_path: Path) -> None:
    """What nobody asks about, or nothing was seen of, is left out; so is what would be of the future."""
    asked, unheard, other = (f"Partition {n}" for n in range(3))
    rows = [row(minutes, asked, observed_at=NOW) for minutes in MINUTES]
    rows += [row(3, unheard, observed_at=None), row(3, other, observed_at=NOW)]
    rows += [row(3, asked, store="more", observed_at=NOW)]
    rows += [row(3, asked, observed_at=NOW, job_name="ahead", came_at=NOW_MS)]
    of = {("demo", "1", task, "lab") for task in (asked, unheard)} | {("ahead", "1", asked, "lab")}
    heard: Mapping[Any, int] = last_heard_ms(kept(tmp_path, *rows), of, NOW_MS)
    assert heard == {("demo", "1", asked, "lab"): NOW_MS - 3 * 60_000}


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


@pytest.mark.parametrize("lost", [9, 10])
def test_rows_that_lose_their_commit_to_others_are_added_again_or_the_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """Ten times; they are never lost in silence, nor there twice."""
    write_deltalake = tables_module.write_deltalake
    failures = iter([tables_module.CommitFailedError("another committed")] * lost)

    def write(*given: Any, **named: Any) -> None:
        for error in failures:
            raise error
        write_deltalake(*given, **named)

    monkeypatch.setattr(tables_module, "write_deltalake", write)
    with nullcontext() if lost < 10 else pytest.raises(Unreachable, match="another committed"):
        kept(tmp_path, row(3))
    found = Tables(str(tmp_path)).opened("changelog_lag").to_pyarrow_table()
    assert found.num_rows == (lost < 10)
