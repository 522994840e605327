"""Coordinators that are started with other settings: which hold in their term, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from samza_dagster.placement.state import Fencing, Limits
from tests.simulation.brokers import VirtualBrokers
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.settings import (
    DEPLOYED,
    FAULT_DOMAINS,
    OWN,
    changed,
    in_force,
    is_own,
)
from tests.simulation.world import World

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3", "host-4")
LAYOUT = "0,0-0"


def running() -> World:
    """Active 0 runs on host-1, its standby on another."""
    world = World.of(HOSTS, judge=InvariantJudge())
    world.deploy({"0": ("0", "0-0")}, last_seen={"0": "host-1"})
    for host in HOSTS:
        world.register(host)
    world.settle()
    return world


def did(world: World, kind: str, *ids: str | int) -> None:
    assert world.do(Move(kind, ids))


def test_every_limit_is_either_a_coordinators_own_or_of_the_deployment() -> None:
    """What a new limit is must be said here before histories can leave it alone."""
    assert {field.name for field in fields(Limits)} == {*OWN, *DEPLOYED} - {FAULT_DOMAINS}
    assert not OWN.keys() & DEPLOYED.keys()


def test_changes_are_written_as_words() -> None:
    """A script holds them as text."""
    limits = changed(Limits(), "max_standbys=1 host_affinity=False fencing=broker lease_ms=15000")
    assert (limits.max_standbys, limits.host_affinity) == (1, False)
    assert (limits.fencing, limits.lease_ms) == (Fencing.BROKER, 15_000)
    assert changed(Limits(), "") == Limits()
    with pytest.raises(ValueError, match="lease_s"):
        changed(Limits(), "lease_s=15")


@pytest.mark.parametrize("change", sorted(DEPLOYED))
def test_a_coordinator_with_another_config_doesnt_go_on_with_the_deployment(change: str) -> None:
    """Its fingerprint is another: `--take-over now` would make it a new deployment."""
    world = running()
    words = f"{change}={DEPLOYED[change][0]} max_standbys=1"
    assert not is_own(words)
    assert not world.do(Move("restart", (words,)))
    did(world, "kill-leader")
    assert not world.do(Move("take-over", (0, words)))
    did(world, "deploy", "run-2", LAYOUT, "", words)
    world.settle()
    assert world.state.deployment_id == "run-2"
    assert world.state.limits.max_standbys == 1


def test_a_process_logs_in_as_it_was_launched() -> None:
    """Not as what is said of its start later, by a coordinator with another config."""
    brokers = VirtualBrokers(fencers={1, 3}, logins={"j-1", "j-2"})
    brokers.launched("j-1", 1)
    brokers.launched("j-2", 2)
    brokers.launched("j-3", 3)  # its start brings a login that nobody has made
    for execution_id in ("j-1", "j-2", "j-3"):
        brokers.shut_out(execution_id)
    assert brokers.refused == {"j-1"}


def test_what_is_in_force_is_the_longer_lease_and_a_fence_that_reaches_everybody() -> None:
    """As a term in production begins."""
    stored = running().state
    own = Limits(lease_ms=15_000, fencing=Fencing.BROKER)
    held = in_force(own, stored, lease_before_ms=30_000, logins=frozenset())
    assert (held.lease_ms, held.fencing) == (30_000, Fencing.LEASE)
    everybody = {
        p.incarnation.execution_id
        for p in stored.groups["0"].processors.values()
        if p.incarnation is not None
    }
    held = in_force(own, stored, lease_before_ms=3_000, logins=everybody)
    assert held == own
