"""Coordinators that are started with other settings: which hold in their term, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Ended, Fencing, Limits
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


def running(limits: Limits | None = None) -> World:
    """Active 0 runs on host-1, its standby on another."""
    world = World.of(HOSTS, judge=InvariantJudge())
    world.deploy({"0": ("0", "0-0")}, last_seen={"0": "host-1"}, limits=limits)
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


def test_a_shorter_lease_counts_once_the_longer_ones_before_it_are_over() -> None:
    """What the leader before granted may run on; this one grants its own, and so says the next."""
    world = running(Limits(lease_ms=60_000))
    did(world, "restart", "lease_ms=15000")
    assert world.state.limits.lease_ms == 60_000
    for host in HOSTS:
        did(world, "register", host)
    grant = world.hosts["host-1"].grant
    assert grant is not None
    assert grant.lease_ms == 15_000
    did(world, "restart", "")
    assert world.state.limits.lease_ms == 60_000
    for host in HOSTS:
        did(world, "register", host)
    did(world, "wait", 64_001)
    did(world, "restart", "")
    assert world.state.limits.lease_ms == 15_000


def test_a_deployment_decides_whether_fault_domains_count() -> None:
    """`cluster-manager.fault-domain-aware.standby.enabled`: agents tell them in any case."""
    world = World.of(HOSTS, judge=InvariantJudge(), domains=dict.fromkeys(HOSTS, "rack-1"))
    world.deploy({"0": ("0", "0-0")})
    for host in HOSTS:
        world.register(host)
    world.settle()
    assert len(world.processes()) == 1
    did(world, "deploy", "run-2", LAYOUT, "", "fault_domains=False")
    world.settle()
    assert len(world.processes()) == 2
    did(world, "restart", "")
    for host in HOSTS:
        did(world, "register", host)
    assert {host.fault_domain for host in world.state.hosts.values()} == {""}
    did(world, "deploy", "run-3", LAYOUT, "", "fault_domains=True")
    world.settle()
    assert len(world.processes()) == 1


def test_a_fence_counts_once_every_container_has_a_login_of_its_own() -> None:
    """Before that the brokers would shut out somebody whom nobody is."""
    world = running()
    did(world, "deploy", "run-2", LAYOUT, "", "fencing=broker")
    assert world.state.limits.fencing is Fencing.LEASE
    world.settle()
    assert world.brokers.logins == {p.execution_id for p in world.processes()}
    did(world, "restart", "")
    assert world.state.limits.fencing is Fencing.BROKER


def test_who_was_let_in_and_launched_by_nobody_isnt_launched_under_another_config() -> None:
    """From the fence to leases and back: a login stands for whoever was launched with it."""
    world = running(Limits(fencing=Fencing.BROKER))
    world.emitted = []
    did(world, "kill", "host-1", "0")
    world.until(lambda: bool(world.sent(cmd.StartContainer)))
    [start] = world.sent(cmd.StartContainer)
    assert start.execution_id in world.brokers.logins
    assert start.execution_id not in world.hosts[start.host].journal
    for number, fencing in enumerate(("lease", "broker"), 2):
        did(world, "deploy", f"run-{number}", LAYOUT, "", f"fencing={fencing}")
        world.settle()
        assert start.execution_id not in {p.execution_id for p in world.processes()}
    assert start.execution_id not in world.brokers.strangers
    assert world.brokers.strangers


def test_a_process_logs_in_as_it_was_launched() -> None:
    """Not as what is said of its start later, by a coordinator with another config."""
    brokers = VirtualBrokers(fencers={1, 3}, logins={"j-1", "j-2"})
    brokers.launched("j-1", 1)
    brokers.launched("j-2", 2)
    brokers.launched("j-3", 3)  # its start brings a login that nobody has made
    for execution_id in ("j-1", "j-2", "j-3"):
        brokers.shut_out(execution_id)
    assert brokers.refused == {"j-1"}


def test_without_a_fence_any_more_a_lost_container_ends_by_its_lease() -> None:
    """A fence that was commanded isn't waited for: nobody is there to carry it out."""
    world = running(Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000))
    world.emitted = []
    did(world, "freeze", "host-1", "suspend")
    did(world, "wait", 11_000)
    [fence] = world.sent(cmd.FencePrincipal)
    did(world, "fence-unanswered", 0)
    did(world, "deploy", "run-2", LAYOUT, "", "fencing=lease")
    [orphan] = world.state.groups["0"].orphans
    assert (orphan.incarnation.execution_id, orphan.fencing) == (fence.execution_id, False)
    for host in HOSTS[1:]:
        did(world, "register", host)
    did(world, "wait", 40_000)
    ends = [c.record for c in world.sent(cmd.RecordCertificate) if c.record.kind == "end"]
    assert fence.execution_id in {e.execution_id for e in ends if e.how == Ended.LEASE}


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
