"""A coordinator reads its standbys' lag: a real broker, reports as a container writes them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from samza_dagster.client import PlacementClient, ReplicaLag
from samza_dagster.lag import (
    Bounds,
    Part,
    ReplicaReadiness,
    ReplicaReport,
    of_standby,
    published,
    replica_readiness,
)
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.lag_topic import publish_fleet
from samza_dagster.metadata.topics import ensure_topic, retained
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.plans.conditions import Reported
from tests.rig.job import Job
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


QUIET = "quiet"
IMPATIENT = {
    **SETTINGS,
    "metrics.reporter.snapshot.stream": f"kafka.{QUIET}-metrics",
    "metrics.reporter.snapshot.interval": "1",
    "samza.dagster.standby.stalled.ms": "2000",
}


def report(job: Job, partition: int, standby: dict[str, Any], applied: int | None) -> bytes:
    """A task's snapshot as Samza 1.8.0 writes it, but for the gauges that nobody reads here."""
    header = {
        "job-name": job.name,
        "job-id": "1",
        "exec-env-container-id": standby["execution_id"],
        "container-name": "samza-container-0-0",
        "source": f"TaskName-Standby-Partition {partition}-0",
        "host": standby["host"],
        "time": time.time_ns() // 1_000_000,
        "version": "0.0.1",
        "samza-version": "1.8.0",
        "reset-time": 1,
    }
    gauges = {f"kafka-{job.name}-s-{partition}-offset": None if applied is None else str(applied)}
    group = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
    return json.dumps({"header": header, "metrics": group}).encode()


def published_of(
    looks: Sequence[Sequence[ReplicaLag]], as_of_ms: int
) -> list[tuple[bytes, bytes | None]]:
    """What is published of each standby by the reports that a client saw at these looks."""
    of: dict[str, dict[Part, ReplicaReadiness]] = {}
    for part in (lag for lag in looks[-1] if lag.mode is TaskMode.STANDBY):
        reports = [
            ReplicaReport(lag.came_ms, lag.execution_id or "", lag.end_offset - 1 - lag.lag, 0, lag.end_offset)
            for lags in looks
            for lag in lags
            if (lag.task_name, lag.store) == (part.task_name, part.store)
            and lag.lag is not None
            and lag.end_offset is not None
            and lag.came_ms
        ]  # fmt: skip
        found = replica_readiness(reports, Bounds(report_s=5))
        of.setdefault(part.processor_id, {})[part.task_name, part.store, part.partition] = found
    return [
        published(
            standby,
            of_standby({str(part): one.judgement for part, one in parts.items()}),
            {part: one.pace for part, one in parts.items()},
            as_of_ms,
            60_000,
        )
        for standby, parts in of.items()
    ]


def limits(client: PlacementClient, lags: Sequence[ReplicaLag]) -> set[int]:
    """What a wait and a drain let 0-0 be behind: 0 records, or what it applies in 3 s."""
    newest, bounds = client.readiness(lags), CatchUp(0, 0.0, 1.0, 3.0)
    return {
        Reported.read(client).limit("0-0", bounds),
        Reported({}, {}, {}, newest).limit("0-0", bounds),
    }


def test_the_status_shows_how_far_a_standby_is(job_of: Callable[..., Job]) -> None:
    """From two reports of each of its tasks: records, and a forecast by its speed.

    What a client saw of the same reports and published, waits, bounces, drains and the next question go by.
    """
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
    with job.client() as client:
        looks = [client.lag()]
    found = lag(89, lambda seen: seen["records"] == 20 and seen["ready_in_ms"] is not None)
    assert 0 < found["ready_in_ms"] < 30_000
    assert found["age_ms"] < 20_000
    with job.client() as client:
        looks.append(client.lag())
        newest_ms = max(one.came_ms for one in looks[-1] if one.came_ms is not None)
        # One that is too old is said, and nobody goes by it.
        of = job.name, "1"
        old = {of: published_of(looks, newest_ms - 60_001)}
        assert publish_fleet(job.connection, old) == {}
        assert limits(client, looks[-1]) == {0}
        (told,) = [text for text in client.explain("0", "STANDBY").notices if "0-0: " in text]
        assert told.endswith("it isn't used")
    assert publish_fleet(job.connection, {of: published_of(looks, newest_ms)}) == {}
    with job.client() as client:
        applies = client.readiness(looks[-1]).apply_per_s("0-0")
        assert applies > 0
        assert limits(client, looks[-1]) == {int(3 * applies)}
        assert client.standbys_now("0").notices
        (told,) = [text for text in client.explain("0", "STANDBY").notices if "0-0: " in text]
        assert "a takeover now would wait" in told
        assert client.readiness(looks[-1]).apply_per_s("1-0") == 0
    assert lag(99, lambda seen: seen["records"] == 0)["ready_in_ms"] == 0
    assert "lag" not in job.processors()["1-0"]
    assert missing() == 1


def test_a_standby_that_never_tells_an_offset_is_restarted(
    bootstrap_servers: str, job_of: Callable[..., Job]
) -> None:
    """Not while nobody of the job reports: the log says then that it isn't known."""
    cluster = KafkaCluster(bootstrap_servers)
    ensure_topic(cluster, f"{QUIET}-s", partitions=4)
    ensure_topic(cluster, f"{QUIET}-metrics", config=retained(3_600_000))
    job = job_of(QUIET, settings=IMPATIENT)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    before, written = job.processors(), 0

    def go_on(reporting: str = "") -> None:
        """Each changelog grows, and `reporting` tells that it has applied all of it."""
        nonlocal written
        written += 1
        for partition in range(4):
            producer.produce(f"{QUIET}-s", key=str(written), value=b"v", partition=partition)
        assert producer.flush(10) == 0
        for partition in (1, 3) if reporting else ():
            standby = job.processors()[reporting]
            producer.produce(f"{QUIET}-metrics", value=report(job, partition, standby, written - 1))
        assert producer.flush(10) == 0

    def said() -> bool:
        go_on()
        log = (job.directory / "coordinator.log").read_text()
        return all(
            f"whether {before[name]['execution_id']} applies anything isn't known" in log
            for name in ("0-0", "1-0")
        )

    until("it says that it knows nothing", said, seconds=30)
    assert job.processors() == before

    def another() -> bool:
        go_on("1-0")
        return job.processors()["0-0"]["execution_id"] != before["0-0"]["execution_id"]

    until("another incarnation of 0-0", another, seconds=30)
    after = job.wait_until_running()
    assert {
        name for name in before if after[name]["execution_id"] == before[name]["execution_id"]
    } == {
        "0",
        "1",
        "1-0",
    }
