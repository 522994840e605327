"""One partition has lost its only broker: what is asked of many goes on for the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from rpds import HashTrieMap

from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.metadata import Connection, ensure_topic
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange
from samza_dagster.metadata.topics import retained
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.orchestration.watch.auto_failover import look
from samza_dagster.orchestration.watch.checks import invariants_tick
from samza_dagster.orchestration.watch.findings import CheckMemory
from samza_dagster.orchestration.watch.invariants import LAG, ONE_OWNER, SAME_HOST
from samza_dagster.orchestration.watch.settings import Invariants
from samza_dagster.placement.events import LagObserved, StandbyStalled
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    JobState,
    Lag,
    Phase,
    Processor,
    Role,
)
from samza_dagster.snapshots import Tables, Workers, spark_session, take_fleet
from tests.rig.leaderless import FIRST, SECOND, TwoBrokers, two_brokers
from tests.rig.task_report import task_report
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

LOST = 3
"""The partition of the changelog that has no leader; standby 1-0 has it, and partition 1."""
NOW_MS = time.time_ns() // 1_000_000


LONE = {
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


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    """The first of two; what the second alone had is gone with it."""
    with two_brokers(tmp_path_factory.mktemp("brokers")) as both:
        both.create("log-leaderless", [FIRST, FIRST, FIRST, SECOND])
        both.create("log-coordinated", [FIRST, FIRST, FIRST, SECOND])
        both.create("half-metrics", [FIRST, SECOND], retained(3_600_000))
        both.create("lone-s", [FIRST, SECOND])
        both.create("lone-metrics", [FIRST, SECOND], {})
        both.stop_second()
        yield both


@pytest.fixture(scope="module")
def job(brokers: TwoBrokers, job_named: Callable[[str, str], Any]) -> Any:
    """Standbys 0-0 and 1-0 have applied 7 of 10 records of partitions 0, 1 and 2."""
    made = job_named(brokers.servers, "leaderless")
    now_ms = time.time_ns() // 1_000_000
    for partition in range(3):
        made.produce(made.changelog, [(b"k", b"v")] * 10, partition)
    made.produce(
        made.metrics,
        [(None, report(made, partition, 6, now_ms)) for partition in range(4)],
    )
    return made


def report(job: Any, partition: int, applied: int, at_ms: int, execution_id: str = "") -> bytes:
    """Of a standby task."""
    task, host = f"Standby-Partition {partition}-0", "nm3" if partition % 2 == 0 else "nm4"
    gauges = {f"kafka-{job.changelog}-{partition}-offset": str(applied)}
    return task_report(*(job.name, task, gauges), host=host, at_ms=at_ms, execution_id=execution_id)


def test_a_topic_that_was_there_is_used_without_a_leader_of_each_partition(
    brokers: TwoBrokers,
) -> None:
    assert not ensure_topic(brokers.cluster, "log-coordinated", partitions=4, timeout_s=20)


def test_lag_shows_the_replicas_that_are_fine_and_exits_4(job: Any) -> None:
    """Six of eight; the others' rows say what can't be read, and what their standby has applied."""
    code, document = job.cli("lag")
    assert code == 4
    rows = {row["task_name"]: row for row in document["replicas"]}
    assert len(rows) == 8
    for task, row in rows.items():
        is_lost = row["partition"] == LOST
        assert (row["reason"] is not None) == is_lost, task
        assert (row["end_offset"] is None) == is_lost, task
    lost = rows[f"Standby-Partition {LOST}-0"]
    assert (lost["lag"], lost["applied_offset"]) == (None, 6)
    assert lost["reason"] == f"{job.changelog}-{LOST} has no leader"
    assert rows["Standby-Partition 1-0"]["lag"] == 3


def test_lag_prints_the_reason_for_a_person_too(job: Any) -> None:
    """In a column that is there only when something can't be read."""
    from click.testing import CliRunner

    from samza_dagster.cli.main import cli

    given = ["--bootstrap-servers", job.bootstrap_servers, "--job-name", job.name]
    done = CliRunner().invoke(cli, ["lag", *given], env={"COLUMNS": "250"})
    assert done.exit_code == 4
    assert f"{job.changelog}-{LOST} has no leader" in done.stdout
    assert "Standby-Partition 1-0" in done.stdout


def test_auto_failover_sees_the_others(job: Any) -> None:
    """Of the container with the lost partition nothing is summed up that isn't known."""
    with job.client() as client:
        seen = look(client).by_id
    assert (seen["0-0"].left, seen["0-0"].unread) == (6, False)
    assert (seen["1-0"].left, seen["1-0"].unread) == (None, True)


def test_invariants_are_judged_though_a_lag_isnt_known(
    brokers: TwoBrokers, job: Any, job_named: Callable[[str, str], Any]
) -> None:
    """Who owns what, and who is where, is in the coordinator stream."""
    with job.client() as client:
        tick = invariants_tick(client, Invariants(), lag_limit=5)
        found, *_ = tick.findings(CheckMemory(f"{job.name}/1"), NOW_MS)
    assert (found[SAME_HOST], found[ONE_OWNER]) == ([], [])
    assert [(finding.subject, finding.seen) for finding in found[LAG]] == [
        ("1-0", f"its lag isn't known: {job.changelog}-{LOST} has no leader")
    ]


def test_a_snapshot_s_rows_of_the_lost_partition_say_so_and_the_others_are_known(
    tmp_path: Path, brokers: TwoBrokers
) -> None:
    """An empty changelog has no lag; the lost one's isn't known, nor is what it may have held."""
    brokers.create("__samza_coordinator_lone_1", [FIRST])
    producer = Producer({"bootstrap.servers": brokers.servers})
    records = [entry("set-config", key, value=value) for key, value in LONE.items()]
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
    lone, here = Connection(brokers.servers, "lone", "1"), Tables(str(tmp_path / "tables"))
    snapshot = take_fleet(Workers(spark_session), [lone], datetime.now(UTC), here)
    rows = {row["task_name"]: row for row in snapshot.rows("changelog_lag")}
    first, second = rows["Partition 0"], rows["Partition 1"]
    assert (first["end_offset"], first["unknown_because"]) == (1, "no-leader-of-observations")
    assert (second["end_offset"], second["lag_records"]) == (None, None)
    assert second["unknown_because"] == "no-leader"
    assert {row["host"] for row in rows.values()} == {"h0", "h1"}


class Observed:
    """A coordinator's observer of `job`: standbys 0-0 and 1-0 run, and report when told to."""

    def __init__(self, job: Any, metrics: str, stalled_ms: int) -> None:
        self.job, self.metrics = job, metrics
        self.told: list[LagObserved | StandbyStalled] = []
        config = {
            "stores.lab.changelog": f"kafka.{job.changelog}",
            "metrics.reporters": "snapshot",
            "metrics.reporter.snapshot.stream": f"kafka.{metrics}",
            "metrics.reporter.snapshot.interval": "1",
            "samza.dagster.standby.stalled.ms": str(stalled_ms),
        }
        observer = LagObserver.over_kafka(
            job.connection,
            config,
            state=lambda: STATE,
            job_model=lambda: MODEL,
            tell=self._take,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
        )
        assert observer is not None
        self.observer = observer

    def _take(self, event: Any) -> None:
        self.told.append(event)

    def round(self, applied: dict[int, int], partition: int = 0) -> None:
        """The changelog grows, these tasks' standbys report, and the observer looks."""
        for written in range(3):
            self.job.produce(self.job.changelog, [(b"k", b"v")] * 5, written)
        at_ms = time.time_ns() // 1_000_000
        self.job.produce(
            self.metrics,
            [
                (None, report(self.job, task, at, at_ms, f"{task % 2}-0-e1"))
                for task, at in applied.items()
            ],
            partition,
        )
        self.observer.observe()

    def stalls(self) -> set[str]:
        return {event.execution_id for event in self.told if isinstance(event, StandbyStalled)}

    def lags(self) -> dict[str, Lag]:
        """The newest of each standby."""
        seen = [event.lags for event in self.told if isinstance(event, LagObserved)]
        return {lag.processor_id: lag for lags in seen for lag in lags}


def standby(number: int) -> tuple[str, Group]:
    processor_id = f"{number}-0"
    incarnation = Incarnation(1, f"{processor_id}-e1", f"nm{number + 3}", f"r-{number}")
    processor = Processor(processor_id, Role.STANDBY, Phase.RUNNING, incarnation)
    return str(number), Group(str(number), {processor_id: processor})


STATE = JobState(job="j-1", groups=HashTrieMap(dict(standby(number) for number in (0, 1))))
MODEL = JobModel(
    config={},
    containers={
        f"{number}-0": ContainerModel(
            processor_id=f"{number}-0",
            tasks={
                name: TaskModel(
                    task_name=name,
                    system_stream_partitions=(),
                    changelog_partition=partition,
                    task_mode=TaskMode.STANDBY,
                )
                for partition in (number, number + 2)
                for name in (f"Standby-Partition {partition}-0",)
            },
        )
        for number in (0, 1)
    },
)


@pytest.fixture(scope="module")
def coordinated(brokers: TwoBrokers, job_named: Callable[[str, str], Any]) -> Any:
    made = job_named(brokers.servers, "coordinated")
    ensure_topic(made.cluster, "coordinated-metrics", config=retained(3_600_000))
    return made


def test_a_coordinator_goes_on_to_find_a_standby_that_stands_still(coordinated: Any) -> None:
    """That has other partitions than the lost one; whose lag isn't known stands still for nobody."""
    observed = Observed(coordinated, "coordinated-metrics", stalled_ms=1_500)

    applied = 0

    def found() -> bool:
        nonlocal applied
        applied += 4
        observed.round({0: 1, 2: 1, 1: applied, 3: 1})
        return bool(observed.stalls())

    until("a stall is found", found, seconds=20)
    until("both are told", lambda: found() and len(observed.lags()) == 2)
    assert observed.stalls() == {"0-0-e1"}
    assert observed.lags()["0-0"].records is not None
    assert observed.lags()["1-0"].records is None


def test_who_reports_into_a_partition_without_a_leader_isnt_silent(
    coordinated: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Samza's reporter writes by its host's key: one host falls silent for readers, and works."""
    observed = Observed(coordinated, "half-metrics", stalled_ms=1_500)
    heard: list[float] = []

    def long_enough() -> bool:
        at = 1_000_000 + len(observed.told)
        observed.round({0: at, 2: at})
        if "0-0" in observed.lags():
            heard.append(time.monotonic())
        # What else would have been certain after 3 s of others' reports.
        return bool(heard) and heard[-1] - heard[0] > 6

    until("0-0 was heard for twice as long as would do", long_enough, seconds=40)
    assert "1-0-e1" not in observed.stalls()
    assert "half-metrics-1 has no leader" in caplog.text


def test_offsets_and_tails_are_of_the_partitions_that_answer(
    brokers: TwoBrokers, coordinated: Any
) -> None:
    """A follower begins without the lost one."""
    topics = KafkaJobTopics(brokers.cluster)
    try:
        ranges = topics.offset_ranges({"half-metrics"})
        assert isinstance(ranges["half-metrics", 0], OffsetRange)
        assert str(ranges["half-metrics", 1]).count("half-metrics-1 has no leader") == 1
        coordinated.produce("half-metrics", [(None, b"later")], 0)
        tail = list(topics.tail("half-metrics", 60_000))
        assert b"later" in [getattr(one, "value", None) for one in tail]
        assert [getattr(one, "seen", "") for one in tail].count("half-metrics-1 has no leader") == 1
    finally:
        topics.close()
    followed = FollowedTopic(brokers.cluster, "half-metrics")
    try:
        assert followed.new_records() == []
        coordinated.produce("half-metrics", [(None, b"news")], 0)
        until("it is followed", lambda: b"news" in [r.value for r in followed.new_records()])
        assert followed.without_leader() == (1,)
    finally:
        followed.close()


def test_what_comes_back_is_read_again(brokers: TwoBrokers, job: Any, coordinated: Any) -> None:
    """The last of the module: the second broker starts where it was."""
    followed = FollowedTopic(brokers.cluster, "half-metrics")
    try:
        followed.new_records()
        brokers.start_second()
        until("every partition has a leader", lambda: followed.without_leader() == ())
        job.produce(
            job.changelog, [(b"k", b"v")] * 10, LOST
        )  # its standby has told that it applied 7

        def is_known() -> bool:
            now_ms = (
                time.time_ns() // 1_000_000
            )  # a container that is silent for long tells nothing
            job.produce(job.metrics, [(None, report(job, n, 6, now_ms)) for n in range(4)])
            return job.cli("lag")[0] == 0

        until("lag is known of all", is_known)

        def again() -> bool:
            coordinated.produce("half-metrics", [(None, b"again")], 1)
            return b"again" in [record.value for record in followed.new_records()]

        until("it is followed", again, seconds=20)
    finally:
        followed.close()
