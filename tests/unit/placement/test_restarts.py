"""Restarts: a container started anew where it is."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.state import Phase
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit

RESERVING = ("IN_PROGRESS", texts.RESOURCES_REQUESTED)
STOPPING = ("IN_PROGRESS", texts.STOP_IN_PROGRESS)


def order(world: Scene) -> list[str]:
    """The effects that matter, by name."""
    kinds = (cmd.RequestResource, cmd.StopContainer, cmd.StartContainer)
    return [type(command).__name__ for command in world.log if isinstance(command, kinds)]


def test_last_seen_restarts_where_it_is() -> None:
    """A new incarnation on the same host."""
    world = running()
    before = world.entry("1").execution_id
    world.submit(ask("1", "LAST_SEEN"))
    world.settle()
    assert world.where("1") == "host-3"
    assert world.entry("1").execution_id != before
    assert world.told("u1") == [RESERVING, STOPPING, ("SUCCEEDED", texts.started("host-3"))]


def test_a_forced_restart_stops_first_and_succeeds_when_it_runs_again() -> None:
    """It needs no second slot on the host; SUCCEEDED is not said before it is true."""
    world = running()
    world.submit(ask("1", "FORCE_RESTART_LAST_SEEN"))
    assert world.told("u1") == [STOPPING]
    world.settle()
    assert order(world) == ["StopContainer", "RequestResource", "StartContainer"]
    assert world.told("u1") == [STOPPING, RESERVING, ("SUCCEEDED", texts.started("host-3"))]


def test_a_forced_restart_that_loses_its_host_fails_and_runs_elsewhere() -> None:
    """Down is worse than elsewhere."""
    world = running()
    world.submit(ask("1", "FORCE_RESTART_LAST_SEEN"))
    world.until_phase("1", Phase.REQUESTING)
    world.expire("1")
    world.until(lambda: world.told("u1")[-1][0] == "FAILED")
    world.settle()
    assert world.told("u1")[-1] == ("FAILED", texts.expired("no host has room"))
    assert world.phases()["1"] is Phase.RUNNING


@pytest.mark.parametrize("processor_id", ["0", "0-0"])
@pytest.mark.parametrize("word", ["LAST_SEEN", "FORCE_RESTART_LAST_SEEN"])
def test_active_and_standby_are_restarted_alike(processor_id: str, word: str) -> None:
    """A new incarnation on the same host; the other member isn't touched."""
    world = running()
    home, before = world.placed(processor_id), world.execution(processor_id)
    world.submit(ask(processor_id, word))
    world.until_all_run()
    assert world.placed(processor_id) == home
    assert world.execution(processor_id) != before
    assert world.stopped() == [processor_id]


def test_a_restart_needs_a_second_slot_on_its_host_and_a_forced_one_does_not() -> None:
    """Reserve before stop has its price; the forced one stops first."""
    world = running(slots=1)
    world.submit(ask("0", "LAST_SEEN", uuid="u1"))
    world.until_stage(None)
    assert world.outcome("u1") == ("FAILED", texts.expired("no host has room"))
    world.submit(ask("0", "FORCE_RESTART_LAST_SEEN", uuid="u2"))
    world.until_all_run()
    assert world.outcome("u2") == ("SUCCEEDED", texts.started("host-1"))


def test_naming_the_host_where_it_is_is_a_restart() -> None:
    """The same as LAST_SEEN."""
    world = running()
    before = world.execution("0")
    world.submit(ask("0", "host-1"))
    world.until_all_run()
    assert world.outcome() == ("SUCCEEDED", texts.started("host-1"))
    assert world.execution("0") != before
