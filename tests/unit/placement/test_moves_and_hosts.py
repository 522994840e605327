"""A move whose source or destination is lost, at each stage."""

from __future__ import annotations

import pytest

from samza_dagster.placement import texts
from samza_dagster.placement.state import Ended, Phase, Stage
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit

LONE = {"0": ("0",), "1": ("1",)}
PLACES = {"0": "host-1", "1": "host-2"}


def moving(stage: Stage, *, lone: bool = False, expiry_ms: int | None = None) -> Scene:
    """0 goes from host-1 to host-4, which is nobody's."""
    if lone:
        world = running(PLACES, groups=LONE, limits=QUICK)
    else:
        world = running({**PLACES, "0-0": "host-3"}, groups={"0": ("0", "0-0")}, limits=QUICK)
    world.submit(ask("0", "host-4", expiry_ms=expiry_ms))
    world.until_stage(stage)
    return world


# -- the source ----------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [Stage.RESERVING, Stage.STOPPING])
def test_a_source_that_is_lost_makes_it_start_at_its_destination_after_the_lease(
    stage: Stage,
) -> None:
    """It was to go there anyway; the destination is held for it meanwhile."""
    world = moving(stage)
    last_word = world.now_ms - QUICK.host_timeout_ms - 1
    world.lose("host-1")
    world.until_phase("0", Phase.STARTING)
    assert world.now_ms == last_word + QUICK.lease_ms + QUICK.lease_bound_ms
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-4"))
    assert world.how_replaced("0") == Ended.LEASE


def test_a_source_that_is_lost_while_it_starts_elsewhere_means_nothing_to_it() -> None:
    """It was seen dead there."""
    world = moving(Stage.STARTING)
    world.until_phase("0", Phase.STARTING)
    world.lose("host-1")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-4"))


def test_a_source_that_comes_back_in_time_goes_on_with_the_move() -> None:
    """It was only silent; nothing had been stopped."""
    world = moving(Stage.RESERVING)
    before = world.execution("0")
    world.lose("host-1")
    world.come_back("host-1")
    assert world.execution("0") == before
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-4"))
    assert world.how_replaced("0") == Ended.DEAD


def test_a_source_that_is_lost_while_no_destination_is_found_is_not_gone_back_to() -> None:
    """FAILED; then as after any death: its standby's place."""
    world = moving(Stage.RESERVING)
    world.fill("host-4")
    world.lose("host-1")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.expired_while_down("no host has room", "0"))
    world.until_all_run()
    assert world.placed("0") == "host-3"


# -- the destination -----------------------------------------------------------------------


def test_a_destination_that_is_lost_while_it_is_asked_for_fails_the_move() -> None:
    """When its time is up: it might have come back. The container runs on."""
    world = moving(Stage.RESERVING)
    before = world.execution("0")
    world.lose("host-4")
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.expired("no host has room"))
    assert world.execution("0") == before


def test_a_destination_that_is_back_before_the_expiry_does() -> None:
    """A lost host is no bad request."""
    world = moving(Stage.RESERVING, expiry_ms=20_000)
    world.lose("host-4")
    world.wait(5_000)
    world.come_back("host-4")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-4"))


@pytest.mark.parametrize("lone", [True, False], ids=["alone", "with a standby"])
@pytest.mark.parametrize("stage", [Stage.STOPPING, Stage.STARTING])
def test_a_destination_that_is_lost_when_the_container_is_down_sends_it_back(
    stage: Stage, lone: bool
) -> None:
    """To its source, where its state is."""
    world = moving(stage, lone=lone)
    world.lose("host-4")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.start_failed("host-4", "host-1"))
    world.until_all_run()
    assert world.placed("0") == "host-1"


def test_what_was_started_at_a_lost_destination_is_an_owner_until_its_lease_is_over() -> None:
    """It may have read its JobModel before the silence."""
    world = moving(Stage.STARTING)
    world.until_phase("0", Phase.STARTING)
    last_word = world.now_ms - QUICK.host_timeout_ms - 1
    world.lose("host-4")
    world.until(lambda: world.started()[-1] == ("0", "host-1"))
    assert world.now_ms == last_word + QUICK.lease_ms + QUICK.lease_bound_ms


def test_when_source_and_destination_are_lost_it_takes_its_standbys_place() -> None:
    """The last of three hosts that had its state."""
    world = moving(Stage.STARTING)
    world.until_phase("0", Phase.STARTING)
    world.lose("host-1")
    world.lose("host-4")
    world.until_all_run()
    assert world.placed("0") == "host-3"


def test_a_move_to_a_lost_host_waits_for_its_expiry_in_samzas_words() -> None:
    """The host is known, so the request isn't bad."""
    world = running(limits=QUICK)
    world.lose("host-4")
    world.submit(ask("0", "host-4"))
    assert world.statuses() == ["IN_PROGRESS"]
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.expired("no host has room"))
