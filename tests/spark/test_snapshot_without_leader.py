"""A snapshot while one partition of a changelog has lost its only broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from samza_dagster.metadata import Connection
from samza_dagster.snapshots import Tables, Workers, take_fleet
from tests.rig.leaderless import FIRST, SECOND, two_brokers

pytestmark = pytest.mark.spark

CONFIG = {
    "job.name": "lone",
    "job.id": "1",
    "app.run.id": "run-1",
    "stores.s.factory": "F",
    "stores.s.changelog": "kafka.lone-s",
    "metrics.reporters": "snap",
    "metrics.reporter.snap.class": "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory",
    "metrics.reporter.snap.stream": "kafka.lone-metrics",
}


def entry(kind: str, key: str, **values: str) -> tuple[str, str]:
    """A record of the coordinator stream as Samza writes it."""
    body = {"host": "w", "source": "t", "username": "u", "timestamp": 1_000, "values": values}
    return json.dumps([1, kind, key], separators=(",", ":")), json.dumps(body)


def test_rows_of_a_partition_without_a_leader_say_so_and_the_others_are_known(
    tmp_path: Path, workers: Workers
) -> None:
    """An empty changelog has no lag; the lost one's isn't known, nor is what it may have held."""
    from confluent_kafka import Producer

    with two_brokers(tmp_path) as brokers:
        brokers.create("__samza_coordinator_lone_1", [FIRST])
        brokers.create("lone-s", [FIRST, SECOND])
        brokers.create("lone-metrics", [FIRST, SECOND], {})
        producer = Producer({"bootstrap.servers": brokers.servers})
        records = [entry("set-config", key, value=value) for key, value in CONFIG.items()]
        for partition in ("0", "1"):
            task = f"Partition {partition}"
            records += [
                entry("set-task-container-assignment", task, containerId=partition),
                entry("set-task-mode-assignment", task, taskMode="Active"),
                entry("set-changelog", task, Partition=partition),
                entry("set-container-host-assignment", partition, host=f"h{partition}"),
            ]
        for key, value in records:
            producer.produce("__samza_coordinator_lone_1", value, key)
        producer.produce("lone-s", b"v", b"k", 0)
        assert producer.flush(20) == 0
        brokers.stop_second()
        settings = Connection(brokers.servers, "lone", "1")
        snapshot = take_fleet(
            workers, [settings], datetime.now(UTC), Tables(str(tmp_path / "tables"))
        )
        rows = {row["task_name"]: row for row in snapshot.rows("changelog_lag")}
    first, second = rows["Partition 0"], rows["Partition 1"]
    assert (first["end_offset"], first["unknown_because"]) == (1, "no-leader-of-observations")
    assert (second["end_offset"], second["lag_records"]) == (None, None)
    assert second["unknown_because"] == "no-leader"
    assert {row["host"] for row in rows.values()} == {"h0", "h1"}
