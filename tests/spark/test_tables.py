"""Tables that others read, that two may write at once, and that are tidied."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.snapshots import FleetSnapshot, Tables
from samza_dagster.snapshots.schemas import TABLES
from samza_dagster.snapshots.tables import paths_of
from tests.spark.conftest import RECORDED_AT_MS, at

pytestmark = pytest.mark.spark
HOUR = timedelta(hours=1)


def add(tables: Tables, job: str, ms: int) -> None:
    """A snapshot's locality: one container."""
    row = {"snapshot_time": ms, "job_name": job, "job_id": "1", "processor_id": "0", "tasks": 2}
    tables.commit("container_locality", [tables.write("container_locality", [row])])


def test_another_tool_reads_them(recorded_snapshot: FleetSnapshot, tables: Tables) -> None:
    """`deltalake`, without Spark: the same rows, times as times, and what each column holds."""
    from deltalake import DeltaTable

    table = DeltaTable(tables.location("changelog_lag"))
    rows: Any = table.to_pyarrow_table(filters=[("snapshot_time", "=", recorded_snapshot.at)])
    assert sorted(map(repr, rows.to_pylist())) == sorted(
        map(repr, recorded_snapshot.rows("changelog_lag"))
    )
    told = {one.name: one.metadata["comment"] for one in table.schema().fields}
    assert told == {column.name: column.doc for column in TABLES["changelog_lag"]}


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


def test_old_snapshots_are_dropped_and_small_files_joined(tmp_path: Path) -> None:
    """What a killed run has left goes too, once it can't be one that is under way."""
    tables, now = Tables(f"file://{tmp_path}"), at(RECORDED_AT_MS)
    for age in (2 * HOUR, timedelta(minutes=2), timedelta(minutes=1)):
        add(tables, "a", int((now - age).timestamp() * 1000))
    assert tables.tidy(HOUR, now)["container_locality"] == 1
    table = tables.opened("container_locality")
    assert len(table.file_uris()) == 1
    assert table.to_pyarrow_table().num_rows == 2
    assert len(list(tables.read("container_locality", paths_of(table)))) == 2
