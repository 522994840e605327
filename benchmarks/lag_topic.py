"""A metrics topic of 1,000 jobs in a real broker, and one of these jobs as it is deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import checkpoint_topic, coordinator_stream_topic
from tests.rig.fleets import Fleet, Shape, reports, spoiled
from tests.rig.fleets.fleet import BEGAN_MS

TOPIC = "metrics"
JOBS = 1_000
RECORDS_A_JOB = 15
"""At least, in each interval: two active containers and two standbys write four records each, slow ones fewer."""
INTERVAL_MS = 10_000
WINDOW_MS = 900_000
"""What a snapshot reads at most: the records' times are squeezed into it, so that all of them are read."""
KEEPS_ALL = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
"""A metrics topic isn't compacted, and the fleet's reports are days old."""


def fill(servers: str, records: int, more: int, now_ms: int) -> Iterator[int]:
    """Writes that many records of a fleet into one partition, and `more` when asked again; their bytes.

    The last of them all is of `now_ms`.

    A few come first that nobody should have written.
    """
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 100_000,
        }
    )
    intervals = -(-(records + more) // (JOBS * RECORDS_A_JOB)) + 1
    written = size = 0
    told = reports(Fleet(Shape(jobs=JOBS)), intervals * INTERVAL_MS)
    squeezed = min(1.0, 0.95 * WINDOW_MS / (intervals * INTERVAL_MS))
    for report in chain(spoiled("job-0000", "Standby-Partition 0-0", "host-000"), told):
        while True:
            try:
                age_ms = BEGAN_MS + intervals * INTERVAL_MS - report.at_ms
                at_ms = round(now_ms - squeezed * age_ms)
                producer.produce(TOPIC, report.value, partition=0, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        size += len(report.value)
        written += 1
        if written in (records, records + more):
            assert producer.flush(120) == 0
            yield size
            size = 0
        if written == records + more:
            return
    raise AssertionError(f"the fleet ended after {written} records")


def deploy(servers: str, job: str) -> None:
    """The job's own streams, as small as they can be: so its snapshot reads the metrics and little else."""
    from confluent_kafka import Producer

    cluster, producer = KafkaCluster(servers), Producer({"bootstrap.servers": servers})
    stream = coordinator_stream_topic(job, "1")
    for topic, partitions in (
        (stream, 1),
        (checkpoint_topic(job, "1"), 1),
        (f"{job}-lab-changelog", 4),
    ):
        ensure_topic(cluster, topic, partitions=partitions)
    config = {
        "job.name": job,
        "job.id": "1",
        "job.default.system": "kafka",
        "stores.lab.factory": "F",
        "stores.lab.changelog": f"kafka.{job}-lab-changelog",
        "metrics.reporters": "snapshot",
        "metrics.reporter.snapshot.stream": f"kafka.{TOPIC}",
        "metrics.reporter.snapshot.interval": str(WINDOW_MS // 3_000),  # the longest window
    }
    entries = [("set-config", name, {"value": value}) for name, value in config.items()]
    for number in range(4):
        task, container = f"Standby-Partition {number}-0", f"{number % 2}-0"
        entries.append(("set-task-container-assignment", task, {"containerId": container}))
        entries.append(("set-task-mode-assignment", task, {"taskMode": "Standby"}))
        entries.append(("set-changelog", f"Partition {number}", {"Partition": str(number)}))
    for kind, key, values in entries:
        value = {"host": "h", "source": "s", "username": "u", "timestamp": 1, "values": values}
        producer.produce(stream, json.dumps(value), json.dumps([1, kind, key]), partition=0)
    assert producer.flush(60) == 0
