"""A second fault at each stage of each action and failover: nothing breaks, everything comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.placement.state import Phase
from samza_dagster.placement.verification import verify
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import HOSTS, Scene
from tests.unit.placement.test_recovery_stages import CASES, STORIES, at, go_on

pytestmark = pytest.mark.unit


def dies(processor_id: str) -> Callable[[Scene], None]:
    def fault(world: Scene) -> None:
        if world.where(processor_id) is not None:
            world.crash(processor_id)

    return fault


def is_lost(host: str) -> Callable[[Scene], None]:
    def fault(world: Scene) -> None:
        if world.state.hosts[host].alive:
            world.lose(host)

    return fault


def is_silent_for_a_moment(host: str) -> Callable[[Scene], None]:
    def fault(world: Scene) -> None:
        is_lost(host)(world)
        world.come_back(host)

    return fault


def every_stop_fails(world: Scene) -> None:
    for host in HOSTS:
        world.trouble(host, Trouble.STUBBORN)


SECOND: dict[str, Callable[[Scene], None]] = {
    "the active dies": dies("0"),
    "the standby dies": dies("0-0"),
    "host-1 is lost": is_lost("host-1"),
    "host-2 is lost": is_lost("host-2"),
    "host-3 is lost": is_lost("host-3"),
    "host-1 is silent for a moment": is_silent_for_a_moment("host-1"),
    "every stop fails": every_stop_fails,
}


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize(("name", "moment"), CASES)
def test_everything_comes_back_and_the_history_is_in_order(
    name: str, moment: str, second: str
) -> None:
    """Each step is judged on the way; in the end each request has one outcome."""
    world = at(STORIES[name], moment)
    SECOND[second](world)
    for _ in range(60):
        go_on(world)
        if not world.moves() and set(world.phases().values()) == {Phase.RUNNING}:
            break
    world.settle()
    assert set(world.phases().values()) == {Phase.RUNNING}
    assert verify([record.record for record in world.brokers.audit]).violation is None
    outcomes = [status for status in world.statuses() if status in ("SUCCEEDED", "FAILED")]
    assert len(outcomes) == bool(world.asks())
