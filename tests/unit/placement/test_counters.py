"""Every counter by its name, and what raises it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.placement.state import AskKind, Stage
from tests.unit.placement.scenes import GROUPS, PLACES, Scene, ask, own, running

pytestmark = pytest.mark.unit


def active_dies(world: Scene) -> None:
    world.crash("0")


def standby_dies(world: Scene) -> None:
    world.crash("0-0")


def active_fails_over(world: Scene) -> None:
    world.evict("0")


def standby_finds_no_room_at_home(world: Scene) -> None:
    world.evict("0-0")


def nobody_qualifies(world: Scene) -> None:
    """The hosts of both are lost."""
    world.lose("host-2")
    world.lose("host-1")


def no_room_for_a_long_time(world: Scene) -> None:
    """Nor has any other host room: round after round of the ladder."""
    world.fill("host-3")
    world.fill("host-4")
    nobody_qualifies(world)
    world.until(lambda: world.asked_for("0").count(None) == 4)
    del world.hosts["host-4"].ledger["of-another-job"]
    world.make_room("host-3")


def a_new_deployment_whose_host_is_lost(world: Scene) -> None:
    """Nothing of it has failed; the loss was the deployment's before it."""
    world.lose("host-2")
    world.lose("host-1")
    world.log.clear()
    world.deploy(GROUPS, deployment_id="run-2", last_seen=PLACES, limits=world.state.limits)


def a_move(world: Scene) -> None:
    world.submit(ask("0", "host-3"))


def a_move_that_fails(world: Scene) -> None:
    world.fill("host-3")
    world.submit(ask("0", "host-3"))


def a_move_that_is_cancelled(world: Scene) -> None:
    world.submit(ask("0", "host-3"))
    world.control(AskKind.CANCEL)


def a_bad_request(world: Scene) -> None:
    world.submit(ask("0", "host-2"))


def a_fail_over_on_request(world: Scene) -> None:
    world.submit(own(AskKind.FAIL_OVER, "0"))


def no_room_anywhere(world: Scene) -> None:
    world.fill("host-3")
    world.fill("host-4")
    world.evict("0-0")
    world.until(lambda: world.counted()["expired-any-host-requests"] == 1)
    world.make_room("host-3")


DEATH = {"failed-containers": 1, "preferred-host-requests": 1}
FAILED_ACTION = {"failed-container-placements-actions": 1}
COUNTED: dict[Callable[[Scene], None], dict[str, int]] = {
    active_dies: {**DEATH, "active-failures": 1},
    standby_dies: {**DEATH, "standby-failures": 1},
    active_fails_over: {
        "failed-containers": 1,
        "active-failures": 1,
        "preferred-host-requests": 2,
        "expired-preferred-host-requests": 1,
        "failovers-to-standby": 1,
        "any-host-requests": 1,
    },
    standby_finds_no_room_at_home: {
        **DEATH,
        "standby-failures": 1,
        "expired-preferred-host-requests": 1,
        "any-host-requests": 1,
    },
    nobody_qualifies: {
        "failed-containers": 2,
        "active-failures": 1,
        "standby-failures": 1,
        "failovers-to-any-host": 1,
        "any-host-requests": 2,
    },
    a_move: {},
    a_move_that_fails: FAILED_ACTION,
    a_move_that_is_cancelled: FAILED_ACTION,
    a_bad_request: {},
    no_room_anywhere: {
        "failed-containers": 1,
        "standby-failures": 1,
        "preferred-host-requests": 2,
        "expired-preferred-host-requests": 2,
        "expired-any-host-requests": 1,
        "any-host-requests": 2,
    },
}


@pytest.mark.parametrize("what", COUNTED, ids=lambda what: what.__name__.replace("_", " "))
def test_what_is_counted(what: Callable[[Scene], None]) -> None:
    """These and no others."""
    world = running()
    what(world)
    world.until(lambda: world.stage("0") is None)
    world.until_all_run()
    assert dict(world.counted()) == COUNTED[what]


@pytest.mark.parametrize(
    ("what", "failovers"), [(no_room_for_a_long_time, 1), (a_new_deployment_whose_host_is_lost, 0)]
)
def test_a_failover_to_any_host_counts_once_for_each_failure(
    what: Callable[[Scene], None], failovers: int
) -> None:
    """Not for each round of the ladder, and not where nothing has failed."""
    world = running()
    what(world)
    world.until_all_run()
    assert world.counted()["failovers-to-any-host"] == failovers
    assert world.counted()["failovers-to-standby"] == 0


def test_a_planned_fail_over_is_no_failure() -> None:
    """Nothing failed; the standby that gives way finds a place as any processor does."""
    world = running()
    a_fail_over_on_request(world)
    world.until_all_run()
    assert not {name for name in world.counted() if "fail" in name}


def test_a_take_over_counts_nothing_again() -> None:
    """Counters are of what happened, not of what is said again."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_stage(Stage.STOPPING)
    before = world.counted()
    world.restart_coordinator()
    assert world.counted() == before
