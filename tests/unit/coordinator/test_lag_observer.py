"""The observer's round of lags: what it tells of standbys, of those that fell silent too, and what it survives."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from rpds import HashTrieMap

from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.coordinator.mail import Ignored
from samza_dagster.coordinator.standby_lags import StandbyLags, StandbyPart
from samza_dagster.errors import Unreachable
from samza_dagster.lag import Judgement, Pace, StandbyStatus, published
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.model.metrics_snapshots import TaskSample
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

pytestmark = pytest.mark.unit

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


# The observer's round: what it tells, and what it survives.


def test_after_a_start_the_published_pace_foretells_until_its_own_reports_do() -> None:
    """It is read with the first report, and no more once two have come; one that is too old isn't used."""
    world = World()
    observer = world.observer()
    ready = Judgement(StandbyStatus.READY, "", 0.1)
    paces = {(TASK, "s", 0): Pace(10, 0, 0, 5, 20_000)}
    for as_of_ms in (1_000, -60_001):
        record = published("0-0", ready, paces, as_of_ms, 60_000)
        world.published = [TopicRecord(*record, as_of_ms)]
        world.report(4)
        world.observer().observe()
    world.published = [TopicRecord(*published("0-0", ready, paces, 1_000, 60_000), 1_000)]
    for applied in (4, 5, 6, 7):
        world.report(applied)
        observer.observe()
        world.now += 1_000
    found = [told.lags[0].ready_in_ms for told in world.told if isinstance(told, LagObserved)]
    assert found == [500, None, 500, 4_000, 3_000, 2_000]
    assert world.read_published == 4


def test_without_a_standby_that_runs_no_end_is_asked_for() -> None:
    """A job that is being started has other things to do."""
    world = World(state=JobState(job="j-1"))
    world.report(4)
    world.observer().observe()
    assert (world.told, world.asked_ends) == ([], 0)


@pytest.mark.parametrize("source", [TASK, "P 0"])
def test_a_report_that_cant_be_read_blinds_nobody(
    source: str,
) -> None:
    """The other reports of its round count; it is counted each time, and logged once."""
    world = World()
    observer = world.observer()
    junk = json.dumps(
        {
            "header": {
                "job-name": "j",
                "job-id": "1",
                "source": f"TaskName-{source}",
                "host": "host-3",
                "time": float("inf"),
            },
            "metrics": {},
        }
    ).encode()
    rounds = 8
    for _ in range(rounds):
        world.records.append(TopicRecord(None, junk, world.now))
        if source == TASK:
            world.report(4)
        observer.observe()
        world.now += 60_000
        world.end += 5
    if source == TASK:
        assert stalls_of(world)
    ignored = [told for told in world.told if isinstance(told, Ignored)]
    assert ignored
    assert {told.counted_as for told in ignored} == {"ignored-reports"}
    assert {told.times for told in ignored} == {1}
    assert [bool(told.why) for told in ignored] == [True] + [False] * (len(ignored) - 1)


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


def test_a_changelog_that_is_deleted_is_logged_once_and_leaves_the_lag_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Made anew with fewer records than were applied it still is: never 0, by which a standby would be chosen."""
    world = World(end=1_000)
    observer = world.observer()
    for deleted, end in ((False, 1_000), (True, 0), (True, 0), (False, 0), (False, 5)):
        world.deleted, world.end = deleted, end
        world.report(999)
        observer.observe()
        world.now += 1_000
    samples = [told.lags[0] for told in world.told if isinstance(told, LagObserved)]
    assert [lag.records for lag in samples] == [0, None, None, None, None]
    assert [lag.ready_in_ms for lag in samples] == [0, None, None, None, None]
    assert [r.message.startswith("topic log doesn't exist: how far") for r in caplog.records] == [
        True
    ]


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
def test_a_job_without_changelog_or_reporter_has_no_observer(
    missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """There is nothing to read; that nobody reports is said, with what is to be set."""
    connection = Connection("h:1", "j")
    config = {key: value for key, value in CONFIG.items() if key != missing}
    made = {
        "state": lambda: RUNNING,
        "job_model": lambda: MODEL,
        "tell": [].append,
        "now_ms": lambda: 0,
    }
    assert LagObserver.over_kafka(connection, config, **made) is None
    told = [record.message for record in caplog.records]
    assert ["metrics.reporters" in line for line in told] == [True] * (
        missing == "metrics.reporters"
    )
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


def test_a_standby_that_reports_nothing_stands_still_where_others_report() -> None:
    """Its reporter is dead, or it hangs: an active's reports say that the job has one."""
    world = World()
    observer = world.observer()
    minutes(world, observer, 6, lambda: world.report(7, "TaskName-P 0"))
    first, *_ = stalls_of(world)
    assert "it reports nothing, as others do" in first.why
    assert first.for_ms == 120_000


def test_a_job_in_which_nobody_reports_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Its reporter may be turned off; it is said once, with where to look."""
    world = World()
    observer = world.observer()
    minutes(world, observer, 60, lambda: None)
    assert world.told == []
    assert ["metrics.reporters" in record.message for record in caplog.records] == [True]


def test_reports_without_such_a_gauge_prove_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A reporter's blacklist may leave it out: of no task of the job is there one."""
    world = World()
    observer = world.observer()
    minutes(world, observer, 60, lambda: world.report(3, gauge="commits"))
    assert stalls_of(world) == []
    assert ["blacklist" in record.message for record in caplog.records] == [True]


def test_a_changelog_that_nobody_writes_to_proves_nothing() -> None:
    """Neither an empty one nor one whose end stands: its last records may be no data."""
    for start, end in ((0, 10), (10, 10)):
        world = World(start=start, end=end)
        observer = world.observer()
        for _ in range(60):
            world.report(None)
            observer.observe()
            world.now += 60_000
        assert stalls_of(world) == []


def test_the_patience_begins_when_the_changelog_grows() -> None:
    """A record written a moment ago is no stall, also after an hour without any."""
    world = World()
    observer = world.observer()
    for _ in range(60):
        world.report(None)
        observer.observe()
        world.now += 60_000
    minutes(world, observer, 3, lambda: world.report(None))
    assert stalls_of(world) == []
    minutes(world, observer, 1, lambda: world.report(None))
    assert [stall.for_ms for stall in stalls_of(world)] == [120_000]


def test_what_was_reported_while_the_brokers_were_away_isnt_known() -> None:
    """A standby isn't restarted because nobody could hear it."""
    world = World()
    observer = world.observer()
    minutes(world, observer, 3, lambda: world.report(7, "TaskName-P 0"))
    world.error = Unreachable("read", seen="no answer", fix="start it")
    minutes(world, observer, 10, lambda: None)
    world.error = None
    minutes(world, observer, 3, lambda: world.report(7, "TaskName-P 0"))
    assert stalls_of(world) == []


def test_another_incarnation_has_its_own_time() -> None:
    """What the one before told or didn't tell is nothing to it; an older Samza names none."""
    world = World()
    observer = world.observer()
    minutes(world, observer, 3, lambda: world.report(None, execution_id="e0"))
    processor = Processor("0-0", Role.STANDBY, Phase.RUNNING, Incarnation(2, "e2", "host-3", "r"))
    world.state = JobState(job="j-1", groups=HashTrieMap({"0": Group("0", {"0-0": processor})}))
    minutes(world, observer, 3, lambda: world.report(3, execution_id="e1"))
    assert stalls_of(world) == []
    minutes(world, observer, 1, lambda: world.report(world.end - 1, execution_id=""))
    minutes(world, observer, 9, lambda: None)
    assert stalls_of(world) == []


def test_the_changelogs_end_is_read_once_an_interval_for_who_is_late() -> None:
    """Not in each round: there may be hundreds of them."""
    world = World()
    observer = world.observer(settings={"metrics.reporter.snapshot.interval": "5"})
    for _ in range(20):
        observer.observe()
        world.now += 1_000
    assert world.asked_ends == 4


def test_a_standby_that_tells_nothing_is_left_alone_when_the_setting_says_so() -> None:
    """0 turns it off, and reads no end for it."""
    world = World()
    observer = world.observer(settings={"samza.dagster.standby.stalled.ms": "0"})
    minutes(world, observer, 9, lambda: world.report(7, "TaskName-P 0"))
    assert (world.told, world.asked_ends) == ([], 0)


@pytest.mark.parametrize("end", [None, 3, 0])
def test_a_standby_whose_changelog_cant_be_read_or_was_made_anew_begins_to_stand_anew(
    end: int | None,
) -> None:
    """It was about to be taken for one that stands still; what was counted before says nothing now."""
    parts = {"0-0": (StandbyPart(TASK, "log", 0, "kafka-log-0-offset", "lab"),)}
    lags = StandbyLags(current_ms=60_000)

    def look(at_ms: int, end: int | None) -> tuple[int | None, bool]:
        """Records behind, and whether it stands still, by a report of the same offset."""
        sample = TaskSample(TASK, "host-3", at_ms, {"kafka-log-0-offset": 5}, "e1")
        lags.note({TASK: sample}, at_ms)
        ranges = {} if end is None else {("log", 0): OffsetRange(0, end)}
        (lag,) = lags.lags(lags.due({"0-0": "e1"}, parts, at_ms), parts, ranges, at_ms)
        return lag.records, lags.stalled(parts["0-0"], 50_000) is not None

    assert look(0, 10) == (4, False)
    assert look(60_000, 20) == (14, True)
    assert look(61_000, end) == (None, False)
    assert look(62_000, 30) == (24, False)


# Standbys that reported every offset, and then nothing more: whoever fell silent, and who only seems to.

ACTIVE = "TaskName-P 0"
SETTINGS = {"metrics.reporter.snapshot.interval": "5"}
SILENT_S, PATIENCE_S = 15, 120
"""Three intervals of the reporter, and the default of `samza.dagster.standby.stalled.ms`."""
AWAY = Unreachable("read", seen="no answer", fix="start it")


def watched(world: World) -> LagObserver:
    return world.observer(settings=SETTINGS)


def seconds(
    world: World, observer: LagObserver, count: int, *reports: Callable[[], None], grows: int = 1
) -> None:
    """Rounds a second apart; every fifth there are these reports, and in each the changelog grows."""
    for number in range(count):
        for report in reports if number % 5 == 0 else ():
            report()
        observer.observe()
        world.now += 1_000
        world.end += grows


def standby_of(world: World) -> Callable[[], None]:
    return lambda: world.report(world.end - 1)


def active_of(world: World) -> Callable[[], None]:
    return lambda: world.report(7, ACTIVE)


def test_a_standby_that_told_every_offset_and_fell_silent_stands_still(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its reporter died together with its restore: an OutOfMemoryError leaves the process alive."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 60, standby_of(world), active_of(world))
    last_told_ms = world.now - 5_000
    seconds(world, observer, 300, active_of(world))
    first, *_ = stalls_of(world)
    assert (first.execution_id, first.for_ms) == ("e1", PATIENCE_S * 1_000)
    silent_s = (first.at_ms - last_told_ms) // 1_000
    assert PATIENCE_S + SILENT_S < silent_s < PATIENCE_S + SILENT_S + 10
    assert "has applied nothing of log-0 for 120 s: it has ceased to report" in first.why
    assert ["stands still" in record.message for record in caplog.records] == [True]


def test_a_silent_standby_whose_changelog_doesnt_grow_is_left_alone() -> None:
    """Nothing is there that it would have to apply."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 20, standby_of(world), active_of(world))
    seconds(world, observer, 900, active_of(world), grows=0)
    assert stalls_of(world) == []


def test_a_standby_that_catches_up_and_reports_is_left_alone() -> None:
    """However far behind it is, and however late two of its reports are."""
    world = World(end=1_000_000)
    observer = watched(world)
    seconds(world, observer, 5, lambda: world.report(10))
    for applied in range(20, 600, 10):
        seconds(world, observer, 5, active_of(world), lambda a=applied: world.report(a))
        seconds(world, observer, 10, active_of(world))
    assert stalls_of(world) == []


def test_a_metrics_topic_that_nobody_reports_to_for_a_while_makes_no_standby_silent() -> None:
    """Without an error, as its client goes on by itself; then an active is the first to be heard."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 60, standby_of(world), active_of(world))
    seconds(world, observer, 600)
    seconds(world, observer, PATIENCE_S - 1, active_of(world))
    assert stalls_of(world) == []
    seconds(world, observer, 60, standby_of(world), active_of(world))
    assert stalls_of(world) == []


def test_who_told_nothing_before_a_metrics_topic_was_away_has_all_its_time_after() -> None:
    """A new incarnation's wait isn't over because nobody could be heard in it."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 30, active_of(world))
    seconds(world, observer, 600)
    seconds(world, observer, PATIENCE_S - 1, active_of(world))
    assert stalls_of(world) == []
    seconds(world, observer, 10, active_of(world))
    assert stalls_of(world)


def test_brokers_that_are_away_make_no_standby_silent() -> None:
    """Neither in the outage nor before the patience is over after it."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 60, standby_of(world), active_of(world))
    seconds(world, observer, 100, active_of(world))
    world.error = AWAY
    seconds(world, observer, 600)
    world.error = None
    seconds(world, observer, PATIENCE_S - 1, active_of(world))
    assert stalls_of(world) == []


def test_a_new_leader_gives_a_silent_standby_all_its_time() -> None:
    """What the one before knew is gone with it, and the first reports may be of others."""
    world = World()
    before = watched(world)
    seconds(world, before, 60, standby_of(world), active_of(world))
    seconds(world, before, 130, active_of(world))
    assert stalls_of(world) == []
    after = watched(world)
    seconds(world, after, PATIENCE_S - 1, active_of(world))
    assert stalls_of(world) == []
    seconds(world, after, 10, active_of(world))
    assert stalls_of(world)


def test_a_successor_isnt_silent_since_its_predecessor_was() -> None:
    """Silence is of one incarnation."""
    world = World()
    observer = watched(world)
    seconds(world, observer, 60, standby_of(world), active_of(world))
    seconds(world, observer, 130, active_of(world))
    processor = Processor("0-0", Role.STANDBY, Phase.RUNNING, Incarnation(2, "e2", "host-3", "r"))
    world.state = JobState(job="j-1", groups=HashTrieMap({"0": Group("0", {"0-0": processor})}))
    seconds(world, observer, PATIENCE_S - 1, active_of(world))
    assert stalls_of(world) == []
