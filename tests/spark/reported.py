"""A job of its own for a test: an active and its standby, one store, and what they write to each topic."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from samza_dagster.metadata import Connection
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.spark.conftest import Record, Topics, at, checkpoint_v2, entry, metrics_report

NOW_MS = 500_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
TASKS = {"Partition 0": "0", "Standby-Partition 0-0": "0-0"}
HOSTS = {"0": "h0", "0-0": "h1"}


def deployed(
    name: str,
    *,
    run: str = "run-1",
    hosts: Mapping[str, str] = HOSTS,
    tasks: Mapping[str, str] = TASKS,
    partition: str = "0",
) -> list[Record]:
    """A coordinator stream: settings, tasks by processor, the changelog's partition, hosts."""
    config = {
        "job.name": name,
        "job.id": "1",
        "app.run.id": run,
        "job.default.system": "kafka",
        "stores.s.factory": "F",
        "stores.s.changelog": f"kafka.{name}-changelog",
        "metrics.reporters": "r",
        "metrics.reporter.r.stream": f"kafka.{name}-metrics",
        "metrics.reporter.r.interval": "10",
    }
    records: list[Record] = [entry("set-config", key, value=config[key]) for key in config]
    for task, processor in tasks.items():
        mode = "Standby" if task.startswith("Standby-") else "Active"
        records.append(entry("set-task-container-assignment", task, containerId=processor))
        records.append(entry("set-task-mode-assignment", task, taskMode=mode))
    records.append(entry("set-changelog", "Partition 0", Partition=partition))
    return [
        *records,
        *(entry("set-container-host-assignment", p, host=h) for p, h in hosts.items()),
    ]


def report(name: str, applied: int | None, at_ms: int = NOW_MS - 5_000, host: str = "h1") -> Record:
    """What the standby of a job reports."""
    gauges = {f"kafka-{name}-changelog-0-offset": applied}
    return metrics_report(name, "Standby-Partition 0-0", host, gauges, at_ms)


def commit(name: str, offset: int, at_ms: int = NOW_MS - 5_000) -> Record:
    """A checkpoint of the active of a job."""
    return checkpoint_v2("Partition 0", {"s": (f"{name}-changelog", 0, str(offset))}, at_ms)


class Reported:
    """A job of its own: an active and its standby, one store; topics of its own."""

    numbers = count(1)

    def __init__(self, topics: Topics, workers: Workers, directory: Path) -> None:
        self.topics, self.workers = topics, workers
        self.name = f"reported{next(self.numbers)}"
        self.stream, self.metrics = f"__samza_coordinator_{self.name}_1", f"{self.name}-metrics"
        self.changelog = f"{self.name}-changelog"
        self.checkpoints = checkpoint_topic(self.name, "1")
        self.tables = Tables(str(directory / "tables"))
        self.job = Connection(topics.bootstrap, self.name, "1")
        for topic in (self.stream, self.metrics, self.changelog):
            topics.create(topic)
        topics.fill(self.stream, self.deployed())

    def deployed(self) -> list[Record]:
        """Its coordinator stream."""
        return deployed(self.name)

    def write(self, count: int) -> None:
        """Add records to the changelog, long ago."""
        self.topics.fill(self.changelog, [("k", "v", 1)] * count)

    def report(self, applied: int | None, at_ms: int, host: str = "h1") -> None:
        """What the standby reports."""
        self.topics.fill(self.metrics, [report(self.name, applied, at_ms, host)])

    def commit(self, offset: int, at_ms: int) -> None:
        """What the active's checkpoint says."""
        self.topics.fill(self.checkpoints, [commit(self.name, offset, at_ms)])

    def move(self, *hosts: str) -> None:
        """Container 0 reports these hosts, one after the other."""
        moved = [entry("set-container-host-assignment", "0", host=host) for host in hosts]
        self.topics.fill(self.stream, moved)

    def made_anew(self, records: list[Record]) -> None:
        """Its coordinator stream holds these records alone."""
        self.topics.create(self.stream)
        self.topics.fill(self.stream, records)

    def take(self, at_ms: int = NOW_MS, tables: Tables | None = None) -> FleetSnapshot:
        return take_fleet(self.workers, [self.job], at(at_ms), tables or self.tables)


def standby_lag(snapshot: FleetSnapshot) -> tuple[Any, ...]:
    """Applied offset, lag, and why it isn't known, of the standby's only replica."""
    (row,) = (r for r in snapshot.rows("changelog_lag") if r["mode"] == "Standby")
    return row["applied_offset"], row["lag_records"], row["unknown_because"]


def located(snapshot: FleetSnapshot) -> dict[str, str | None]:
    return {row["processor_id"]: row["host"] for row in snapshot.rows("container_locality")}
