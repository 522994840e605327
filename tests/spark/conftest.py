"""One broker and one Spark session for the whole level."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.metadata import Connection
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role
from samza_dagster.snapshots import (
    FleetSnapshot,
    Tables,
    Workers,
    fleet,
    reading,
    spark_session,
    take_fleet,
)
from tests.rig.pace import PACE

WIRE = Path(__file__).parents[1] / "data" / "wire"
DEADLINE_S = 30.0 * PACE


@pytest.fixture(scope="session")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Spark's, where there is work for two of them; `in_parts` makes it so."""
    settings = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    start = partial(spark_session, settings=settings)
    with closing(Workers(start)) as workers:
        yield workers


@pytest.fixture(scope="module")
def in_parts() -> Iterator[None]:
    """A few records and a few jobs are worth a worker of Spark's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LEAST_RECORDS", 5)
        patch.setattr(fleet, "LEAST_JOBS", 1)
        yield


def pyspark_home() -> Path:
    """Where pyspark is installed, without importing it."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


Record = tuple[str | None, str | None, int]
"""Key, value and timestamp in ms."""
KEPT = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
"""Of a topic that keeps every record, however old or new it claims to be."""


class Topics:
    """Creates topics anew and fills them."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name: str, partitions: int = 1) -> None:
        """A topic that keeps every record, however old or new it claims to be."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        for future in self.admin.delete_topics([name]).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        deadline = time.monotonic() + DEADLINE_S
        while True:
            new = NewTopic(name, partitions, 1, config=KEPT)
            try:
                self.admin.create_topics([new])[name].result()
            except KafkaException as error:
                deleting = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not deleting or time.monotonic() > deadline:
                    raise
            else:
                return

    def create_all(self, names: Collection[str]) -> None:
        """Topics of one partition that aren't there yet, by one request."""
        from confluent_kafka.admin import NewTopic

        new = [NewTopic(name, 1, 1, config=KEPT) for name in names]
        for future in self.admin.create_topics(new).values():
            future.result()

    def fill(self, name: str, records: Sequence[Record], partition: int = 0) -> None:
        """Writes (key, value, timestamp in ms) in order."""
        self.fill_all({name: records}, partition)

    def fill_all(self, topics: Mapping[str, Sequence[Record]], partition: int = 0) -> None:
        """The same of many topics, by one producer."""
        from confluent_kafka import Producer

        producer, errors = Producer({"bootstrap.servers": self.bootstrap}), list[object]()
        for name, (key, value, timestamp) in ((t, r) for t in topics for r in topics[t]):
            producer.produce(
                *(name, value, key, partition),
                timestamp=timestamp,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(DEADLINE_S) == 0
        assert set(errors) <= {None}

    def fill_numbers(self, name: str, partition: int, count: int) -> None:
        """`count` records of no content: only their offsets matter."""
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "queue.buffering.max.messages": 1_000_000}
        )
        for _ in range(count):
            producer.produce(name, b"", partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def end_offset(self, name: str) -> int:
        """The offset that partition 0's next record will have."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(name, 0), DEADLINE_S)[1]
        finally:
            consumer.close()

    def transaction(
        self, name: str, records: Sequence[tuple[str, str | None, int]], *, commit: bool
    ) -> None:
        """Writes the records in one transaction, which leaves its marker as the last offset."""
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": f"test-{name}"}
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for key, value, timestamp in records:
            producer.produce(name, value, key, 0, timestamp=timestamp)
        assert producer.flush(DEADLINE_S) == 0
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)


@pytest.fixture(scope="session")
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def recorded(name: str) -> list[tuple[str | None, str | None, int]]:
    """A recorded topic as (key, value, timestamp in ms), in order."""
    lines = (json.loads(line) for line in (WIRE / name).read_text().splitlines())
    return [
        (
            r["key"],
            r["value"]
            if r["value"] is None or isinstance(r["value"], str)
            else json.dumps(r["value"]),
            r["ts"],
        )
        for r in lines
    ]


RECORDED_AT_MS = 1_795_264_717_000  # a moment after the newest recorded metrics
RECORDED_ENDS = (65_850, 65_843, 65_839, 65_900)  # of the changelog's partitions


@pytest.fixture(scope="session")
def recorded_job(topics: Topics) -> Connection:
    """The recorded job `yw`: four tasks, each with a standby, two actives and two standbys."""
    for topic, vector in (
        ("__samza_coordinator_yw_1", "coordinator-stream.jsonl"),
        ("__samza_checkpoint_ver_1_for_yw_1", "checkpoint-tail.jsonl"),
        ("metrics", "metrics-samples.jsonl"),
    ):
        topics.create(topic)
        topics.fill(topic, recorded(vector))
    topics.create("yw-lab-changelog", partitions=4)
    for partition, end in enumerate(RECORDED_ENDS):
        topics.fill_numbers("yw-lab-changelog", partition, end)
    return Connection(topics.bootstrap, "yw", "1")


def newest(tables: Tables, table: str) -> list[dict[str, Any]]:
    """The rows of each job's newest whole snapshot: table `snapshots` is written last."""
    whole: dict[tuple[str, str], datetime] = {}
    for row in tables.opened("snapshots").to_pyarrow_table().to_pylist():
        job = row["job_name"], row["job_id"]
        whole[job] = max(row["snapshot_time"], whole.get(job, row["snapshot_time"]))
    rows: list[dict[str, Any]] = tables.opened(table).to_pyarrow_table().to_pylist()
    for row in rows:
        del row["snapshot_day"]
    return [r for r in rows if whole.get((r["job_name"], r["job_id"])) == r["snapshot_time"]]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Those that the whole level's snapshots are kept in."""
    return Tables(str(tmp_path_factory.mktemp("tables")))


@pytest.fixture(scope="session")
def recorded_snapshot(recorded_job: Connection, workers: Workers, tables: Tables) -> FleetSnapshot:
    return take_fleet(workers, [recorded_job], at(RECORDED_AT_MS), tables)


EDGE_AT_MS = 100_000


def entry(kind: str, key: str, **values: str) -> tuple[str, str, int]:
    """A record of the coordinator stream as Samza writes it."""
    envelope = {
        "host": "w",
        "source": "test",
        "username": "u",
        "timestamp": 1_000,
        "values": values,
    }
    return (json.dumps([1, kind, key], separators=(",", ":")), json.dumps(envelope), 1_000)


def deletion(kind: str, key: str) -> tuple[str, None, int]:
    """A tombstone in the coordinator stream."""
    return (json.dumps([1, kind, key], separators=(",", ":")), None, 1_000)


def edge_stream() -> list[tuple[str, str | None, int]]:
    """Its last five records can't be read."""
    config = {
        "job.name": "edge",
        "job.id": "1",
        "job.default.system": "kafka",
        "app.run.id": "run-1",
        "stores.s1.factory": "F",
        "stores.s1.changelog": "kafka.edge-s1",
        "stores.s2.factory": "F",
        "stores.s2.changelog": "edge-s2",
        "stores.s3.factory": "F",
        "stores.s3.changelog": "kafka.edge-s3",
        "stores.cache.factory": "F",
        "metrics.reporters": "snap",
        "metrics.reporter.snap.class": "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory",
        "metrics.reporter.snap.stream": "kafka.edge-metrics",
    }
    records: list[tuple[str, str | None, int]] = [
        entry("set-config", key, value=value) for key, value in config.items()
    ]
    tasks = {"Partition 0": "0", "Partition 1": "1", "Partition 9": "1"}
    tasks |= {"Standby-Partition 0-0": "0-0", "Standby-Partition 1-0": "1-0"}
    for task, processor in tasks.items():
        mode = "Standby" if task.startswith("Standby-") else "Active"
        records.append(entry("set-task-container-assignment", task, containerId=processor))
        records.append(entry("set-task-mode-assignment", task, taskMode=mode))
    for task in ("Partition 0", "Partition 1", "Partition 9"):
        partition = task.removeprefix("Partition ")
        # The standbys have no record of their own here: theirs is their active's.
        records.append(entry("set-changelog", task, Partition=partition))
    for processor, host in {"0": "h0", "0-0": "h2", "1": "h1", "1-0": "h4", "7-0": "h7"}.items():
        records.append(entry("set-container-host-assignment", processor, host=host))
    return [
        *records,
        deletion("set-task-container-assignment", "Partition 9"),
        deletion("set-container-host-assignment", "1"),
        ("not json at all", "x", 1_000),
        ('[1,"set-config"]', "x", 1_000),
        ('{"type":"set-config"}', None, 1_000),  # even deleted: the key itself is the trouble
        ('[1,"set-config","broken"]', '{"host":"w","values":{"value":"1"', 1_000),
        ('[1,"set-container-host-assignment","8"]', "[]", 1_000),
    ]


def checkpoint_v1(
    task: str, topic: str, partition: int, offset: str, at_ms: int = 2_000
) -> tuple[str, str, int]:
    """A checkpoint of the first version, of one changelog partition."""
    key = {"systemstreampartition-grouper-factory": "G", "taskName": task, "type": "checkpoint"}
    ssp = {"system": "kafka", "stream": topic, "partition": str(partition), "offset": offset}
    value = {f"SystemStreamPartition [kafka, {topic}, {partition}]": ssp}
    return (json.dumps(key), json.dumps(value), at_ms)


def checkpoint_v2(
    task: str, stores: dict[str, tuple[str, int, str]], at_ms: int = 2_000
) -> tuple[str, str, int]:
    """A checkpoint of the second version: store → changelog, partition and offset."""
    key = {"systemstreampartition-grouper-factory": "G", "taskName": task, "type": "checkpoint-v2"}
    markers = {
        store: json.dumps(
            {
                "version": 1,
                "changelog-ssp": {
                    "system": "kafka",
                    "stream": topic,
                    "partition": partition,
                    "keyBucket": -1,
                },
                "changelog-offset": offset,
            }
        )
        for store, (topic, partition, offset) in stores.items()
    }
    backend = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"
    value = {
        "checkpoint-id": "1-1",
        "input-offsets": {},
        "state-checkpoint-markers": {backend: markers},
        "version": 2,
    }
    return (json.dumps(key), json.dumps(value), at_ms)


def metrics_report(
    job: str, task: str, host: str, gauges: Mapping[str, object], at_ms: int = 99_000
) -> tuple[None, str, int]:
    """A task's metrics snapshot as Samza writes it."""
    header = {"job-name": job, "job-id": "1", "source": f"TaskName-{task}", "host": host}
    groups = {"org.apache.samza.container.TaskInstanceMetrics": {**gauges, "commit-calls": 3}}
    snapshot = {"header": {**header, "time": at_ms}, "metrics": groups}
    return (None, json.dumps(snapshot), at_ms)


def edge_state() -> list[tuple[str | None, str | None, int]]:
    """Our coordinator's records: 5 took 7 s to start, 1-1 starts and has said nothing yet, h9 has an agent."""

    def group(active: str, member: str, phase: Phase, host: str) -> dict[str, Any]:
        run = Incarnation(1, f"{member}-of-1", host, "r")
        one = Processor(member, Role.STANDBY if "-" in member else Role.ACTIVE, phase, run)
        return {"epoch": 1, "group": codec.group_to_json(Group(active, {member: one}))}

    records = [
        ("job", {"state": codec.job_to_json(JobState("edge/1", "run-2"))}, 80_000),
        ("group/5", group("5", "5", Phase.STARTING, "h5"), 81_000),
        ("group/5", group("5", "5", Phase.RUNNING, "h5"), 88_000),
        ("group/1", group("1", "1-1", Phase.STARTING, "h8"), 90_000),
        ("host/h9", {"host": "h9", "alive": True}, 91_000),
    ]
    encoded = [(*encode_record(key, value), at_ms) for key, value, at_ms in records]
    return [(key.decode(), value and value.decode(), at_ms) for key, value, at_ms in encoded]


@pytest.fixture(scope="session")
def edge_job(topics: Topics) -> Connection:
    """The job `edge`: two tasks with a standby each, three stores with changelogs, and our coordinator."""
    topics.create("__samza_dagster_edge_1")
    topics.fill("__samza_dagster_edge_1", edge_state())
    stream = "__samza_coordinator_edge_1"
    topics.create(stream)
    topics.fill(stream, edge_stream())
    moved = entry("set-container-host-assignment", "0", host="h1")
    redeployed = entry("set-config", "app.run.id", value="run-2")
    topics.transaction(stream, [moved, redeployed], commit=True)
    orphan = entry("set-container-host-assignment", "0", host="orphan")
    topics.transaction(stream, [orphan], commit=False)

    topics.create("edge-s1", partitions=2)
    topics.transaction("edge-s1", [("a", "1", 1), ("b", "2", 1), ("c", "3", 1)], commit=True)
    topics.create("edge-s3", partitions=2)
    topics.fill("edge-s3", [("a", "1", 1), ("b", "2", 1)])
    before, since = [("a", "1", 98_000)] * 5, [("a", "1", 99_500)] * 5
    topics.fill("edge-s3", [*before, *since], partition=1)

    checkpoints = "__samza_checkpoint_ver_1_for_edge_1"
    topics.create(checkpoints)
    topics.fill(
        checkpoints,
        [
            checkpoint_v2("Partition 0", {"s1": ("edge-s1", 0, "0"), "s3": ("edge-s3", 0, "500")}),
            checkpoint_v1("Partition 0", "edge-s1", 0, "17-42:1"),
            checkpoint_v1("Partition 1", "edge-s1", 1, "17-42:null"),
            ("not json", "x", 2_000),
        ],
    )
    topics.create("edge-metrics", partitions=2)
    topics.fill(
        "edge-metrics",
        [
            metrics_report(
                "other", "Standby-Partition 0-0", "h2", {"kafka-edge-s1-0-offset": "2"}, 99_500
            ),
            metrics_report("edge", "Standby-Partition 0-0", "h3", {"kafka-edge-s3-0-offset": "1"}),
            metrics_report("edge", "Standby-Partition 1-0", "h4", {"kafka-edge-s3-1-offset": "3"}),
            metrics_report(
                "edge", "Standby-Partition 1-0", "h9", {"kafka-edge-s3-1-offset": "4"}, 99_900
            ),
            (None, "TaskName-Standby- not json", 99_000),
        ],
        partition=1,
    )
    return Connection(topics.bootstrap, "edge", "1")


@pytest.fixture(scope="session")
def edge_snapshot(edge_job: Connection, workers: Workers, tables: Tables) -> FleetSnapshot:
    return take_fleet(workers, [edge_job], at(EDGE_AT_MS), tables)
