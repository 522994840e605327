"""The observer's round: what it tells, and what it survives."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from immutables import Map

from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import OffsetRange, TopicRecord
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
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

pytestmark = pytest.mark.unit

TASK = "Standby-P 0-0"
CONFIG = {
    "stores.s.changelog": "kafka.log",
    "metrics.reporters": "snapshot",
    "metrics.reporter.snapshot.stream": "kafka.metrics",
    "metrics.reporter.snapshot.interval": "5",
}
MODEL = JobModel(
    config=CONFIG,
    containers={
        "0-0": ContainerModel(
            processor_id="0-0",
            tasks={
                TASK: TaskModel(
                    task_name=TASK,
                    system_stream_partitions=(),
                    changelog_partition=0,
                    task_mode=TaskMode.STANDBY,
                )
            },
        )
    },
)
RUNNING = JobState(
    job="j-1",
    groups=Map(
        {
            "0": Group(
                "0",
                {
                    "0-0": Processor(
                        "0-0", Role.STANDBY, Phase.RUNNING, Incarnation(1, "e1", "host-3", "r")
                    )
                },
            )
        }
    ),
)


@dataclass
class World:
    """A metrics topic, a changelog and a clock; `told` is what the term gets."""

    topic: str = "metrics"
    found: bool = True
    records: list[TopicRecord] = field(default_factory=list)
    end: int = 10
    error: Exception | None = None
    now: int = 1_000
    state: JobState = RUNNING
    told: list[LagObserved | StandbyStalled] = field(default_factory=list)
    asked_ends: int = 0
    raised: int = 0

    def report(self, applied: int, source: str = f"TaskName-{TASK}") -> None:
        header = {
            "job-name": "j",
            "job-id": "1",
            "source": source,
            "host": "host-3",
            "time": self.now,
            "exec-env-container-id": "e1",
        }
        group = {"org.apache.samza.container.TaskInstanceMetrics": {"kafka-log-0-offset": applied}}
        value = json.dumps({"header": header, "metrics": group}).encode()
        self.records.append(TopicRecord(None, value, self.now))

    def new_records(self) -> list[TopicRecord]:
        if self.error is not None:
            self.raised += 1
            raise self.error
        records, self.records = self.records, []
        return records

    def close(self) -> None:
        self.found = False

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        self.asked_ends += 1
        return {(topic, 0): OffsetRange(0, self.end) for topic in topics}

    def observer(
        self, every_s: float = 5.0, settings: Mapping[str, str] | None = None
    ) -> LagObserver:
        return LagObserver(
            job=("j", "1"),
            config={**CONFIG, **(settings or {})},
            reports=[self],
            ends=self,
            state=lambda: self.state,
            job_model=lambda: MODEL,
            tell=self.told.append,
            now_ms=lambda: self.now,
            every_s=every_s,
        )


def test_a_round_tells_what_the_standbys_report() -> None:
    """And nothing when nobody reported; records of others are passed over."""
    world = World()
    observer = world.observer()
    world.report(99, "TaskName-P 0")
    world.report(99, "samza-container-0")
    observer.observe()
    assert world.told == []
    world.report(4)
    observer.observe()
    world.now += 1_000
    world.report(7)
    observer.observe()
    first, second = world.told
    assert first == LagObserved(1_000, (Lag("0-0", 5, None, 1_000),))
    assert second == LagObserved(2_000, (Lag("0-0", 2, 667, 2_000),))


def test_without_a_standby_that_runs_no_end_is_asked_for() -> None:
    """A job that is being started has other things to do."""
    world = World(state=JobState(job="j-1"))
    world.report(4)
    world.observer().observe()
    assert (world.told, world.asked_ends) == ([], 0)


def test_a_broker_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """No sample meanwhile; when it is back, samples and one line."""
    caplog.set_level(logging.INFO)
    world = World(error=Unreachable("read", seen="no answer", fix="start it"))
    observer = world.observer()
    for _ in range(3):
        observer.observe()
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    world.error = None
    world.report(9)
    observer.observe()
    assert [
        lag.records for told in world.told if isinstance(told, LagObserved) for lag in told.lags
    ] == [0]
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]


def test_a_metrics_topic_that_isnt_there_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A job may be set up without its reporter's topic."""
    world = World(found=False)
    observer = world.observer()
    observer.observe()
    observer.observe()
    assert ["no metrics topic metrics" in r.message for r in caplog.records] == [True]
    assert world.told == []


def test_its_thread_survives_what_nobody_thought_of() -> None:
    """And ends when it is closed, releasing what it holds."""
    world = World(error=ZeroDivisionError())
    observer = world.observer(every_s=0.001)
    observer.start()
    deadline = time.monotonic() + 10
    while not world.told and time.monotonic() < deadline:
        if world.raised > 2:
            world.error = None
            world.report(9)
        time.sleep(0.002)
    observer.close()
    assert world.told
    assert not observer._thread.is_alive()
    assert not world.found


@pytest.mark.parametrize("missing", ["stores.s.changelog", "metrics.reporters"])
def test_a_job_without_changelog_or_reporter_has_no_observer(missing: str) -> None:
    """There is nothing to read."""
    connection = Connection("h:1", "j")
    config = {key: value for key, value in CONFIG.items() if key != missing}
    made = {
        "state": lambda: RUNNING,
        "job_model": lambda: MODEL,
        "tell": [].append,
        "now_ms": lambda: 0,
        "wall_ms": lambda: 0,
    }
    assert LagObserver.over_kafka(connection, config, **made) is None
    assert LagObserver.over_kafka(connection, CONFIG, **made) is not None


def test_a_standby_that_stands_still_is_told_of_until_it_moves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its reports go on, what it applied doesn't, and the changelog grows: logged once."""
    world = World()
    observer = world.observer()
    for applied in (4, 4, 4, 4, 6):
        world.report(applied)
        observer.observe()
        world.now += 60_000
        world.end += 5
    stalls = [told for told in world.told if isinstance(told, StandbyStalled)]
    assert [(stall.at_ms, stall.execution_id) for stall in stalls] == [
        (121_000, "e1"),
        (181_000, "e1"),
    ]
    assert "has applied nothing of log-0 for 120 s: it stands at offset 5, the end is 20" in (
        stalls[0].why
    )
    assert ["stands still" in record.message for record in caplog.records] == [True]


def test_stalls_are_left_alone_when_the_setting_says_so() -> None:
    """0 turns it off."""
    world = World()
    observer = world.observer(settings={"samza.dagster.standby.stalled.ms": "0"})
    for _ in range(9):
        world.report(4)
        observer.observe()
        world.now += 60_000
        world.end += 5
    assert {type(told) for told in world.told} == {LagObserved}
