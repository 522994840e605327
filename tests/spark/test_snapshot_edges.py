"""A small job written by hand, full of what goes wrong on real clusters."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata import Connection
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.spark.conftest import at, edge_stream

pytestmark = pytest.mark.spark


def lag_of(snapshot: FleetSnapshot, store: str, task: str) -> dict[str, Any]:
    (row,) = [
        r for r in snapshot.rows("changelog_lag") if (r["store"], r["task_name"]) == (store, task)
    ]
    return row


def located(snapshot: FleetSnapshot) -> dict[str, tuple[Any, ...]]:
    rows = snapshot.rows("container_locality")
    return {r["processor_id"]: (r["host"], r["mode"], r["tasks"]) for r in rows}


def test_a_deleted_locality_leaves_the_processor_without_a_host(
    edge_snapshot: FleetSnapshot,
) -> None:
    """The tombstone wins over the report before it, for the processor and its tasks."""
    assert located(edge_snapshot)["1"] == (None, "Active", 1)
    tasks = {r["task_name"]: r for r in edge_snapshot.rows("task_locality")}
    assert (tasks["Partition 1"]["host"], tasks["Partition 1"]["reported_at"]) == (None, None)


def test_a_processor_of_an_earlier_job_model_shows_as_having_no_tasks(
    edge_snapshot: FleetSnapshot,
) -> None:
    """Its host record was never deleted; without tasks its id tells the mode."""
    assert located(edge_snapshot)["7-0"] == ("h7", "Standby", 0)


def test_our_coordinator_has_a_container_before_it_says_anything(
    edge_snapshot: FleetSnapshot,
) -> None:
    """Its host, phase and process; how long a start took; a host by its agent alone is one to restore on."""
    rows = {r["processor_id"]: r for r in edge_snapshot.rows("container_locality")}
    told = [(r["host"], r["phase"], r["execution_id"]) for r in (rows["1-1"], rows["5"])]
    assert told == [("h8", "starting", "1-1-of-1"), ("h5", "running", "5-of-1")]
    assert (rows["0"]["host"], rows["0"]["phase"]) == ("h1", None)
    restores = {(r["processor_id"], r["host"]): r for r in edge_snapshot.rows("restore_forecast")}
    assert "h9" in {host for _, host in restores}


def test_how_long_a_start_took_is_told_by_our_coordinator(edge_snapshot: FleetSnapshot) -> None:
    """Container 5 was told to start and checked in 7 s later: so long is a start of which nothing is restored."""
    warm = [r for r in edge_snapshot.rows("restore_forecast") if r["records"] == 0]
    assert {r["restore_s"] for r in warm} <= {7.0}


def test_a_task_taken_from_the_assignment_is_gone(edge_snapshot: FleetSnapshot) -> None:
    """`Partition 9`'s assignment was deleted, its mode record lingers."""
    assert "Partition 9" not in {r["task_name"] for r in edge_snapshot.rows("task_locality")}


def test_unreadable_records_are_counted_named_and_hide_nothing(
    edge_snapshot: FleetSnapshot,
) -> None:
    """Three keys that are no `[version, type, key]`, two values without content, a checkpoint, a report."""
    assert edge_snapshot.unreadable == 7
    assert set(located(edge_snapshot)) == {"0", "0-0", "1", "1-0", "7-0", "5", "1-1"}
    seen = [r["seen"] for r in edge_snapshot.rows("violations") if r["rule"] == "unreadable"]
    stream = "__samza_coordinator_edge_1-0"
    assert [text.partition(": ")[0] for text in sorted(seen)] == [
        "1 records can't be read, as offset 4 of edge-metrics-1",
        f"6 records can't be read, as offset {len(edge_stream()) - 5} of {stream}",
    ]


def test_violations_name_what_is_wrong_and_with_whom(edge_snapshot: FleetSnapshot) -> None:
    """One row for all records of the job that can't be read; those of a shared topic are nobody's."""
    rows = edge_snapshot.rows("violations")
    assert {(r["rule"], r["job_name"], r["processor_id"]) for r in rows} == {
        ("no-host", "edge", "1"),
        ("no-changelog", "edge", None),
        ("unreadable", "edge", None),
        ("unreadable", None, None),
    }


def test_an_aborted_transaction_never_happened(edge_snapshot: FleetSnapshot) -> None:
    """Processor 0's move to `orphan` was aborted; the one to `h1` before it was committed."""
    assert located(edge_snapshot)["0"] == ("h1", "Active", 1)


def test_a_stream_that_ends_in_a_transaction_marker_is_read_to_its_end(
    edge_snapshot: FleetSnapshot,
) -> None:
    """Its last offset is a marker; the record before the last markers was seen, and no partition given up."""
    assert edge_snapshot.unread == {}
    assert {r["deployment_id"] for r in edge_snapshot.rows("container_locality")} == {"run-2"}


def test_a_standby_that_never_reported_has_unknown_lag(edge_snapshot: FleetSnapshot) -> None:
    """Null, not 0: nothing is known of it. Another job's task of the same name doesn't count."""
    row = lag_of(edge_snapshot, "s1", "Standby-Partition 0-0")
    assert (row["applied_offset"], row["lag_records"]) == (None, None)
    assert row["unknown_because"] == "no-observation"


def test_what_was_written_since_a_standby_reported_is_no_lag(edge_snapshot: FleetSnapshot) -> None:
    """Five records when its report came, of which it had four; five more since, half a second later.

    What a former host, whose clock is ahead, reported after it hides nothing.
    """
    row = lag_of(edge_snapshot, "s3", "Standby-Partition 1-0")
    assert (row["end_offset"], row["applied_offset"], row["lag_records"]) == (5, 3, 1)
    assert row["written_since"] == 5


def test_a_changelog_ending_in_a_transaction_marker_counts_the_marker(
    edge_snapshot: FleetSnapshot,
) -> None:
    """3 records and a marker: end 4. The active holds record 1, so 2 offsets are left."""
    row = lag_of(edge_snapshot, "s1", "Partition 0")
    assert (row["end_offset"], row["applied_offset"], row["lag_records"]) == (4, 1, 2)


def test_a_checkpoint_of_the_first_version_tells_the_offset_too(
    edge_snapshot: FleetSnapshot,
) -> None:
    """`<checkpoint id>:<offset>` in the older record, when no newer one follows it."""
    row = lag_of(edge_snapshot, "s1", "Partition 0")
    assert (row["applied_source"], row["observed_at"]) == ("checkpoint-v1", at(2_000))


def test_a_changelog_that_does_not_exist_is_named_so(edge_snapshot: FleetSnapshot) -> None:
    """Store s2's topic was never created; it must not stop the snapshot."""
    row = lag_of(edge_snapshot, "s2", "Partition 0")
    assert (row["end_offset"], row["lag_records"]) == (None, None)
    assert row["unknown_because"] == "no-changelog"


def test_what_a_standby_reported_from_its_former_host_is_not_believed(
    edge_snapshot: FleetSnapshot,
) -> None:
    """It reported from h3 and is on h2 now: nothing is known of the copy on h2."""
    row = lag_of(edge_snapshot, "s3", "Standby-Partition 0-0")
    assert (row["applied_offset"], row["lag_records"]) == (None, None)
    assert row["unknown_because"] == "former-host"


def test_a_store_without_changelog_has_no_rows(edge_snapshot: FleetSnapshot) -> None:
    """`cache` is configured without a changelog."""
    assert {r["store"] for r in edge_snapshot.rows("changelog_lag")} == {"s1", "s2", "s3"}


def test_a_job_that_was_never_deployed_is_named(
    bootstrap_servers: str, workers: Workers, tables: Tables
) -> None:
    """No coordinator stream: the error says which topic was looked for, and no topic is made to ask for the time."""
    job = Connection(bootstrap_servers, "nobody", "1")
    for moment in (at(0), None):
        with pytest.raises(InvalidInput, match="__samza_coordinator_nobody_1"):
            take_fleet(workers, [job], moment, tables)
    topics = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics().topics
    assert not [name for name in topics if "nobody" in name]


def test_no_broker_is_unreachable(workers: Workers, tables: Tables) -> None:
    """A port that nobody listens on ends in time, with the address in the error."""
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        take_fleet(workers, [Connection("127.0.0.1:1", "yw")], at(0), tables)
