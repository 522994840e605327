"""STANDBY: the active takes its standby's place, which has another one by then."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def swapping(stage: Stage) -> Scene:
    """A swap at a stage: its first command is out, and nobody has carried it out."""
    world = running(limits=QUICK)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(stage)
    return world


def active_untouched(world: Scene) -> bool:
    return "0" not in world.stopped() and world.placed("0") == "host-1"


# -- as it should go -----------------------------------------------------------------------


def test_a_swap_moves_the_standby_away_and_the_active_into_its_place() -> None:
    """SEP-22's phase 2, two client calls there, as one action."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))
    assert world.placed("0") == "host-2"
    assert world.placed("0-0") in ("host-3", "host-4")
    assert world.locality()["0"] == "host-2"


def test_the_order_is_reserve_stop_reserve_stop_start() -> None:
    """The active runs until its destination is held."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_all_run()
    kinds = (cmd.RequestResource, cmd.StopContainer)
    told = [(type(c).__name__, c.processor_id) for c in world.log if isinstance(c, kinds)]
    assert told == [
        ("RequestResource", "0-0"),
        ("StopContainer", "0-0"),
        ("RequestResource", "0"),
        ("StopContainer", "0"),
    ]
    assert sorted(pid for pid, _ in world.started()) == ["0", "0-0"]


def test_each_stage_is_told() -> None:
    """The client sees whose stop is waited for."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_all_run()
    assert [message for _, message in world.told("u1")] == [
        texts.RESOURCES_REQUESTED,
        texts.STANDBY_STOP_IN_PROGRESS,
        texts.STOP_IN_PROGRESS,
        texts.started("host-2"),
    ]


def test_the_standbys_new_place_is_neither_its_own_nor_its_actives() -> None:
    """Nor another replica's."""
    world = running(PLACES, groups=REPLICAS)
    world.submit(ask("0", "STANDBY"))
    [request] = world.sent(cmd.RequestResource)
    assert request.processor_id == "0-0"
    assert request.excluded_hosts == ("host-1", "host-2", "host-3")


def test_the_standby_soonest_ready_gives_way() -> None:
    """As in a failover."""
    world = running(PLACES, groups=REPLICAS)
    world.lag("0-0", 700, 9_000)
    world.lag("0-1", 700, 1_000)
    world.submit(ask("0", "STANDBY"))
    world.until_all_run()
    assert world.placed("0") == "host-3"


def test_an_active_without_standby_is_refused() -> None:
    """With what would help."""
    world = running(groups={"0": ("0",)})
    world.submit(ask("0", "STANDBY"))
    [(status, message)] = world.told("u1")
    assert status == "BAD_REQUEST"
    assert "active-with-standby: 0 has no standby; start one first, or name a host" in message


def test_a_standby_can_not_take_a_standbys_place() -> None:
    """Its active is named."""
    world = running()
    world.submit(ask("0-0", "STANDBY"))
    assert "active-with-standby: 0-0 is a standby; name its active, 0" in world.outcome()[1]


def test_a_standby_that_does_not_run_is_no_destination() -> None:
    """Refused, not queued: nobody knows when it will be ready."""
    world = running()
    world.trouble("host-2", Trouble.NO_CHECK_IN)
    world.crash("0-0")
    world.until_phase("0-0", Phase.STARTING)
    world.submit(ask("0", "STANDBY"))
    status, why = world.outcome()
    assert status == "BAD_REQUEST"
    assert why.endswith(
        "no standby container of 0 runs on a host where 0 may be; "
        "standby-runs: 0-0 on host-2 is starting; wait until 0-0 runs"
    )


# -- while a place for the standby is sought -----------------------------------------------


def test_no_place_for_the_standby_fails_and_touches_nobody() -> None:
    """Every other host is full."""
    world = running()
    world.fill("host-3")
    world.fill("host-4")
    world.submit(ask("0", "STANDBY"))
    world.until_stage(None)
    status, why = world.outcome()
    assert status == "FAILED"
    assert why.startswith(texts.expired("no host has room; left out: host-1: "))
    assert "host-2: 0-0 is there, and another host was asked for" in why
    assert world.stopped() == []


def test_a_standby_that_dies_while_its_place_is_sought_fails_it() -> None:
    """It restarts at home; what was asked for is given back."""
    world = swapping(Stage.RESERVING_STANDBY)
    world.crash("0-0")
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.standby_died("0-0"))
    world.settle()
    assert world.placed("0-0") == "host-2"
    assert active_untouched(world)


def test_a_standby_whose_host_is_lost_while_its_place_is_sought_fails_it() -> None:
    """Its place can't be taken."""
    world = swapping(Stage.RESERVING_STANDBY)
    world.lose("host-2")
    assert world.outcome() == ("FAILED", texts.host_lost("host-2"))
    world.until_all_run()
    assert active_untouched(world)


def test_an_active_that_dies_while_a_place_for_its_standby_is_sought_goes_home() -> None:
    """FAILED; its standby stays where it is."""
    world = swapping(Stage.RESERVING_STANDBY)
    world.crash("0")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.died_before("0"))
    world.settle()
    assert (world.placed("0"), world.placed("0-0")) == ("host-1", "host-2")


def test_an_active_whose_host_is_lost_takes_the_standbys_place_after_all() -> None:
    """FAILED as an action, and a failover: the standby hadn't been touched yet."""
    world = swapping(Stage.RESERVING_STANDBY)
    world.lose("host-1")
    assert world.outcome()[0] == "FAILED"
    world.until_all_run()
    assert world.placed("0") == "host-2"


# -- while the standby is stopped ----------------------------------------------------------


def test_a_standby_that_survives_its_stop_fails_it() -> None:
    """It is a standby as before; its new place is given back."""
    world = running()
    world.trouble("host-2", Trouble.STUBBORN)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(None)
    assert world.outcome() == ("FAILED", texts.stop_failed("host-2"))
    assert world.phases()["0-0"] is Phase.RUNNING
    world.until(lambda: not world.moves())
    assert world.held_resources() == {}
    assert active_untouched(world)


def test_a_standby_that_dies_by_itself_while_it_is_stopped_has_given_way() -> None:
    """No difference."""
    world = swapping(Stage.STOPPING_STANDBY)
    world.crash("0-0")
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"


def test_a_standby_whose_host_is_lost_while_it_is_stopped_fails_it() -> None:
    """Nobody will say that it is dead; it starts on another host after its lease."""
    world = swapping(Stage.STOPPING_STANDBY)
    world.lose("host-2")
    assert world.outcome() == ("FAILED", texts.host_lost("host-2"))
    world.until_all_run()
    assert active_untouched(world)
    assert world.placed("0-0") in ("host-3", "host-4")


@pytest.mark.parametrize("lost", [False, True], ids=["dies", "its host is lost"])
def test_an_active_that_is_down_while_its_standby_is_stopped_goes_on_there(lost: bool) -> None:
    """The place that is being cleared has the only other copy of its state."""
    world = swapping(Stage.STOPPING_STANDBY)
    if lost:
        world.lose("host-1")
    else:
        world.crash("0")
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-2"))
    assert world.counted()["failovers-to-any-host"] == 0


def test_an_active_that_is_down_goes_home_when_its_standby_survives_the_stop() -> None:
    """FAILED, and back to its source."""
    world = running()
    world.trouble("host-2", Trouble.STUBBORN)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.STOPPING_STANDBY)
    world.crash("0")
    world.until(lambda: world.outcome()[0] == "FAILED")
    assert world.outcome() == ("FAILED", texts.stop_failed("host-2"))
    world.until_all_run()
    assert (world.placed("0"), world.placed("0-0")) == ("host-1", "host-2")


def test_an_active_that_is_down_goes_home_when_its_standbys_host_is_lost_too() -> None:
    """FAILED, and back to its source."""
    world = swapping(Stage.STOPPING_STANDBY)
    world.crash("0")
    world.lose("host-2")
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.placed("0-0") in ("host-3", "host-4")
