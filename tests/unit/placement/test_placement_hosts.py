"""Hosts that fall silent: what goes on without them, and what only their word allows."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import rules
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Ended, Fencing, Group, Limits, Phase
from tests.unit.placement.scenes import ask, running
from tests.unit.placement.world import World

pytestmark = pytest.mark.unit


def lose(world: World, name: str) -> None:
    host = world.hosts[name]
    host.up = host.registered = False
    host.silent_since_ms = world.now_ms
    world.handle(ev.HostLost(world.now_ms, name, world.now_ms))


def come_back(world: World, name: str) -> None:
    world.hosts[name].up = True
    world.register(name)


def group(world: World, group_id: str = "0") -> Group:
    return world.state.groups[group_id]


def test_an_active_on_a_lost_host_fails_over_at_once_but_starts_after_its_lease() -> None:
    """Silence proves no death: the successor waits for the lease and its bound."""
    world = running()
    lose(world, "host-1")
    lost_at = world.now_ms
    assert group(world).failover is not None
    world.until(lambda: world.phases()["0"] is Phase.RESERVED)
    assert world.where("0-0") is None, "the standby gave way"
    world.until(lambda: world.where("0") == "host-2")
    limits = world.state.limits
    assert world.now_ms == lost_at + limits.lease_ms + limits.lease_bound_ms
    world.until(lambda: world.phases()["0"] is Phase.RUNNING)
    start = next(
        c.record
        for c in reversed(world.sent(cmd.RecordCertificate))
        if c.record.kind == "start" and c.record.processor_id == "0"
    )
    assert start.predecessor is not None
    assert start.predecessor.how == Ended.LEASE


def test_a_fenced_active_is_replaced_without_waiting_for_its_lease() -> None:
    """The brokers refuse its principal, so its process may live on for all we know."""
    world = running(limits=Limits(fencing=Fencing.BROKER))
    lose(world, "host-1")
    lost_at = world.now_ms
    [fence] = world.sent(cmd.FencePrincipal)
    world.until(lambda: world.phases()["0"] is Phase.RESERVED)
    world.handle(ev.PrincipalFenced(world.now_ms, fence.execution_id))
    assert world.phases()["0"] is Phase.STARTING
    assert world.now_ms < lost_at + world.state.limits.lease_ms


def test_nobody_of_its_group_goes_to_a_host_where_a_member_was_not_seen_dead() -> None:
    """Not after its lease either: its process may still hold the store directory."""
    world = running()
    lose(world, "host-1")
    world.settle_with({"host-1"})
    [ghost] = group(world).ghosts
    assert ghost.ended is Ended.LEASE
    [candidate] = explain(world.state, "0-0", "host-1").candidates
    assert candidate.rule == rules.NOT_DEAD
    come_back(world, "host-1")
    world.settle()
    assert group(world).ghosts == ()
    assert explain(world.state, "0-0", "host-1").legal


def test_a_container_is_taken_back_when_its_host_returns_before_anything_replaced_it() -> None:
    """The failover that had begun is called off; the standby keeps its preference."""
    world = running()
    before = world.entry("0").execution_id
    lose(world, "host-1")
    come_back(world, "host-1")
    assert group(world).failover is None
    assert world.phases()["0"] is Phase.RUNNING
    world.settle()
    assert world.entry("0").execution_id == before
    assert world.where("0-0") == "host-2"
    assert world.resources.held() == []


def test_what_was_fenced_is_stopped_when_its_host_returns() -> None:
    """A fence that was commanded can't be taken back."""
    world = running(limits=Limits(fencing=Fencing.BROKER))
    before = world.entry("0").execution_id
    lose(world, "host-1")
    come_back(world, "host-1")
    assert before in [stop.execution_id for stop in world.sent(cmd.StopContainer)]
    world.settle()
    assert world.entry("0").execution_id != before


def test_a_ghost_has_leases_again_once_its_host_is_back() -> None:
    """Its old lease then proves nothing: only its death lets a successor start."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.until(lambda: world.phases()["0"] is Phase.STOPPING)
    lose(world, "host-1")
    come_back(world, "host-1")
    [ghost] = group(world).ghosts
    assert (ghost.ended, ghost.lease_ends_ms) == (None, None)
    late = world.now_ms + 10 * world.state.limits.lease_ms
    assert group(world).ghosts == step(world.state, ev.TimePassed(late)).state.groups["0"].ghosts


def test_a_host_that_does_not_register_with_a_new_leader_is_lost_in_time() -> None:
    """Its incarnations may have leases of the leader before, up to one lease from now."""
    world = running()
    world.hosts["host-1"].up = False
    world.crash()
    for name in ("host-2", "host-3", "host-4"):
        world.register(name)
    restarted_at = world.now_ms
    world.until(lambda: not world.state.hosts["host-1"].alive)
    assert world.now_ms == restarted_at + world.state.limits.host_timeout_ms
    world.until(lambda: world.phases()["0"] is Phase.STARTING)
    limits = world.state.limits
    assert world.now_ms >= restarted_at + limits.lease_ms + limits.lease_bound_ms
