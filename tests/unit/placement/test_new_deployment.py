"""A new deployment over whatever is going on: everything starts anew, nothing is left over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import AskKind, Limits, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import GROUPS, PLACES, QUICK, Scene, ask, held, own, running

pytestmark = pytest.mark.unit

SAME = dict.fromkeys(("0", "0-0", "1", "1-0"), Phase.RUNNING)


def redeploy(world: Scene, groups: dict[str, tuple[str, ...]] | None = None) -> Scene:
    world.deploy(
        groups or GROUPS, deployment_id="run-2", last_seen=PLACES, limits=world.state.limits
    )
    return world


def moving(stage: Stage, destination: str = "host-3") -> Callable[[], Scene]:
    def scene() -> Scene:
        world = running(limits=QUICK)
        world.submit(ask("0", destination))
        world.until_stage(stage)
        return world

    return scene


def falling_back() -> Scene:
    world = running(limits=QUICK)
    world.trouble("host-3", Trouble.NO_START)
    world.submit(ask("0", "host-3"))
    world.until_stage(Stage.FALLBACK_SOURCE)
    return world


def starting_a_standby() -> Scene:
    world = running(limits=QUICK)
    world.submit(own(AskKind.START_STANDBY, "0", "host-3"))
    world.until_stage(Stage.STARTING)
    return world


def stopping_a_standby() -> Scene:
    world = running(limits=QUICK)
    world.submit(own(AskKind.STOP_STANDBY, "0-0"))
    return world


def failing_over() -> Scene:
    world = running(limits=QUICK)
    world.trouble("host-2", Trouble.SLOW_STOP)
    world.evict("0")
    world.until(lambda: world.group().failover is not None)
    return world


def with_a_ghost() -> Scene:
    world = running(limits=QUICK)
    world.lose("host-1")
    return world


def flapping() -> Scene:
    world = running(limits=Limits(retry_count=0))
    world.crash("0")
    world.until_phase("0", Phase.WAITING)
    return world


UNDER_WAY: dict[str, Callable[[], Scene]] = {
    "nothing": lambda: running(limits=QUICK),
    "a move that reserves": moving(Stage.RESERVING),
    "a hold": held,
    "a move that stops": moving(Stage.STOPPING),
    "a move that starts": moving(Stage.STARTING),
    "a way back": falling_back,
    "a swap that seeks a place": moving(Stage.RESERVING_STANDBY, "STANDBY"),
    "a swap that stops the standby": moving(Stage.STOPPING_STANDBY, "STANDBY"),
    "a swap that reserves": moving(Stage.RESERVING, "STANDBY"),
    "a standby that is started": starting_a_standby,
    "a standby that is stopped": stopping_a_standby,
    "a failover": failing_over,
    "a ghost": with_a_ghost,
    "flapping": flapping,
}


@pytest.mark.parametrize("name", UNDER_WAY)
def test_whatever_was_under_way_all_of_the_new_deployment_runs(name: str) -> None:
    """And nothing that isn't its own: no process, no reservation, no action."""
    world = redeploy(UNDER_WAY[name]())
    world.settle()
    assert world.phases() == SAME
    assert all(group.action is None for group in world.state.groups.values())
    assert world.held_resources() == {}


@pytest.mark.parametrize("name", [n for n in UNDER_WAY if "move" in n or "swap" in n])
def test_an_action_that_was_under_way_fails_and_names_the_new_deployment(name: str) -> None:
    """At once, in the step of the deployment."""
    world = redeploy(UNDER_WAY[name]())
    assert world.outcome() == ("FAILED", texts.deployment_ended("run-2"))


def test_a_failed_action_keeps_its_first_outcome() -> None:
    """It was on its way back."""
    world = falling_back()
    before = world.outcome()
    redeploy(world)
    assert world.outcome() == before


def test_queued_requests_fail_too() -> None:
    """They were made for another run."""
    world = moving(Stage.STOPPING)()
    world.submit(ask("0-0", "host-4", uuid="u2"))
    redeploy(world)
    assert world.outcome("u2") == ("FAILED", texts.deployment_ended("run-2"))


def test_no_successor_starts_before_its_predecessor_is_dead() -> None:
    """Epochs belong to the job: the old run's incarnations are fenced like any other."""
    world = running(limits=QUICK)
    world.trouble("host-1", Trouble.SLOW_STOP)
    redeploy(world)
    world.until(lambda: world.phases()["0-0"] is Phase.RUNNING and not world.moves())
    assert world.phases()["0"] is Phase.STOPPING
    assert "0" not in dict(world.started())
    world.calm("host-1")
    world.until_all_run()
    assert world.certificate("0").epoch > 4


def test_what_the_new_deployment_lacks_is_stopped_and_gone() -> None:
    """A group and a standby fewer."""
    world = redeploy(running(), {"0": ("0",)})
    world.settle()
    assert world.phases() == {"0": Phase.RUNNING}
    assert set(world.state.groups) == {"0"}


def test_one_that_could_not_be_stopped_is_not_forgotten() -> None:
    """It isn't wanted any more, and its host is still where none of its group may be."""
    world = running(limits=QUICK)
    world.trouble("host-2", Trouble.STUBBORN)
    redeploy(world, {"0": ("0",), "1": ("1", "1-0")})
    world.until(lambda: world.phases()["1"] is Phase.RUNNING and not world.moves())
    assert not world.processor("0-0").wanted
    world.submit(ask("0", "host-2", deployment_id="run-2", uuid="u2"))
    world.until(lambda: len(world.told("u2")) > 0)
    assert world.outcome("u2")[0] == "BAD_REQUEST"
    world.settle()
    assert "0-0" not in world.phases()


def test_failures_of_the_old_deployment_are_forgiven() -> None:
    """New code deserves a first try."""
    world = flapping()
    redeploy(world)
    assert world.processor("0").failed_at_ms == ()
    assert world.processor("0").attempts == 0


def test_requests_of_the_old_deployment_are_only_deleted_from_now_on() -> None:
    """No answer, no memory."""
    world = redeploy(running())
    world.log.clear()
    world.submit(ask("0", "host-3", uuid="late"))
    assert world.log == [cmd.DeleteRequest("late")]


def test_a_standby_on_request_is_not_part_of_the_new_deployment() -> None:
    """It was started for the run before."""
    world = starting_a_standby()
    world.until_all_run()
    redeploy(world)
    world.settle()
    assert world.phases() == SAME
