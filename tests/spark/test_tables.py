"""Tables that others read, that two may write at once, and that are tidied."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import Refused, Unreachable
from samza_dagster.snapshots import FleetSnapshot, Tables
from samza_dagster.snapshots.schemas import TABLES
from samza_dagster.snapshots.tables import arrow_table
from tests.spark.conftest import RECORDED_AT_MS, at, newest

pytestmark = pytest.mark.spark
DAY_MS = 86_400_000
pyarrow: Any = import_module("pyarrow")


def add(tables: Tables, job: str, ms: int) -> None:
    """A snapshot of one container."""
    row = {"snapshot_time": ms, "job_name": job, "job_id": "1", "processor_id": "0", "tasks": 2}
    for table in ("container_locality", "snapshots"):
        tables.add(table, arrow_table(table, [row]))


def times(tables: Tables) -> list[Any]:
    """Of the snapshots whose containers are in the table."""
    return sorted(
        tables.opened("container_locality").to_pyarrow_table()["snapshot_time"].to_pylist()
    )


def test_another_tool_reads_them(recorded_snapshot: FleetSnapshot, tables: Tables) -> None:
    """`deltalake`, without Spark: the same rows, times as times, and what each column holds."""
    from deltalake import DeltaTable

    table = DeltaTable(tables.location("changelog_lag"))
    rows: Any = table.to_pyarrow_table(filters=[("snapshot_time", "=", recorded_snapshot.at)])
    assert set(rows["snapshot_day"].to_pylist()) == {"2026-11-21"}
    told = rows.drop_columns(["snapshot_day"]).to_pylist()
    assert sorted(map(repr, told)) == sorted(map(repr, recorded_snapshot.rows("changelog_lag")))
    comments = {one.name: one.metadata["comment"] for one in table.schema().fields}
    assert comments == {column.name: column.doc for column in TABLES["changelog_lag"]}


def test_another_tool_may_ask_by_any_column(
    recorded_snapshot: FleetSnapshot, tables: Tables
) -> None:
    """By texts, numbers, times and null; files tell bounds, and no row is passed over for them."""
    from deltalake import DeltaTable

    pc: Any = import_module("pyarrow.compute")
    table: Any = DeltaTable(tables.location("changelog_lag"))
    rows = recorded_snapshot.rows("changelog_lag")
    for name in ("mode", "lag_records", "apply_per_s", "why", "came_at"):
        for value in {row[name] for row in rows}:
            asked = pc.field(name).is_null() if value is None else pc.field(name) == value
            its = (pc.field("snapshot_time") == recorded_snapshot.at) & asked
            found: Any = table.to_pyarrow_dataset().to_table(filter=its)
            wanted = sum(row[name] == value for row in rows)
            assert found.num_rows == wanted, (name, value)


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each commit is whole; none is there twice."""
    tables = Tables(str(tmp_path))

    def write(job: str) -> None:
        for ms in range(5):
            add(tables, job, ms)

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, ("a", "b")))
    rows = tables.opened("container_locality").to_pyarrow_table().to_pylist()
    assert sorted((r["job_name"], r["snapshot_time"]) for r in rows) == [
        (job, at(ms)) for job in ("a", "b") for ms in range(5)
    ]


def test_days_before_the_newest_snapshot_s_are_dropped_and_files_of_days_that_are_over_joined(
    tmp_path: Path,
) -> None:
    """Whole days; today's files are left as they are, for others may be adding to them."""
    tables, days = Tables(f"file://{tmp_path}"), (3, 3, 1, 1, 0, 0)
    ages = [days_ago * DAY_MS + number for number, days_ago in enumerate(days)]
    for age in ages:
        add(tables, "a", RECORDED_AT_MS - age)
    assert tables.tidy(timedelta(days=2))["container_locality"] == 2
    kept = sorted(at(RECORDED_AT_MS - age) for age in ages[2:])
    assert times(tables) == kept
    assert len(tables.opened("container_locality").file_uris()) == 1 + 2
    assert len(newest(tables, "container_locality")) == 1


def test_a_clock_that_is_ahead_drops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is old is told by the newest snapshot, and no clock is asked."""
    tables = Tables(str(tmp_path))
    for age in (DAY_MS, 0):
        add(tables, "a", RECORDED_AT_MS - age)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 60 * 86_400)
    monkeypatch.setattr(time, "time_ns", lambda: round((now + 60 * 86_400) * 1e9))
    assert set(tables.tidy(timedelta(days=30)).values()) == {0}
    assert len(times(tables)) == 2


def test_writers_and_maintenances_side_by_side_leave_each_row_once(tmp_path: Path) -> None:
    """Four of each, all at once, over days that are over: joined files have no row twice, and none is lost."""
    tables = Tables(str(tmp_path))
    for number in range(12):
        add(tables, "a", RECORDED_AT_MS - number % 3 * DAY_MS - number)

    def work(number: int) -> None:
        if number % 2:
            tables.tidy(timedelta(days=30))
        else:
            for late in range(3):
                add(tables, f"late-{number}", RECORDED_AT_MS - DAY_MS - 100 * number - late)

    with ThreadPoolExecutor(8) as side_by_side:
        list(side_by_side.map(work, range(8)))
    tables.tidy(timedelta(days=30))
    rows = tables.opened("container_locality").to_pyarrow_table().to_pylist()
    assert len(rows) == len({(r["job_name"], r["snapshot_time"]) for r in rows}) == 12 + 4 * 3


def test_what_was_dropped_cannot_be_committed(tmp_path: Path) -> None:
    """A writer that was paused between its look at the table and its commit, until its day was dropped."""
    tables = Tables(str(tmp_path))
    add(tables, "a", RECORDED_AT_MS - 40 * DAY_MS)
    seen = [tables.opened("container_locality")]

    class Paused(Tables):
        def opened(self, table: str) -> Any:
            return seen.pop() if seen else super().opened(table)

    add(tables, "a", RECORDED_AT_MS)
    tables.tidy(timedelta(days=30))
    with pytest.raises(Refused, match="have been dropped"):
        add(Paused(str(tmp_path)), "late", RECORDED_AT_MS - 40 * DAY_MS)
    assert not seen
    assert times(tables) == [at(RECORDED_AT_MS)]


FOREIGN = {
    "violations/2025-report.csv": "a,b\n",
    "snapshots/db-backup.tar.gz": "backup",
    "changelog_lag/sales/2025-01.parquet": "sales",
}


def test_a_place_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """Somebody's files, older than any day; nothing is made beside them, nothing is removed."""
    for name, text in FOREIGN.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, (0, 0))
    tables = Tables(str(tmp_path))
    for name in FOREIGN:
        with pytest.raises(Refused, match=name) as refused:
            tables.opened(name.partition("/")[0])
        assert "1 files" in refused.value.seen
    with pytest.raises(Refused):
        tables.tidy(timedelta(days=1))
    there = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert there == FOREIGN.keys()


def test_somebody_s_delta_table_is_refused(tmp_path: Path) -> None:
    """It has our table's name, and not our property."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(tmp_path / "violations"), pyarrow.table({"rule": ["theirs"]}))
    with pytest.raises(Refused, match="without our property"):
        Tables(str(tmp_path)).opened("violations")
    table = DeltaTable(str(tmp_path / "violations"))
    assert (table.version(), table.to_pyarrow_table().to_pylist()) == (0, [{"rule": "theirs"}])


def test_somebody_s_file_inside_our_table_is_never_removed(tmp_path: Path) -> None:
    """Not even from a day that is dropped."""
    tables = Tables(str(tmp_path))
    add(tables, "a", RECORDED_AT_MS - 40 * DAY_MS)
    day = next((tmp_path / "container_locality").glob("snapshot_day=*"))
    for place in (day, tmp_path / "container_locality"):
        (place / "notes.parquet").write_text("mine")
        os.utime(place / "notes.parquet", (0, 0))
    add(tables, "a", RECORDED_AT_MS)
    tables.tidy(timedelta(days=1))
    assert len(list((tmp_path / "container_locality").rglob("notes.parquet"))) == 2
    assert times(tables) == [at(RECORDED_AT_MS)]


def test_a_place_that_cannot_be_written_is_told_in_one_line() -> None:
    """The place, what the library says without its colours, and what to do."""
    with pytest.raises(Unreachable) as caught:
        Tables("file:///proc/nowhere").opened("violations")
    told = str(caught.value)
    assert "/proc/nowhere/violations" in told
    assert caught.value.fix
    assert "\n" not in told
    assert "\x1b" not in told
