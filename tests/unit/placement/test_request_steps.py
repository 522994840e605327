"""Single steps of requests and deployments that no scene comes to by itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import group_to_json
from samza_dagster.placement.commands import DeleteRequest, StopContainer, WriteResponse
from samza_dagster.placement.events import (
    ContainerCheckedIn,
    CoordinatorRestarted,
    JobDeployed,
    LagObserved,
    RequestArrived,
    StopFailed,
)
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.responses import LONGEST_MESSAGE
from samza_dagster.placement.state import (
    Fencing,
    JobState,
    Lag,
    Limits,
    Phase,
    PlacementAsk,
)
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import (
    GROUPS,
    PLACES,
    QUICK,
    ask,
    job,
    running,
)
from tests.unit.placement.words import take

pytestmark = pytest.mark.unit

NEVER_CHECKS_IN = "host-2 lets nobody check in; 0-0 dies; until 0-0 is starting"


def test_a_take_over_gives_a_start_that_is_being_stopped_its_time_anew() -> None:
    """As it does to every start: its deadline was of another clock."""
    world = take(job("two pairs"), f"{NEVER_CHECKS_IN}; host-2 stops nothing; stop standby 0-0")
    after = step(world.state, CoordinatorRestarted(world.now_ms + 20_000)).state
    stop_failed = StopFailed(after.now_ms, world.execution("0-0"), "host-2", "it lives on")
    standby = step(after, stop_failed).state.groups["0"].processors["0-0"]
    due_ms = after.now_ms + after.limits.start_timeout_ms
    assert (standby.phase, standby.deadline_ms) == (Phase.STARTING, due_ms)


def test_a_standby_that_checks_in_while_it_is_stopped_runs_if_it_survives() -> None:
    """What was said is heard, though it was on its way to an end."""
    world = take(job("two pairs"), f"{NEVER_CHECKS_IN}; stop standby 0-0")
    execution_id = world.execution("0-0")
    after = step(world.state, ContainerCheckedIn(world.now_ms, execution_id, "host-2")).state
    assert after.groups["0"].processors["0-0"].phase is Phase.STOPPING
    result = step(after, StopFailed(world.now_ms, execution_id, "host-2", "it lives on"))
    standby = result.state.groups["0"].processors["0-0"]
    assert (standby.phase, standby.deadline_ms) == (Phase.RUNNING, None)
    assert (standby.attempts, standby.last_seen_host) == (0, "host-2")
    assert cmd.WriteLocality("0-0", "host-2") in result.commands


def test_a_standby_that_was_being_stopped_already_goes_on_being_stopped() -> None:
    """Its start was overdue: a request that comes then and fails doesn't make it run."""
    world = take(job("two pairs"), f"{NEVER_CHECKS_IN}; host-2 stops nothing")
    world.wait(world.state.limits.start_timeout_ms)
    assert world.processor("0-0").phase is Phase.STOPPING
    take(world, "stop standby 0-0")
    execution_id = world.execution("0-0")
    stop_failed = StopFailed(world.now_ms, execution_id, "host-2", "it lives on")
    after = step(world.state, stop_failed).state.groups["0"]
    standby = after.processors["0-0"]
    assert (standby.phase, standby.wanted, after.action) == (Phase.STOPPING, True, None)
    assert standby.deadline_ms is not None


def test_of_a_standby_that_was_removed_no_lag_is_kept() -> None:
    """Nor is one of it that was read before and told after."""
    world = take(job("two pairs"), "0-0 is 5 records behind; stop standby 0-0")
    world.until(lambda: "0-0" not in world.phases())
    assert "0-0" not in world.state.lags
    late = LagObserved(world.now_ms, (Lag("0-0", 5, None, world.now_ms), Lag("9-9", 1, None, 0)))
    assert step(world.state, late).state.lags == world.state.lags


ONE, TWO = {"0": ("0",)}, {"0": ("0",), "1": ("1",)}


def test_tasks_change_groups_also_under_the_same_names() -> None:
    """As many containers as before, and other partitions for each."""
    world = running(limits=QUICK)
    deployed = ev.JobDeployed(world.now_ms, "run-2", GROUPS, PLACES, QUICK)
    assert step(world.state, deployed).state.regrouped_epoch == 0
    other = replace(deployed, grouping="other partitions for each")
    assert step(world.state, other).state.regrouped_epoch == world.state.next_epoch


def test_tasks_change_groups_also_where_a_group_goes_that_never_started() -> None:
    """It leaves nothing behind, and its tasks go to the others all the same."""
    one_at_a_time = replace(QUICK, max_concurrent_starts=1)
    state = JobState("demo")
    for event in (
        ev.HostRegistered(0, "host-1", frozenset()),
        ev.JobDeployed(0, "run-1", TWO, PLACES, one_at_a_time),
    ):
        state = step(state, event).state
    (request,) = (p.request for p in state.groups["0"].processors.values())
    assert request is not None
    state = step(state, ev.ResourceAllocated(1, request.request_id, "host-1")).state
    fewer = step(state, ev.JobDeployed(2, "run-2", ONE, PLACES, one_at_a_time)).state
    assert "1" not in fewer.groups
    assert fewer.regrouped_epoch == state.next_epoch


def test_tasks_change_groups_also_where_one_comes_back_that_has_not_ended() -> None:
    """The groups are those of two deployments ago, and the containers those of the last."""
    world = running(groups=TWO, places=PLACES, limits=QUICK)
    for host in ("host-1", "host-2", "host-3"):
        world.trouble(host, Trouble.SLOW_STOP)
    world.deploy(ONE, deployment_id="run-2", last_seen=PLACES, limits=QUICK)
    assert "1" in world.state.groups
    state = world.state.evolve(regrouped_epoch=0)
    again = step(state, ev.JobDeployed(world.now_ms, "run-3", TWO, PLACES, QUICK)).state
    assert again.regrouped_epoch == state.next_epoch


def test_a_fence_that_the_job_has_no_more_is_not_waited_for() -> None:
    """Broker fencing was switched off: what was to be fenced ends with its lease."""
    broker = Limits(fencing=Fencing.BROKER)
    state = JobState("demo")
    for event in (
        ev.HostRegistered(0, "host-1", frozenset()),
        ev.JobDeployed(0, "run-1", ONE, {"0": "host-1"}, broker),
    ):
        state = step(state, event).state
    (request,) = (p.request for p in state.groups["0"].processors.values())
    assert request is not None
    state = step(state, ev.ResourceAllocated(1, request.request_id, "host-1")).state
    state = step(state, ev.HostLost(2, "host-1", 2)).state
    (orphan,) = state.groups["0"].orphans
    assert orphan.fencing
    # As a coordinator that starts with another config has it.
    state = state.evolve(limits=replace(broker, fencing=Fencing.LEASE))
    state = step(state, ev.CoordinatorRestarted(3)).state
    due_ms = next_deadline_ms(state)
    while state.groups["0"].orphans[0].ended is None and due_ms is not None and due_ms < 10**7:
        state = step(state, ev.TimePassed(due_ms)).state
        due_ms = next_deadline_ms(state)
    assert state.groups["0"].orphans[0].ended is not None


def test_a_request_is_refused_while_no_container_could_start() -> None:
    """BAD_REQUEST with the reason, taken off the stream, nothing queued and nothing stopped."""
    deployed = step(JobState("job-1"), JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    ask = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
    after = step(deployed.state, RequestArrived(3, ask, "offset 7: a key that is no JSON array"))
    responses = [c for c in after.commands if isinstance(c, WriteResponse)]
    assert [r.status for r in responses] == ["BAD_REQUEST"]
    assert "offset 7" in responses[0].message
    assert DeleteRequest("u") in after.commands
    assert not [c for c in after.commands if isinstance(c, StopContainer)]
    assert after.state.groups["0"].queue == ()


LONG = "a key that is no JSON array; " * 100_000


def responses(commands: tuple[object, ...]) -> list[WriteResponse]:
    return [c for c in commands if isinstance(c, WriteResponse)]


def test_a_thousand_bad_records_make_no_refusal_that_cant_be_written() -> None:
    """Each is named; a stranger may write as many as it likes."""
    deployed = step(JobState("job-1"), ev.JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    refused = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
    (told,) = responses(step(deployed.state, ev.RequestArrived(3, refused, LONG)).commands)
    assert told.message.startswith("BAD_REQUEST reason: ")
    assert len(told.message) == LONGEST_MESSAGE
    assert told.message.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_a_thousand_hosts_without_room_make_no_answer_that_cant_be_written() -> None:
    """What each of them lacks is told; the first are enough."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    taken = step(world.state, ev.RequestExpired(world.now_ms, request.request_id, LONG))
    (told,) = responses(taken.commands)
    assert told.status == "FAILED"
    assert len(told.message) == LONGEST_MESSAGE
    assert len(json.dumps(group_to_json(taken.state.groups["0"]))) < 2 * LONGEST_MESSAGE
