"""The observer's round: what it tells, and what it survives."""

from __future__ import annotations

import json
import logging
import time

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
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.placement.events import LagObserved, StandbyStalled
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    JobState,
    Phase,
    Processor,
    Role,
)
from tests.unit.coordinator.observed import CONFIG, MODEL, RUNNING, TASK, World, minutes, stalls_of

pytestmark = pytest.mark.unit


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
