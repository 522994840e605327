"""A coordinator that took over, hosts that come back, and processes that are nobody's."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, Scene, ask, running

pytestmark = pytest.mark.unit


def again(world: Scene, *kinds: type) -> list[cmd.Command]:
    """What a coordinator that takes over now says, of some kinds."""
    taken = step(world.state, ev.CoordinatorRestarted(world.now_ms))
    return [command for command in taken.commands if isinstance(command, kinds)]


def test_a_held_reservation_is_kept_and_named() -> None:
    """The host is the one that holds it, also when any was asked."""
    world = running()
    world.submit(ask("0", "ANY_HOST"))
    world.until(lambda: world.stage("0") is Stage.STOPPING)
    action = world.action("0")
    assert action is not None
    assert action.reservation is not None
    [request] = again(world, cmd.RequestResource)
    assert isinstance(request, cmd.RequestResource)
    assert request.request_id == action.reservation.request_id
    assert request.host == action.reservation.allocated_host


def test_last_responses_are_written_again_as_they_were() -> None:
    """A reader may have seen one of a commit that never was."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u1"))
    world.submit(ask("0", "host-4", uuid="u2"))
    world.wait(500)
    first, second = again(world, cmd.WriteResponse)
    assert first == world.responses()[0]
    assert isinstance(second, cmd.WriteResponse)
    assert (second.uuid, second.status) == ("u2", "ACCEPTED")


def test_time_without_a_coordinator_is_nobodys_failure() -> None:
    """Deadlines count from the take-over."""
    world = running()
    world.submit(ask("0", "host-3"))
    assert world.do(Move("kill-leader"))
    world.wait(3_600_000)
    assert world.do(Move("take-over"))
    world.settle()
    assert world.told("u1")[-1][0] == "SUCCEEDED"


def test_a_running_job_is_left_alone_by_a_take_over() -> None:
    """Not one effect."""
    world = running()
    assert step(world.state, ev.CoordinatorRestarted(world.now_ms)).commands == ()
    for host in HOSTS:
        world.register(host)
    assert world.log == []


def test_a_start_that_never_reached_its_host_is_sent_again_when_it_registers() -> None:
    """The books lack it."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STARTING)
    world.hosts["host-3"].commands.clear()
    world.register("host-3")
    starts = world.sent(cmd.StartContainer)
    assert len(starts) == 2
    assert starts[0] == starts[1]


def test_a_running_container_that_the_books_lack_is_dead() -> None:
    """The books that it was started on, after a power cut: it starts again there."""
    world = running()
    assert world.do(Move("reboot", ("host-1",)))
    world.hosts["host-1"].books.clear()
    world.register("host-1")
    assert world.phases()["0"] is Phase.REQUESTING
    world.settle()
    assert world.where("0") == "host-1"


def test_a_stopping_one_that_the_books_lack_is_dead_only_when_its_stop_is_answered() -> None:
    """Its start may still be on its way to the host, before the stop."""
    world = running()
    world.trouble("host-3", Trouble.NO_CHECK_IN)
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STARTING)
    world.wait(60_000)
    assert world.phases()["0"] is Phase.STOPPING
    world.register("host-3")
    assert world.phases()["0"] is Phase.STOPPING
    *_, overdue, registered = world.sent(cmd.StopContainer)
    assert registered == overdue
    world.settle()
    assert world.where("0") == "host-1"


def test_a_resource_that_nobody_asked_for_is_given_back() -> None:
    """What a lost release left behind."""
    world = running()
    taken = step(world.state, ev.ResourceAllocated(world.now_ms, "demo-request-000099", "host-4"))
    assert taken.commands == (cmd.ReleaseResource("demo-request-000099"),)


def test_the_resource_of_a_running_container_is_not_given_back() -> None:
    """Its allocation may be told again."""
    world = running()
    incarnation = world.state.groups["0"].processors["0"].incarnation
    assert incarnation is not None
    event = ev.ResourceAllocated(world.now_ms, incarnation.request_id, incarnation.host)
    assert step(world.state, event).commands == ()


def test_a_step_that_changes_a_group_raises_its_sequence_alone() -> None:
    """By one, whatever it changed."""
    world = running()
    before = {name: group.sequence for name, group in world.state.groups.items()}
    world.submit(ask("0", "host-3"))
    after = {name: group.sequence for name, group in world.state.groups.items()}
    assert after == {**before, "0": before["0"] + 1}


def test_time_never_goes_back() -> None:
    """An event with an older stamp leaves the state's time."""
    world = running()
    assert step(world.state, ev.TimePassed(5)).state.now_ms == world.state.now_ms
