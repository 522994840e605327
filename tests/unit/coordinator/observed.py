"""A metrics topic, a changelog and a clock, for tests of the observer of lags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from rpds import HashTrieMap

from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.coordinator.mail import Ignored
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.model.naming import lag_topic
from samza_dagster.placement.events import LagObserved, StandbyStalled
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    JobState,
    Phase,
    Processor,
    Role,
)
from tests.rig.task_report import task_report

TASK = "Standby-P 0-0"
CONFIG = {
    "stores.s.changelog": "kafka.log",
    "metrics.reporters": "snapshot",
    "metrics.reporter.snapshot.stream": "kafka.metrics",
    "metrics.reporter.snapshot.interval": "20",
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
    groups=HashTrieMap(
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
    """A metrics topic, a changelog (unless it is `deleted`) and a clock; `told` is what the term gets."""

    topic: str = "metrics"
    found: bool = True
    records: list[TopicRecord] = field(default_factory=list)
    end: int = 10
    start: int = 0
    deleted: bool = False
    error: Exception | None = None
    now: int = 1_000
    state: JobState = RUNNING
    told: list[LagObserved | StandbyStalled | Ignored] = field(default_factory=list)
    asked_ends: int = 0
    raised: int = 0
    published: list[TopicRecord] = field(default_factory=list)
    read_published: int = 0
    lost: tuple[int, ...] = ()
    """Partitions of the metrics topic that have no leader."""

    def report(
        self,
        applied: int | None,
        source: str = f"TaskName-{TASK}",
        *,
        execution_id: str = "e1",
        gauge: str = "kafka-log-0-offset",
        ahead_ms: int = 0,
    ) -> None:
        value = task_report(
            *("j", TASK, {gauge: applied}),
            host="host-3",
            at_ms=self.now + ahead_ms,
            execution_id=execution_id,
            source=source,
        )
        self.records.append(TopicRecord(None, value, self.now))

    def new_records(self) -> list[TopicRecord]:
        if self.error is not None:
            self.raised += 1
            raise self.error
        records, self.records = self.records, []
        return records

    def without_leader(self) -> tuple[int, ...]:
        return self.lost

    def close(self) -> None:
        self.found = False

    def tail(self, topic: str) -> Iterator[TopicRecord]:
        assert topic == lag_topic("j", "1")
        self.read_published += 1
        return iter(self.published)

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        self.asked_ends += 1
        there = () if self.deleted else topics
        return {(topic, 0): OffsetRange(self.start, self.end) for topic in there}

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


def stalls_of(world: World) -> list[StandbyStalled]:
    return [told for told in world.told if isinstance(told, StandbyStalled)]


def minutes(world: World, observer: LagObserver, count: int, report: Callable[[], None]) -> None:
    """Rounds a minute apart, in each of which somebody reports and the changelog grows."""
    for _ in range(count):
        report()
        observer.observe()
        world.now += 60_000
        world.end += 5
