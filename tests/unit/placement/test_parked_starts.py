"""What the heart says so that a container's process may be launched before its start."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Phase
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit


def requests(world: Scene) -> dict[str, cmd.RequestResource]:
    """Every resource request by its id."""
    return {r.request_id: r for r in world.log if isinstance(r, cmd.RequestResource)}


def starts(world: Scene) -> list[cmd.StartContainer]:
    """Every start in order."""
    return [s for s in world.log if isinstance(s, cmd.StartContainer)]


@pytest.mark.parametrize(
    "destination",
    ["host-4", "ANY_HOST", "STANDBY", "LAST_SEEN", "FORCE_RESTART_LAST_SEEN"],
)
def test_the_start_is_the_incarnation_that_its_request_named(destination: str) -> None:
    """Who runs was known when the resource was asked for; each request is started on once."""
    world = running()
    world.submit(ask("0", destination))
    world.settle()
    asked = requests(world)
    assert starts(world)
    for start in starts(world):
        assert asked[start.request_id].execution_id == start.execution_id
    assert len({s.request_id for s in starts(world)}) == len(starts(world))


def test_there_is_time_only_for_a_container_that_runs() -> None:
    """A move waits for its replacement; a forced restart and a failover wait for nothing."""
    world = running()
    world.submit(ask("0", "host-4"))
    assert [r.ahead for r in requests(world).values()] == [True]
    world = running()
    world.submit(ask("1", "FORCE_RESTART_LAST_SEEN"))
    world.settle()
    assert [r.ahead for r in requests(world).values()] == [False]
    world = running()
    world.crash("0")
    world.until_phase("0", Phase.REQUESTING)
    assert [r.ahead for r in requests(world).values()] == [False]


def test_a_standby_that_gives_way_is_waited_for_too() -> None:
    """Both reservations of a swap are of containers that run."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.settle()
    assert [(r.processor_id, r.ahead) for r in requests(world).values()] == [
        ("0-0", True),
        ("0", True),
    ]


def test_a_leader_that_takes_over_asks_for_the_same_incarnation() -> None:
    """And doesn't wait for what is being stopped already."""
    world = running()
    world.submit(ask("0", "host-4"))
    (before,) = requests(world).values()
    world.until_phase("0", Phase.STOPPING)
    world.log.clear()
    world.restart_coordinator()
    (again,) = requests(world).values()
    assert again.execution_id == before.execution_id
    assert (before.ahead, again.ahead) == (True, False)
