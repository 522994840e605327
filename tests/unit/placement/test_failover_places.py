"""A standby that doesn't run has a place too, and a place that comes too late isn't too late."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState, Lag, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def waiting_cold() -> Scene:
    """Hosts of active and standby were lost: a cold place is held, the lease isn't over."""
    world = running(limits=QUICK)
    world.lose("host-2")
    world.lose("host-1")
    world.until_phase("0", Phase.RESERVED)
    return world


# -- of a standby that doesn't run -----------------------------------------------------------


def test_one_whose_start_failed_there_has_no_place() -> None:
    """What keeps it from starting would keep the active."""
    world = running(limits=QUICK)
    world.trouble("host-2", Trouble.NO_START)
    world.crash("0-0")
    world.until(lambda: world.processor("0-0").avoid_hosts == ("host-2",))
    world.lose("host-1")
    assert world.asked_for("0") == [None]


# -- looked at again -----------------------------------------------------------------------


def test_an_active_that_waits_takes_the_place_of_a_standby_that_is_ready_by_now() -> None:
    """Its standby's host comes back with it during the lease's wait."""
    world = waiting_cold()
    held = world.processor("0").request
    assert held is not None
    world.come_back("host-2")
    assert world.asked_for("0") == [None, "host-2"]
    assert cmd.ReleaseResource(held.request_id) in world.log
    world.until_all_run()
    assert world.placed("0") == "host-2"
    assert world.held_resources() == {}
    assert world.why_started("0") == "failover to the host of 0-0: it was ready before 0 started"


# -- in one fault domain -------------------------------------------------------------------


def crowded(
    groups: dict[str, tuple[str, ...]] = REPLICAS, places: dict[str, str] = PLACES
) -> tuple[Scene, JobState]:
    """The agent of host-3 has come back with the rack of host-2: both standbys are in it."""
    world = Scene.of(
        ("host-1", "host-2", "host-3", "host-4"),
        slots=4,
        domains={"host-1": "A", "host-2": "B", "host-3": "C", "host-4": "D"},
    )
    for host in ("host-1", "host-2", "host-3", "host-4"):
        world.register(host)
    world.deploy(groups, last_seen=places, limits=QUICK)
    world.until_all_run()
    known = world.state.hosts["host-3"]
    books = frozenset(world.hosts["host-3"].books)
    told = ev.HostRegistered(world.now_ms, "host-3", books, "B", known.books, known.boot_id)
    return world, step(world.state, told).state


def test_two_standbys_in_one_fault_domain_bar_nobodys_way() -> None:
    """An active in the place of one is no nearer to the other than that one was."""
    _, state = crowded()
    assert [c.legal for c in explain(state, "0", "STANDBY").candidates] == [True, True]
    asked = step(state, ev.RequestArrived(state.now_ms, ask("0", "STANDBY")))
    [said] = [c for c in asked.commands if isinstance(c, cmd.WriteResponse)]
    assert said.status == "IN_PROGRESS"


def test_an_active_whose_home_is_full_takes_one_of_their_places() -> None:
    """And starts there, once the standby was seen dead."""
    world, state = crowded()
    active = world.execution("0")
    state = step(state, ev.ContainerStopped(state.now_ms, active, "host-1", 137)).state
    asked = state.groups["0"].processors["0"].request
    assert asked is not None
    state = step(state, ev.RequestExpired(state.now_ms, asked.request_id, "full")).state
    failover = state.groups["0"].failover
    assert failover is not None
    assert failover.host == "host-2"
    asked = state.groups["0"].processors["0"].request
    assert asked is not None
    gone = world.execution("0-0")
    state = step(state, ev.ContainerStopped(state.now_ms, gone, "host-2", 143)).state
    state = step(state, ev.ResourceAllocated(state.now_ms, asked.request_id, "host-2")).state
    assert state.groups["0"].processors["0"].phase is Phase.STARTING


def test_a_place_outside_of_the_crowd_is_taken_first() -> None:
    """Of standbys that run; whatever was measured."""
    groups = {"0": ("0", "0-0", "0-1", "0-2")}
    _, state = crowded(groups, {**PLACES, "0-2": "host-4"})
    lags = ev.LagObserved(state.now_ms, tuple(Lag(f"0-{n}", n, n, state.now_ms) for n in range(3)))
    state = step(state, lags).state
    lost = step(state, ev.HostLost(state.now_ms, "host-1", state.now_ms)).state
    assert lost.groups["0"].failover is not None
    assert lost.groups["0"].failover.standby_id == "0-2"
