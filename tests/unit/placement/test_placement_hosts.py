"""Hosts that fall silent: what goes on without them, and what only their word allows."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import rules
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Ended, Fencing, Limits, Phase
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, QUICK, ask, running

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000)


def test_nobody_of_its_group_goes_to_a_host_where_a_member_was_not_seen_dead() -> None:
    """Not after its lease either: its process may still hold the store directory."""
    world = running(limits=QUICK)
    world.lose("host-1")
    world.until_all_run()
    [ghost] = world.group().ghosts
    assert ghost.ended is Ended.LEASE
    [candidate] = explain(world.state, "0-0", "host-1").candidates
    assert candidate.rule == rules.NOT_DEAD
    world.settle()
    assert world.group().ghosts == ()
    assert explain(world.state, "0-0", "host-1").legal


def test_what_was_fenced_is_stopped_when_its_host_returns() -> None:
    """A fence that was commanded can't be taken back."""
    world = running(limits=FENCED)
    before = world.execution("0")
    world.lose("host-1")
    world.come_back("host-1")
    assert before in [stop.execution_id for stop in world.sent(cmd.StopContainer)]
    world.settle()
    assert world.execution("0") != before


def test_a_ghost_has_leases_again_once_its_host_is_back() -> None:
    """Its old lease then proves nothing: only its death lets a successor start."""
    world = running(limits=QUICK)
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STOPPING)
    world.lose("host-1")
    world.come_back("host-1")
    [ghost] = world.group().ghosts
    assert (ghost.ended, ghost.lease_ends_ms) == (None, None)
    late = world.now_ms + 10 * world.state.limits.lease_ms
    assert world.group().ghosts == step(world.state, ev.TimePassed(late)).state.groups["0"].ghosts


def test_a_host_that_does_not_register_with_a_new_leader_is_lost_in_time() -> None:
    """Its incarnations may have leases of the leader before, up to one lease from now."""
    world = running(limits=QUICK)
    assert world.do(Move("cut", ("host-1", "both")))
    world.restart_coordinator()
    for name in HOSTS[1:]:
        world.register(name)
    restarted_at = world.now_ms
    world.until(lambda: not world.state.hosts["host-1"].alive)
    assert world.now_ms == restarted_at + QUICK.host_timeout_ms
    world.until_phase("0", Phase.STARTING)
    assert world.now_ms >= restarted_at + QUICK.lease_ms + QUICK.lease_bound_ms
