"""A coordinator reads its standbys' lag: a real broker, reports as a container writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic, retained
from tests.rig.job import Job
from tests.rig.task_report import task_report
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

NAME = "observed"
SETTINGS = {
    "stores.s.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
    "metrics.reporters": "snapshot",
    "metrics.reporter.snapshot.class": "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory",
    "metrics.reporter.snapshot.stream": f"kafka.{NAME}-metrics",
    "metrics.reporter.snapshot.interval": "5",
}


def report(job: Job, partition: int, standby: dict[str, Any], applied: int) -> bytes:
    """Of its task with that partition."""
    gauge = f"kafka-{job.name}-s-{partition}-offset"
    return task_report(
        *(job.name, f"Standby-Partition {partition}-0", {gauge: str(applied)}),
        host=standby["host"],
        at_ms=time.time_ns() // 1_000_000,
        execution_id=standby["execution_id"],
    )


def test_the_status_shows_how_far_a_standby_is(job_of: Callable[..., Job]) -> None:
    """From two reports of each of its tasks: records, and a forecast by its speed."""
    job = job_of(NAME, settings=SETTINGS)
    cluster = KafkaCluster(job.bootstrap_servers)
    changelog, metrics = f"{job.name}-s", f"{job.name}-metrics"
    ensure_topic(cluster, changelog, partitions=4)
    producer = Producer({"bootstrap.servers": job.bootstrap_servers})
    for partition in (0, 2):
        for number in range(100):
            producer.produce(changelog, key=str(number), value=b"v", partition=partition)
    assert producer.flush(10) == 0

    def missing() -> int:
        log = (job.directory / "coordinator.log").read_text()
        return log.count(f"no metrics topic {metrics}")

    standby = job.processors()["0-0"]
    assert "lag" not in standby
    until("it is told that nobody reports", lambda: missing() == 1)
    ensure_topic(cluster, metrics, config=retained(3_600_000))

    def lag(applied: int, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Reports go on, as a container's do, until the status says so."""

        def shown() -> dict[str, Any] | None:
            found = job.processors()["0-0"].get("lag")
            if found is not None and wanted(found):
                return found
            for partition in (0, 2):
                producer.produce(metrics, value=report(job, partition, standby, applied))
            assert producer.flush(10) == 0
            return None

        return until(f"lag after {applied}", shown, seconds=30)

    # Partition 0 and 2 are the tasks of processor 0: 100 records each.
    found = lag(9, lambda seen: seen["records"] == 180)
    assert found["ready_in_ms"] is None
    found = lag(89, lambda seen: seen["records"] == 20 and seen["ready_in_ms"] is not None)
    assert 0 < found["ready_in_ms"] < 30_000
    assert found["age_ms"] < 20_000
    assert lag(99, lambda seen: seen["records"] == 0)["ready_in_ms"] == 0
    assert "lag" not in job.processors()["1-0"]
    assert missing() == 1
