"""What it costs to know where all standbys of a fleet are: our pass, and what it is held against.

`python -m benchmarks.lag --records 250000` (make bench-lag) fills a metrics topic of 1,000 jobs with
reports of the recorded sizes, in a real broker, and reads it by turns: with a plain Python consumer that
computes the same for all jobs, by Spark's connector alone, by the pass over the fleet, and by today's
snapshot of one of the jobs. Each reader is a process of its own; its start is told apart from its
reading, by the clock and by the processor. Whoever computes the fleet must find the same.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.measured_code import ROOT, this_commit, this_machine
from benchmarks.results_file import keep
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import checkpoint_topic, coordinator_stream_topic
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.broker import Broker
from tests.rig.fleets import Fleet, Shape, reports

TOPIC = "metrics"
JOBS = 1_000
RECORDS_A_JOB = 15
"""At least, in each interval: two active containers and two standbys write four records each, slow ones fewer."""
INTERVAL_MS = 10_000
KEEPS_ALL = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
"""A metrics topic isn't compacted, and the fleet's reports are days old."""
READERS = ("python", "connector", "fleet", "one job")
Facts = dict[str, Any]
Row = tuple[str, str, str, str, str, int | None]
"""Job, its id, task, host, gauge, the offset applied last."""


def fill(servers: str, records: int) -> int:
    """Writes that many records of a fleet into one partition; their bytes."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 100_000,
        }
    )
    intervals = -(-records // (JOBS * RECORDS_A_JOB)) + 1
    written = size = 0
    for report in reports(Fleet(Shape(jobs=JOBS)), intervals * INTERVAL_MS):
        while True:
            try:
                producer.produce(TOPIC, report.value, partition=0, timestamp=report.at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        size += len(report.value)
        written += 1
        if written == records:
            break
    assert producer.flush(120) == 0
    assert written == records, f"the fleet ended after {written} records"
    return size


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
        "metrics.reporter.snapshot.interval": str(10**6),  # reads the topic whole, as the others do
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


def newest_by_python(servers: str) -> list[Row]:
    """The plainest consumer that does it: a filter on bytes, orjson, a dictionary."""
    import orjson
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 65_536,
        }
    )
    start, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0))
    consumer.assign([TopicPartition(TOPIC, 0, start)])
    newest: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    position = start
    while position < end:
        for message in consumer.consume(10_000, 1.0):
            position = message.offset() + 1
            value = message.value()
            if b'"TaskName-Standby-' not in value:
                continue
            snapshot = orjson.loads(value)
            header = snapshot["header"]
            replica = (header["job-name"], header["job-id"], header["source"], header["host"])
            newest[replica] = snapshot["metrics"]["org.apache.samza.container.TaskInstanceMetrics"]
    consumer.close()
    return [
        (job, id_, task.removeprefix("TaskName-"), host, name, None if at == "null" or at is None else int(at))
        for (job, id_, task, host), gauges in newest.items()
        for name, at in gauges.items()
        if name.endswith("-offset") and not name.startswith("side-inputs-")
    ]  # fmt: skip


def digest(rows: Iterable[Row]) -> str:
    """The same for the same rows."""
    text = "\n".join(sorted(map(repr, rows)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Costs:
    """Seconds and processor seconds of this process and those that it started, lap by lap."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._wall, self._processor = psutil.Process().create_time(), 0.0

    def lap(self, name: str) -> None:
        """Ends a lap; the first began with the process."""
        wall, processor = time.time(), self._spent()
        self.laps[f"{name}_s"] = round(wall - self._wall, 2)
        self.laps[f"{name}_processor_s"] = round(processor - self._processor, 2)
        self._wall, self._processor = wall, processor

    @staticmethod
    def _spent() -> float:
        me = psutil.Process()
        return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


def read(servers: str, reader: str) -> Facts:
    """One reader, in this process."""
    costs, found = Costs(), ""
    if reader == "python":
        costs.lap("start")
        rows = newest_by_python(servers)
        costs.lap("read")
        return {"found": digest(rows), "rows": len(rows), **costs.laps}
    with _session(fleet=reader != "one job") as spark:
        spark.range(1).count()
        costs.lap("start")
        rows = _READ_BY_SPARK[reader](spark, servers)
        costs.lap("read")
        found = digest(rows) if reader == "fleet" else ""
    return {"found": found, "rows": len(rows), **costs.laps}


@contextlib.contextmanager
def _session(*, fleet: bool) -> Iterator[Any]:
    from samza_dagster.snapshots import connector_jars, spark_session
    from samza_dagster.snapshots.class_archive import dump

    jars = connector_jars()
    session = spark_session(jars, class_archive=dump(jars), many_records=fleet)
    try:
        yield session
    finally:
        session.stop()


def _range(servers: str) -> list[Any]:
    from confluent_kafka import Consumer, TopicPartition

    from samza_dagster.snapshots.kafka_source import PartitionRange

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    try:
        return [PartitionRange(TOPIC, 0, *consumer.get_watermark_offsets(TopicPartition(TOPIC, 0)))]
    finally:
        consumer.close()


def _options(servers: str) -> dict[str, str]:
    from samza_dagster.snapshots.settings import spark_options

    return spark_options(Connection(servers, "bench", "1"))


def _discarded(spark: Any, servers: str) -> list[Row]:
    from samza_dagster.snapshots.kafka_source import read_records

    records = read_records(spark, {**_options(servers), "minPartitions": "2"}, _range(servers))
    records.write.format("noop").mode("overwrite").save()
    return []


def _fleet(spark: Any, servers: str) -> list[Row]:
    from samza_dagster.snapshots.fleet_reports import read_fleet_reports

    found = read_fleet_reports(spark, _options(servers), _range(servers), splits=2)
    names = ("job_name", "job_id", "task_name", "observed_host", "gauge", "applied_offset")
    assert found.unreadable.count() == 0
    return [tuple(row) for row in found.newest.select(*names).collect()]


def _one_job(spark: Any, servers: str) -> list[Row]:
    from samza_dagster.snapshots import compute_snapshot

    job = Fleet(Shape(jobs=1)).groups[0].job
    snapshot = compute_snapshot(Connection(servers, job, "1"), spark, int(time.time() * 1000))
    rows = snapshot.rows("changelog_lag")
    assert len(rows) == 4
    return [(job, "1", r["task_name"], r["host"], r["store"], r["applied_offset"]) for r in rows]


_READ_BY_SPARK: dict[str, Callable[[Any, str], list[Row]]] = {
    "connector": _discarded,
    "fleet": _fleet,
    "one job": _one_job,
}


def measure(records: int, rounds: int) -> Facts:
    """All readers by turns, `rounds` times; the quickest reading of each counts."""
    jar_paths("spark-kafka")
    best: dict[str, Facts] = {}
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            servers = broker.bootstrap_servers
            ensure_topic(KafkaCluster(servers), TOPIC, partitions=1, config=KEEPS_ALL)
            size = fill(servers, records)
            (span,) = _range(servers)
            assert span.end - span.start == records, f"{span}"
            deploy(servers, Fleet(Shape(jobs=1)).groups[0].job)
            for reader in READERS * rounds:
                facts = _in_a_process(servers, reader)
                if reader not in best or facts["read_s"] < best[reader]["read_s"]:
                    best[reader] = facts
        finally:
            broker.close()
    megabytes = size / 1e6
    for facts in best.values():
        facts["mb_per_s"] = round(megabytes / facts["read_s"], 1)
        facts["processor_s_per_gb"] = round(1_000 * facts["read_processor_s"] / megabytes, 2)
    return {"records": records, "megabytes": round(megabytes, 1), "readers": best}


def _in_a_process(servers: str, reader: str) -> Facts:
    command = [sys.executable, "-m", "benchmarks.lag", "--reader", reader, "--servers", servers]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> int:
    """Prints a table to stderr and JSON to stdout; exit 1 when two readers found different fleets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--reader", choices=READERS, help="one alone, in this process")
    parser.add_argument("--servers", help="for one alone: the broker")
    asked = parser.parse_args()
    if asked.reader:
        print(json.dumps(read(asked.servers, asked.reader)))
        return 0
    found = {**measure(asked.records, asked.rounds), "commit": this_commit(), "machine": this_machine()}  # fmt: skip
    columns = ("start_s", "read_s", "mb_per_s", "read_processor_s", "processor_s_per_gb", "rows")
    table = Table("reader", *columns, title=f"{asked.records:,} records, {found['megabytes']} MB")
    for reader, facts in found["readers"].items():
        table.add_row(reader, *(str(facts[column]) for column in columns))
    Console(stderr=True).print(table)
    document = json.dumps(found)
    print(document)
    if asked.json:
        keep(document, asked.json)
    return 0 if len({found["readers"][name]["found"] for name in ("python", "fleet")}) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
