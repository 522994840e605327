"""One pass over a fleet whose every figure is known, its metrics in one topic; in parts, and killed between."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from samza_dagster.lag import Published, newest_readiness
from samza_dagster.metadata import Connection, KafkaCluster
from samza_dagster.metadata.job_topics import KafkaJobTopics
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import lag_topic
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.rig.fleets import Answer, Fault, Fleet, Report, Shape, answers, reports, spoiled
from tests.rig.fleets.fleet import BEGAN_MS, STORE
from tests.spark.conftest import Topics, at, entry, newest

pytestmark = pytest.mark.spark

TOPIC, PARTITIONS = "fleet-metrics", 3
MIDDLE_MS, END_MS = 70_000, 100_000
MANY = {fault: 0.1 for fault in Fault if fault is not Fault.NONE}
FLEET = Fleet(
    Shape(jobs=5, containers=2, standbys=2, hosts=8, shares=MANY, fault_ms=75_000, seed=2)
)
JOBS = sorted({group.job for group in FLEET.groups})
SPOILED = tuple(spoiled("job-0000", "Standby-Partition 0-0", "host-000"))


def stream_of(job: str) -> list[tuple[str, str | None, int]]:
    """What a job's coordinator stream says at the end: where its newest processes are."""
    config = {
        "job.name": job,
        "job.id": "1",
        f"stores.{STORE}.factory": "F",
        f"stores.{STORE}.changelog": f"kafka.{job}-{STORE}-changelog",
        "metrics.reporters": "s",
        "metrics.reporter.s.stream": f"kafka.{TOPIC}",
        "metrics.reporter.s.interval": "10",
    }
    told = [entry("set-config", name, value=value) for name, value in config.items()]
    for group in FLEET.groups:
        if group.job != job:
            continue
        placed = [(task, number, group.active) for task, number in group.tasks]
        placed += [(s.task, s.partition, s.restores[-1][0]) for s in group.standbys]
        for task, number, process in placed:
            mode = "Standby" if task.startswith("Standby-") else "Active"
            told += [
                entry("set-task-container-assignment", task, containerId=process.container),
                entry("set-task-mode-assignment", task, taskMode=mode),
                entry("set-changelog", task, Partition=str(number)),
                entry("set-container-host-assignment", process.container, host=process.host),
            ]
    return told


def write(topics: Topics, told: list[Report]) -> None:
    for partition in range(PARTITIONS):
        mine = [(None, r.value, r.at_ms) for r in told if r.partition(PARTITIONS) == partition]
        topics.fill(TOPIC, mine, partition)  # pyright: ignore[reportArgumentType]


class Story:
    """The fleet's records come in two parts; snapshots are taken as they come, and once of all."""

    def __init__(self, topics: Topics, workers: Workers, tables: Tables, whole: Tables) -> None:
        self.topics, self.workers, self.tables = topics, workers, tables
        self.jobs = [Connection(topics.bootstrap, job, "1") for job in JOBS]
        for job in JOBS:
            stream = f"__samza_coordinator_{job}_1"
            topics.create(stream)
            topics.fill(stream, stream_of(job))
        topics.create(TOPIC, PARTITIONS)
        topics.fill(TOPIC, [(None, one.value, one.at_ms) for one in SPOILED])  # pyright: ignore[reportArgumentType]
        every = list(reports(FLEET, END_MS))
        write(topics, [one for one in every if one.at_ms < BEGAN_MS + MIDDLE_MS])
        self.first = self.take(MIDDLE_MS)
        write(topics, [one for one in every if one.at_ms >= BEGAN_MS + MIDDLE_MS])
        self.killed_before(tables, "task_locality")
        self.killed_before(tables, "snapshots")
        self.second = self.take(END_MS)
        self.whole = take_fleet(workers, self.jobs, at(BEGAN_MS + END_MS), whole)

    def take(self, ms: int) -> FleetSnapshot:
        """By a clock that tells microseconds, which no row has."""
        moment = at(BEGAN_MS + ms) + timedelta(microseconds=7)
        return take_fleet(self.workers, self.jobs, moment, self.tables)

    def killed_before(self, tables: Tables, table: str) -> None:
        """A run that ends where it would write this table."""

        class Killed(Tables):
            def add(self, name: str, rows: Any) -> None:
                if name == table:
                    raise KeyboardInterrupt
                super().add(name, rows)

        dying = Killed(tables.uri)
        with pytest.raises(KeyboardInterrupt):
            take_fleet(self.workers, self.jobs, at(BEGAN_MS + END_MS - 1), dying)


@pytest.fixture(scope="module")
def story(
    topics: Topics, workers: Workers, in_parts: None, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    homes = (Tables(str(tmp_path_factory.mktemp(name))) for name in ("parts", "whole"))
    return Story(topics, workers, *homes)


def test_spark_s_workers_had_a_part_each(story: Story) -> None:
    """Else all of this would be told of one process."""
    assert story.workers.started_s > 0


def known(answer: Answer) -> tuple[str, str]:
    return answer.job, answer.task


def lags(snapshot: FleetSnapshot) -> dict[tuple[str, str], dict[str, Any]]:
    rows = snapshot.rows("changelog_lag")
    found = {(row["job_name"], row["task_name"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_each_standby_of_every_job_has_what_its_newest_report_says(story: Story) -> None:
    """Whatever its host's clock says, and wherever it was before."""
    rows, judged = lags(story.second), 0
    for answer in answers(FLEET, END_MS - 1):
        row = rows[known(answer)]
        assert row["host"] == answer.host
        if answer.reported_ms is None:
            continue
        judged += 1
        assert row["applied_offset"] == answer.applied
        if answer.applied is not None:
            assert row["came_at"] == at(BEGAN_MS + answer.reported_ms)
    assert judged > 25


def test_earlier_snapshots_and_killed_runs_change_no_row(story: Story) -> None:
    """With two runs killed before it, all is as in tables that had nothing."""
    for dataset in ("container_locality", "task_locality", "changelog_lag", "standby_readiness"):
        assert story.second.rows(dataset) == story.whole.rows(dataset), dataset
    assert story.second.unreadable == story.whole.unreadable == len(SPOILED)


def test_readers_see_whole_snapshots_alone(story: Story) -> None:
    """The killed run has left its locality, and no row of it is told of."""
    assert {row["snapshot_time"] for row in story.second.rows("task_locality")} == {
        at(BEGAN_MS + END_MS)
    }
    assert len(newest(story.tables, "task_locality")) == story.second.counts["task_locality"]


def test_the_newest_readiness_of_each_standby_is_published(story: Story) -> None:
    """For waits, bounces, drains and `explain`, which read no table; nothing else is in the topics."""
    cluster = KafkaCluster.of(story.jobs[0])
    found: dict[tuple[str, str], Published] = {}
    with closing(KafkaJobTopics(cluster)) as topics:
        for job in JOBS:
            told = [one for one in topics.tail(lag_topic(job, "1")) if isinstance(one, TopicRecord)]
            known_now = newest_readiness([(one.key or b"", one.value) for one in told], 0)
            assert not known_now.unused
            found |= {(job, standby): one for standby, one in known_now.standbys.items()}
    assert story.second.unpublished == story.whole.unpublished == {}
    rows = {(r["job_name"], r["processor_id"]): r for r in story.whole.rows("standby_readiness")}
    assert found.keys() == rows.keys()
    assert all(
        found[at].status == row["status"] and found[at].why == row["why"]
        for at, row in rows.items()
    )
    paced = {at for at, one in found.items() if one.paces}
    assert paced == {
        (r["job_name"], r["processor_id"])
        for r in story.whole.rows("changelog_lag")
        if r["apply_per_s"] is not None
    }


def test_each_active_is_told_of_on_each_host_of_its_job(story: Story) -> None:
    """And on any other, where nothing of its job is."""
    hosts: dict[str, set[str | None]] = {}
    for row in story.second.rows("container_locality"):
        hosts.setdefault(row["job_name"], {None}).add(row["host"])
    told: dict[tuple[str, str], set[str | None]] = {}
    for row in story.second.rows("restore_forecast"):
        told.setdefault((row["job_name"], row["processor_id"]), set()).add(row["host"])
    assert told
    assert all(mine == hosts[job] for (job, _), mine in told.items())


def test_a_record_that_cannot_be_read_is_counted_and_one_is_named(story: Story) -> None:
    """The huge one and the one of next year too; they are of no one job, and the records around them count."""
    (row,) = (r for r in story.second.rows("violations") if r["rule"] == "unreadable")
    assert row["job_name"] is None
    assert row["seen"].startswith(f"{len(SPOILED)} records can't be read, as offset 0 of {TOPIC}-0")


def test_a_topic_made_anew_is_read_from_its_beginning(story: Story) -> None:
    """It has less than was read of the former; nothing of that counts any more."""
    story.topics.create(TOPIC, PARTITIONS)
    last = list(reports(FLEET, END_MS))[-1:]
    again = json.loads(last[0].value)
    write(story.topics, last)
    rows = lags(story.take(END_MS + 1))
    told = {task for (_, task), row in rows.items() if row["came_at"] is not None}
    source = again["header"]["source"].removeprefix("TaskName-")
    assert told == ({source} if source.startswith("Standby-") else set())
