"""Reports that come late, twice, or about what is nobody's any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Phase
from samza_dagster.simulation.steps import handle
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit

Report = Callable[[int, str, str], ev.Event]
REPORTS: dict[str, Report] = {
    "launched": ev.ContainerLaunched,
    "checked in": ev.ContainerCheckedIn,
    "stopped": lambda at, eid, host: ev.ContainerStopped(at, eid, host, 143),
    "start failed": lambda at, eid, host: ev.StartFailed(at, eid, host, "late"),
    "stop failed": lambda at, eid, host: ev.StopFailed(at, eid, host, "late"),
}


def replaced() -> tuple[Scene, str]:
    """A processor that runs, and the id of the incarnation before."""
    world = running()
    old = world.execution("0")
    world.submit(ask("0", "host-3"))
    world.settle()
    return world, old


@pytest.mark.parametrize("name", REPORTS)
def test_no_report_of_an_old_incarnation_touches_its_successor(name: str) -> None:
    """The group is as it was."""
    world, old = replaced()
    taken = step(world.state, REPORTS[name](world.now_ms, old, "host-1"))
    assert taken.state.groups == world.state.groups


@pytest.mark.parametrize("name", ["launched", "checked in"])
def test_an_old_incarnation_that_says_it_lives_is_stopped(name: str) -> None:
    """It is nobody's."""
    world, old = replaced()
    taken = step(world.state, REPORTS[name](world.now_ms, old, "host-1"))
    assert taken.commands == (cmd.StopContainer(old, "host-1"),)


@pytest.mark.parametrize("name", ["stopped", "start failed"])
def test_a_second_report_of_an_end_only_lets_the_agent_forget(name: str) -> None:
    """No second certificate, no second start."""
    world, old = replaced()
    taken = step(world.state, REPORTS[name](world.now_ms, old, "host-1"))
    assert taken.commands == (cmd.ForgetContainer(old, "host-1"),)


def test_a_stop_that_failed_late_means_nothing_to_one_that_runs() -> None:
    """It isn't being stopped."""
    world = running()
    event = ev.StopFailed(world.now_ms, world.execution("0"), "host-1", "late")
    assert step(world.state, event).state.groups == world.state.groups


def test_an_allocation_that_is_told_twice_is_taken_once() -> None:
    """The second changes nothing, and gives nothing back."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    handle(world, ev.ResourceAllocated(world.now_ms, request.request_id, "host-3"))
    before = world.state.groups
    taken = step(world.state, ev.ResourceAllocated(world.now_ms, request.request_id, "host-3"))
    assert (taken.commands, taken.state.groups) == ((), before)


def test_an_expiry_after_the_allocation_is_too_late() -> None:
    """What is held stays held; the move goes on."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    handle(world, ev.ResourceAllocated(world.now_ms, request.request_id, "host-3"))
    taken = step(world.state, ev.RequestExpired(world.now_ms, request.request_id, "late"))
    assert (taken.commands, taken.state.groups) == ((), world.state.groups)


def test_an_allocation_after_the_expiry_is_given_back() -> None:
    """The request is nobody's."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    world.expire("0")
    taken = step(world.state, ev.ResourceAllocated(world.now_ms, request.request_id, "host-3"))
    assert taken.commands == (cmd.ReleaseResource(request.request_id),)


def test_a_check_in_while_it_is_being_stopped_does_not_make_it_run() -> None:
    """It came out of its start just then; its death still leads on."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STOPPING)
    event = ev.ContainerCheckedIn(world.now_ms, world.execution("0"), "host-1")
    assert step(world.state, event).state.groups == world.state.groups


def test_a_fence_of_one_that_nobody_fences_changes_nothing() -> None:
    """An answer to an earlier leader."""
    world = running()
    taken = step(world.state, ev.PrincipalFenced(world.now_ms, world.execution("0")))
    assert (taken.commands, taken.state.groups) == ((), world.state.groups)
