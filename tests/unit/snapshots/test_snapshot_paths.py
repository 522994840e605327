"""Where snapshots lie on disk, and which of them readers see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.snapshots.kafka_source import PartitionRange, assignment_json, offsets_json
from samza_dagster.snapshots.tables import SnapshotId, SnapshotTables

pytestmark = pytest.mark.unit


def mark(data: Path, time_ms: int, name: str, text: str = '{"version": 1}') -> None:
    path = data / "complete" / str(time_ms) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_snapshots_are_listed_by_time_and_job(tmp_path: Path) -> None:
    """Oldest first, by number and not by text; drafts of a running write aren't listed."""
    mark(tmp_path, 1000, "a%2Eb.1.json")
    mark(tmp_path, 999, "a%2Eb.1.json")
    mark(tmp_path, 999, "c.x%2Fy.json")
    mark(tmp_path, 999, ".d.1.json.4711")
    tables = SnapshotTables(tmp_path)
    assert tables.snapshots() == [
        SnapshotId(999, "a.b", "1"),
        SnapshotId(999, "c", "x/y"),
        SnapshotId(1000, "a.b", "1"),
    ]
    assert tables.snapshots(job_name="c", job_id="1") == []


def test_an_empty_directory_has_no_snapshots(tmp_path: Path) -> None:
    """Nor need it exist."""
    assert SnapshotTables(tmp_path / "none").snapshots() == []


def test_an_unknown_dataset_is_refused(tmp_path: Path) -> None:
    """The error lists those there are."""
    with pytest.raises(InvalidInput, match="changelog_lag"):
        SnapshotTables(tmp_path).dataset_path("lag")


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}'])
def test_facts_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    """A file of another version is not guessed at."""
    mark(tmp_path, 5, "a.1.json", text)
    with pytest.raises(MalformedRecord, match=r"a\.1\.json"):
        SnapshotTables(tmp_path).facts(SnapshotId(5, "a", "1"))


def test_offset_ranges_as_spark_reads_them() -> None:
    """Partitions as keys of the offsets, as numbers in the assignment."""
    ranges = [
        PartitionRange("t", 0, 3, 9),
        PartitionRange("t", 2, 4, 4),
        PartitionRange("u", 0, 0, 1),
    ]
    assert json.loads(assignment_json(ranges)) == {"t": [0, 2], "u": [0]}
    assert json.loads(offsets_json(ranges, end=False)) == {"t": {"0": 3, "2": 4}, "u": {"0": 0}}
    assert json.loads(offsets_json(ranges, end=True)) == {"t": {"0": 9, "2": 4}, "u": {"0": 1}}
    assert [r.is_empty for r in ranges] == [False, True, False]
