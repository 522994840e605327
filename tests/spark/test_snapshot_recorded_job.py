"""The snapshot of a job recorded on a real cluster; expected rows were written by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from samza_dagster.metadata import Connection
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.rig.pace import PACE
from tests.spark.conftest import RECORDED_AT_MS, at

pytestmark = pytest.mark.spark

AT = RECORDED_AT_MS
RUN = "1795264662180-8201457e"
STAMP = {"snapshot_time": at(AT), "job_name": "yw", "job_id": "1", "deployment_id": RUN}


def pick(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_container_locality_is_what_each_processor_reported_last(
    recorded_snapshot: FleetSnapshot,
) -> None:
    """Of 47 recorded reports the last of each of the four processors counts."""
    expected = [
        ("0", "nm1", "Active", 2, at(1795264687371)),
        ("0-0", "nm2", "Standby", 2, at(1795264684358)),
        ("1", "nm2", "Active", 2, at(1795264686026)),
        ("1-0", "nm1", "Standby", 2, at(1795264685722)),
    ]
    names = ("processor_id", "host", "mode", "tasks", "reported_at")
    by_yarn = {"phase": None, "execution_id": None}
    rows = recorded_snapshot.rows("container_locality")
    assert rows == [{**STAMP, **dict(zip(names, row, strict=True)), **by_yarn} for row in expected]


def test_task_locality_joins_each_task_to_the_host_of_its_processor(
    recorded_snapshot: FleetSnapshot,
) -> None:
    """Active tasks 0 and 2 are on nm1, their standbys on nm2, and the other way round."""
    rows = recorded_snapshot.rows("task_locality")
    assert pick(rows, "task_name", "processor_id", "host", "mode", "changelog_partition") == [
        ("Partition 0", "0", "nm1", "Active", 0),
        ("Partition 1", "1", "nm2", "Active", 1),
        ("Partition 2", "0", "nm1", "Active", 2),
        ("Partition 3", "1", "nm2", "Active", 3),
        ("Standby-Partition 0-0", "0-0", "nm2", "Standby", 0),
        ("Standby-Partition 1-0", "1-0", "nm1", "Standby", 1),
        ("Standby-Partition 2-0", "0-0", "nm2", "Standby", 2),
        ("Standby-Partition 3-0", "1-0", "nm1", "Standby", 3),
    ]
    assert pick(rows[:1], *STAMP) == [tuple(STAMP.values())]


def test_changelog_lag_of_actives_is_from_checkpoints_and_of_standbys_from_metrics(
    recorded_snapshot: FleetSnapshot,
) -> None:
    """Ends 65850, 65843, 65839, 65900 against the offsets in the recorded messages."""
    rows = recorded_snapshot.rows("changelog_lag")
    active, standby = "checkpoint-v2", "metrics"
    assert pick(
        rows,
        "partition",
        "task_name",
        "end_offset",
        "applied_offset",
        "lag_records",
        "applied_source",
        "observed_at",
    ) == [
        (0, "Partition 0", 65850, 65834, 15, active, at(1795264713939)),
        (0, "Standby-Partition 0-0", 65850, 65838, 11, standby, at(1795264714631)),
        (1, "Partition 1", 65843, 65825, 17, active, at(1795264712560)),
        (1, "Standby-Partition 1-0", 65843, 65842, 0, standby, at(1795264715774)),
        (2, "Partition 2", 65839, 65834, 4, active, at(1795264713970)),
        (2, "Standby-Partition 2-0", 65839, 65838, 0, standby, at(1795264714629)),
        (3, "Partition 3", 65900, 65825, 74, active, at(1795264712580)),
        (3, "Standby-Partition 3-0", 65900, 65841, 58, standby, at(1795264715780)),
    ]
    assert {row["store"] for row in rows} == {"lab"}
    assert {row["changelog"] for row in rows} == {"yw-lab-changelog"}
    assert {row["unknown_because"] for row in rows} == {None}


def test_nothing_recorded_is_unreadable(recorded_snapshot: FleetSnapshot) -> None:
    """695 records of a real cluster, 47 of them deletions."""
    assert (recorded_snapshot.unreadable, recorded_snapshot.unread) == (0, {})


def test_bytes_left_are_by_the_size_of_what_the_standby_has_written(
    recorded_snapshot: FleetSnapshot,
) -> None:
    """33 bytes a record, by its store's own counters: 11 records are left of the first."""
    rows = recorded_snapshot.rows("changelog_lag")
    assert [r["lag_bytes"] for r in rows if r["mode"] == "Standby"] == [363, 0, 0, 1914]


@dataclass
class Later:
    snapshot: FleetSnapshot
    cpu_s: float


@pytest.fixture(scope="module")
def an_hour_later(
    recorded_snapshot: FleetSnapshot, recorded_job: Connection, workers: Workers, tables: Tables
) -> Later:
    """Nothing was written since. The session is warm by now."""
    assert recorded_snapshot.at == at(AT)
    before = cpu_seconds()
    snapshot = take_fleet(workers, [recorded_job], at(AT + 3_600_000), tables)
    return Later(snapshot, cpu_seconds() - before)


def cpu_seconds() -> float:
    """Of this process, Spark's JVM and its workers: the machine's other work doesn't count."""
    here = psutil.Process()
    times = [p.cpu_times() for p in (here, *here.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def test_what_has_no_report_or_commit_in_the_window_is_not_heard(an_hour_later: Later) -> None:
    """Lag is unknown, not 0; since when nothing was heard is told by the snapshot before."""
    rows = an_hour_later.snapshot.rows("changelog_lag")
    assert {(r["lag_records"], r["applied_offset"], r["unknown_because"]) for r in rows} == {
        (None, None, "not-heard")
    }
    actives = [r["why"] for r in rows if r["mode"] == "Active"]
    commits = (1795264713939, 1795264712560, 1795264713970, 1795264712580)
    assert actives == [f"not heard for {(AT + 3_600_000 - ms) / 1000:,.0f} s" for ms in commits]
    standbys = an_hour_later.snapshot.rows("standby_readiness")
    assert {r["status"] for r in standbys} == {"silent"}


def test_a_warm_snapshot_costs_seconds(an_hour_later: Later) -> None:
    """All three datasets for under 6 s of processor time, once warm; each part is timed."""
    assert 0 < an_hour_later.cpu_s < 6.0 * PACE
    assert {"coordinator_streams", "reports", "judge", "write"} <= set(
        an_hour_later.snapshot.seconds
    )
