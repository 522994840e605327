"""STANDBY, once the standby has given way: every way in which the active's part goes."""

from __future__ import annotations

import pytest

from samza_dagster.placement import texts
from samza_dagster.placement.state import Ended, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit


def swapping(stage: Stage) -> Scene:
    world = running(limits=QUICK)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(stage)
    return world


# -- while the standby's old place is asked for --------------------------------------------


def test_a_place_that_is_stolen_fails_it_and_the_active_runs_on() -> None:
    """The standby has its new place, which it keeps."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.STOPPING_STANDBY)
    world.crash("0-0")
    world.fill("host-2")
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.expired("no host has room"))
    assert world.stopped() == ["0-0"]
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.placed("0-0") in ("host-3", "host-4")


def test_an_active_that_dies_while_its_place_is_asked_for_starts_there() -> None:
    """It is where it was to go anyway."""
    world = swapping(Stage.RESERVING)
    world.crash("0")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))
    assert "0" not in world.stopped()


def test_a_destination_that_is_lost_while_it_is_asked_for_fails_it() -> None:
    """By the request's own time; the active runs on."""
    world = swapping(Stage.RESERVING)
    world.lose("host-2")
    world.until_stage(None)
    assert world.outcome()[0] == "FAILED"
    world.until_all_run()
    assert world.placed("0") == "host-1"


def test_the_standby_starts_at_its_new_place_meanwhile() -> None:
    """It doesn't wait for the active."""
    world = running()
    world.trouble("host-1", Trouble.SLOW_STOP)
    world.submit(ask("0", "STANDBY"))
    world.until(lambda: world.placed("0-0") in ("host-3", "host-4"))
    world.until_phase("0-0", Phase.RUNNING)
    assert world.stage("0") is Stage.STOPPING


def test_a_standby_that_dies_at_its_new_place_does_not_hold_up_the_active() -> None:
    """It has its own way back."""
    world = running()
    world.trouble("host-1", Trouble.SLOW_STOP)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.STOPPING)
    world.until_phase("0-0", Phase.RUNNING)
    world.crash("0-0")
    world.calm("host-1")
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"
    assert world.placed("0-0") in ("host-3", "host-4")


# -- while the active is stopped -----------------------------------------------------------


def test_an_active_that_survives_its_stop_runs_on() -> None:
    """FAILED; the place is given back, the standby stays where it is now."""
    world = running()
    world.trouble("host-1", Trouble.STUBBORN)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.stop_failed("host-1"))
    world.until_all_run()
    assert world.held_resources() == {}
    assert world.placed("0") == "host-1"
    assert world.placed("0-0") in ("host-3", "host-4")


def test_an_active_that_dies_by_itself_while_it_is_stopped_has_stopped() -> None:
    """No difference."""
    world = swapping(Stage.STOPPING)
    world.crash("0")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))


def test_an_active_whose_host_is_lost_while_it_is_stopped_starts_after_its_lease() -> None:
    """The place is held for it meanwhile."""
    world = swapping(Stage.STOPPING)
    world.lose("host-1")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))
    assert world.how_replaced("0") == Ended.LEASE


def test_a_destination_that_is_lost_while_the_active_is_stopped_sends_it_back() -> None:
    """To where it came from."""
    world = swapping(Stage.STOPPING)
    world.lose("host-2")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.start_failed("host-2", "host-1"))
    world.until_all_run()
    assert world.placed("0") == "host-1"


# -- while it starts in the standby's place ------------------------------------------------


def test_a_start_that_fails_sends_it_back() -> None:
    """FAILED at once; the group is free when it runs again."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.FALLBACK_SOURCE)
    assert world.outcome() == ("FAILED", texts.start_failed("host-2", "host-1"))
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.stage("0") is None


def test_a_start_that_dies_before_its_check_in_sends_it_back() -> None:
    """The same."""
    world = running()
    world.trouble("host-2", Trouble.NO_CHECK_IN)
    world.submit(ask("0", "STANDBY"))
    world.until(lambda: world.where("0") == "host-2")
    world.crash("0")
    world.until_all_run()
    assert world.outcome() == ("FAILED", texts.start_failed("host-2", "host-1"))
    assert world.placed("0") == "host-1"


def test_a_destination_that_is_lost_while_it_starts_sends_it_back_after_the_lease() -> None:
    """What was begun there may have been released: it too is an owner."""
    world = swapping(Stage.STARTING)
    world.until_phase("0", Phase.STARTING)
    world.lose("host-2")
    assert world.outcome()[0] == "FAILED"
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.how_replaced("0") == Ended.LEASE


def test_when_the_source_is_full_meanwhile_it_fails_over_to_where_its_standby_is_now() -> None:
    """The way back after the way back."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    world.submit(ask("0", "STANDBY"))
    world.until_phase("0", Phase.STARTING)
    world.fill("host-1")
    world.until_phase("0-0", Phase.RUNNING)
    standby_was_on = world.placed("0-0")
    world.until_all_run()
    assert world.placed("0") == standby_was_on
