"""What a new deployment inherits: older incarnations that may still own its tasks, and ghosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.placement import codec
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import Fencing, JobState, Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import GROUPS, PLACES, QUICK, Scene, running

pytestmark = pytest.mark.unit

ONE, TWO = {"0": ("0",)}, {"0": ("0",), "1": ("1",)}


def regrouped() -> Scene:
    """From one container to two, while the old one, which owns all partitions, stops slowly."""
    world = running(groups=ONE, places={"0": "host-1"}, limits=QUICK)
    world.trouble("host-1", Trouble.SLOW_STOP)
    world.deploy(TWO, deployment_id="run-2", last_seen=PLACES, limits=QUICK)
    return world


def test_where_tasks_change_groups_nobody_starts_before_the_last_old_owner_is_dead() -> None:
    """The new 1 has half of what the old 0 owns: its own group's past says nothing of that."""
    world = regrouped()
    old = world.execution("0")
    world.until(lambda: world.phases()["1"] is Phase.RESERVED)
    assert [p.execution_id for p in world.processes() if p.released] == [old]
    world.calm("host-1")
    world.until(lambda: world.phases()["1"] is Phase.RUNNING)
    assert old not in {p.execution_id for p in world.processes()}
    assert world.state.regrouped_epoch == 0


def test_a_ghost_of_the_old_grouping_is_waited_for_to_the_end_of_its_lease() -> None:
    """On a host that fell silent it may process all partitions until then."""
    world = running(groups=ONE, places={"0": "host-1"}, limits=QUICK)
    world.lose("host-1")
    world.deploy(TWO, deployment_id="run-2", last_seen=PLACES, limits=QUICK)
    (ghost,) = world.group().ghosts
    world.until(lambda: world.phases()["1"] is Phase.RUNNING)
    assert ghost.lease_ends_ms is not None
    assert world.now_ms >= ghost.lease_ends_ms


def test_a_coordinator_that_takes_over_knows_that_tasks_changed_groups() -> None:
    """The state tells it, read from its record."""
    world = regrouped()
    told = codec.job_from_json(codec.job_to_json(world.state))
    assert told.regrouped_epoch == world.state.regrouped_epoch > 0


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


def test_a_ghost_of_the_deployment_before_is_not_taken_back() -> None:
    """It has the old config and JobModel: its host's return ends it, and a new one starts."""
    world = running(limits=QUICK)
    old = world.execution("0")
    world.lose("host-1")
    world.deploy(GROUPS, deployment_id="run-2", last_seen=PLACES, limits=QUICK)
    world.come_back("host-1")
    world.until_all_run()
    assert world.execution("0") != old
    assert "0" in {processor for processor, _ in world.started()}


def test_who_waits_for_a_lease_takes_nobodys_turn() -> None:
    """Two actives of a silent host wait for their leases; the other four start meanwhile."""
    groups = {str(number): (str(number),) for number in range(6)}
    hosts = ("host-1", "host-1", "host-2", "host-3", "host-4", "host-4")
    places = dict(zip(groups, hosts, strict=True))
    limits = Limits(host_timeout_ms=10_000, lease_ms=120_000)
    world = running(groups=groups, places=places, limits=limits)
    world.lose("host-1")
    world.deploy(groups, deployment_id="run-2", last_seen=places, limits=limits)
    began_ms = world.now_ms
    world.until(lambda: all(world.phases()[p] is Phase.RUNNING for p in ("2", "3", "4", "5")))
    assert world.now_ms - began_ms < limits.lease_ms / 2
    assert world.phases()["0"] is not Phase.RUNNING


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
    (ghost,) = state.groups["0"].ghosts
    assert ghost.fencing
    # As a coordinator that starts with another config has it.
    state = state.evolve(limits=replace(broker, fencing=Fencing.LEASE))
    state = step(state, ev.CoordinatorRestarted(3)).state
    due_ms = next_deadline_ms(state)
    while state.groups["0"].ghosts[0].ended is None and due_ms is not None and due_ms < 10**7:
        state = step(state, ev.TimePassed(due_ms)).state
        due_ms = next_deadline_ms(state)
    assert state.groups["0"].ghosts[0].ended is not None


def test_a_standby_that_came_up_cold_is_not_ranked_by_its_former_self() -> None:
    """The lag of its last incarnation is forgotten as it starts; the other standby is taken."""
    groups = {"0": ("0", "0-0", "0-1")}
    places = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}
    world = running(groups=groups, places=places, limits=QUICK)
    world.lag("0-0", 0, 0)
    world.lag("0-1", 50, 500)
    world.crash("0-0")
    world.until(lambda: world.phases()["0-0"] is Phase.RUNNING and not world.moves())
    assert "0-0" not in world.state.lags
    world.evict("0")
    world.until(lambda: world.group().failover is not None)
    assert world.group().failover.standby_id == "0-1"
    assert not [c for c in world.sent(cmd.StopContainer) if c.processor_id == "0-0"]
