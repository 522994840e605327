"""A standby that lives but applies nothing is restarted, when nothing is lost by it."""

from __future__ import annotations

import pytest

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Ended, Phase
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit


def stall(world: Scene, processor_id: str, execution_id: str = "") -> None:
    """It is told that the processor, or that incarnation, stands still."""
    named = execution_id or world.execution(processor_id)
    assert named is not None
    world.handle(ev.StandbyStalled(world.now_ms, named, "it stands at offset 3, the end is 9"))


def test_a_standby_that_stands_still_is_stopped_and_starts_on_its_own_host() -> None:
    """Its active runs on; it counts as a failure of a standby, and as a stall."""
    world = running()
    active, stalled = world.execution("0"), world.execution("0-0")
    stall(world, "0-0")
    assert world.stopped() == ["0-0"]
    world.until_all_run()
    assert world.started() == [("0-0", "host-2")]
    assert world.execution("0") == active
    assert world.execution("0-0") != stalled
    assert world.how_replaced("0-0") == Ended.DEAD
    counted = world.counted()
    assert (counted["stalled-standbys"], counted["standby-failures"]) == (1, 1)


def test_said_again_it_is_stopped_once() -> None:
    """The observer goes on saying it until it is another incarnation."""
    world = running()
    stalled = world.execution("0-0")
    for _ in range(3):
        stall(world, "0-0", stalled or "")
    world.until_all_run()
    stall(world, "0-0", stalled or "")
    assert world.stopped() == ["0-0"]
    assert world.counted()["stalled-standbys"] == 1


def test_an_active_is_never_stopped_for_it() -> None:
    """Whoever says so is wrong."""
    world = running()
    stall(world, "0")
    assert world.stopped() == []


def test_nobody_is_stopped_while_the_active_is_down() -> None:
    """A standby that is behind is still the best there is."""
    world = running()
    world.crash("0")
    world.until_phase("0", Phase.REQUESTING)
    stall(world, "0-0")
    assert world.stopped() == []


def test_an_action_of_its_group_comes_first() -> None:
    """It is said again when the action has ended."""
    world = running()
    world.submit(ask("0", "host-3", hold=True))
    stall(world, "0-0")
    assert world.stopped() == []


def test_one_that_stalls_again_and_again_pauses_longer() -> None:
    """More than `retry_count` failures within the window: it is shown as flapping."""
    world = running()
    for _ in range(world.state.limits.retry_count + 1):
        stall(world, "0-0")
        world.until_all_run()
    stall(world, "0-0")
    world.until_phase("0-0", Phase.WAITING)
    processor = world.state.groups["0"].processors["0-0"]
    assert processor.not_before_ms == world.now_ms + 30_000
