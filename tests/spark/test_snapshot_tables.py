"""Snapshots as Parquet: written once per time, read back whole, never half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.snapshots import Snapshot
from samza_dagster.snapshots.schemas import DATASETS
from samza_dagster.snapshots.tables import SnapshotId, SnapshotTables

pytestmark = pytest.mark.spark

AT = 1_795_264_717_000
YW = SnapshotId(AT, "yw", "1")
EDGE = SnapshotId(100_000, "edge", "1")
EDGE_NEWER = SnapshotId(100_001, "edge", "1")


@pytest.fixture(scope="module")
def tables(
    recorded_snapshot: Snapshot, edge_snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory
) -> SnapshotTables:
    """One snapshot of `yw`, two of `edge`, whose older one was written twice."""
    tables = SnapshotTables(tmp_path_factory.mktemp("data"))
    for snapshot in (recorded_snapshot, edge_snapshot, edge_snapshot, newer(edge_snapshot)):
        tables.write(snapshot)
    return tables


def newer(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, snapshot_time_ms=snapshot.snapshot_time_ms + 1)


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def times_of(frame: Any) -> set[SnapshotId]:
    return {SnapshotId(r["snapshot_time"], r["job_name"], r["job_id"]) for r in rows_of(frame)}


@pytest.mark.parametrize("dataset", DATASETS)
def test_what_is_read_back_is_what_was_computed(
    tables: SnapshotTables, edge_snapshot: Snapshot, spark: Any, dataset: str
) -> None:
    """Values, types and column order survive; writing twice leaves each row once."""
    frame = tables.read(spark, dataset, [EDGE])
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        (c.name, c.type) for c in DATASETS[dataset]
    ]
    assert sorted(rows_of(frame), key=repr) == sorted(edge_snapshot.rows(dataset), key=repr)


def test_history_holds_every_complete_snapshot(tables: SnapshotTables, spark: Any) -> None:
    """All jobs and times, oldest first."""
    assert tables.snapshots() == [EDGE, EDGE_NEWER, YW]
    assert tables.snapshots(job_name="yw") == [YW]
    assert times_of(tables.read(spark, "task_locality")) == {EDGE, EDGE_NEWER, YW}


def test_the_last_snapshot_is_each_jobs_own(tables: SnapshotTables, spark: Any) -> None:
    """A newer snapshot of one job hides that job's older one alone."""
    assert times_of(tables.read_last(spark, "task_locality")) == {EDGE_NEWER, YW}


def test_a_write_that_was_cut_short_is_not_seen(
    edge_snapshot: Snapshot, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure after the first of three datasets leaves nothing for readers."""
    own = SnapshotTables(tmp_path)
    whole = Snapshot.frame

    def failing(self: Snapshot, dataset: str) -> Any:
        if dataset == "task_locality":
            raise OSError("disk full")
        return whole(self, dataset)

    monkeypatch.setattr(Snapshot, "frame", failing)
    with pytest.raises(OSError, match="disk full"):
        own.write(edge_snapshot)
    assert own.snapshots() == []
    assert rows_of(own.read_last(spark, "container_locality")) == []


def test_facts_beside_the_rows_tell_what_was_read(tables: SnapshotTables) -> None:
    """Offset ranges and counts are kept, so that a result can be traced to its records."""
    facts = tables.facts(EDGE)
    assert (facts["malformed_keys"], facts["malformed_values"]) == (3, 2)
    assert facts["deployment_id"] == "run-2"
    topics = {r["topic"] for r in facts["ranges"]}
    assert topics == {
        "__samza_coordinator_edge_1",
        "__samza_checkpoint_ver_1_for_edge_1",
        "edge-metrics",
    }
