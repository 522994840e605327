"""Standbys that reported every offset, and then nothing more: whoever fell silent, and who only seems to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rpds import HashTrieMap

from samza_dagster.coordinator.lag_observer import LagObserver
from samza_dagster.errors import Unreachable
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role
from tests.unit.coordinator.observed import World, stalls_of

pytestmark = pytest.mark.unit

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
