"""Hosts that may fail together: a group's members are kept apart where that is known."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import rules
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Ended, Phase
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.judges.invariants import InvariantJudge
from tests.unit.placement.scenes import HOSTS, QUICK, Scene, ask

pytestmark = pytest.mark.unit

RACKS = {"host-1": "rack-a", "host-2": "rack-b", "host-3": "rack-a", "host-4": "rack-b"}


def in_racks(racks: dict[str, str] | None = None) -> Scene:
    """0 in rack a, its standby in rack b."""
    world = Scene.of(HOSTS, domains=RACKS if racks is None else racks, judge=InvariantJudge())
    assert isinstance(world, Scene)
    world.steps_told = []
    for host in HOSTS:
        world.register(host)
    world.wait(0)
    world.deploy({"0": ("0", "0-0")}, last_seen={"0": "host-1", "0-0": "host-2"})
    world.until_all_run()
    world.log.clear()
    return world


def test_a_host_of_another_members_rack_is_refused() -> None:
    """With the rack, who is there, and what would help."""
    world = in_racks()
    world.submit(ask("0-0", "host-3"))
    status, message = world.outcome()
    assert status == "BAD_REQUEST"
    assert "host-3 is in fault domain rack-a as host-1 is" in message
    assert "name a host of another fault domain than rack-a" in message


def test_a_host_of_its_own_rack_is_legal() -> None:
    """It leaves as it comes."""
    world = in_racks()
    world.submit(ask("0", "host-3"))
    world.until_all_run()
    assert world.outcome()[0] == "SUCCEEDED"


def test_any_host_leaves_the_other_members_racks_out() -> None:
    """One host is left."""
    world = in_racks()
    world.submit(ask("0-0", "ANY_HOST"))
    world.until_all_run()
    assert world.placed("0-0") == "host-4"


def test_a_failover_may_lead_into_the_rack_that_the_standby_leaves() -> None:
    """The standby is no longer there; it then goes to the other rack."""
    world = in_racks()
    world.evict("0")
    world.until_all_run()
    assert world.placed("0") == "host-2"
    assert world.placed("0-0") == "host-3"


def test_hosts_whose_rack_is_unknown_are_in_none() -> None:
    """Nothing is known that would forbid them."""
    world = in_racks({"host-1": "rack-a", "host-2": "rack-b"})
    assert explain(world.state, "0-0", "host-3").legal


def test_explain_names_the_rule() -> None:
    """For a person who plans."""
    [candidate] = explain(in_racks().state, "0-0", "host-3").candidates
    assert candidate.rule == rules.SAME_DOMAIN


def test_a_new_coordinator_knows_the_racks_of_hosts_that_have_not_registered_yet() -> None:
    """They are kept with the host: else a member could be sent into the rack of another."""
    world = in_racks()
    world.restart_coordinator()
    world.register("host-2")
    world.register("host-3")
    assert not explain(world.state, "0-0", "host-3").legal


def test_a_hosts_whole_rack_is_not_lost_with_it() -> None:
    """No standby, and all hosts in one rack: its own ghost keeps it from no host but that one."""
    world = Scene.of(HOSTS, domains=dict.fromkeys(HOSTS, "rack-a"), judge=InvariantJudge())
    assert isinstance(world, Scene)
    world.steps_told = []
    for host in HOSTS:
        world.register(host)
    world.wait(0)
    world.deploy({"0": ("0",)}, last_seen={"0": "host-1"}, limits=QUICK)
    world.until_all_run()
    world.lose("host-1")
    world.until_all_run()
    assert world.where("0") != "host-1"


def test_a_rack_is_free_again_once_the_lost_member_owns_nothing() -> None:
    """The active was lost with host-1 and runs in rack b: its standby may go to host-3."""
    world = in_racks()
    world.lose("host-1")
    world.until_all_run()
    assert (world.where("0"), world.where("0-0")) == ("host-2", "host-3")


def test_a_lease_that_is_over_as_its_host_is_lost_holds_no_rack() -> None:
    """The standby was to give way: where its active goes instead is chosen in the same step."""
    world = in_racks()
    world.trouble("host-2", Trouble.SLOW_STOP)
    world.lose("host-1")
    world.until(lambda: world.phases()["0-0"] is Phase.STOPPING)
    late_ms = world.now_ms + 10 * QUICK.lease_ms
    lost = step(world.state, ev.HostLost(late_ms, "host-2", world.now_ms))
    assert {ghost.ended for ghost in lost.state.groups["0"].ghosts} == {Ended.LEASE}
    asked = [c for c in lost.commands if isinstance(c, cmd.RequestResource)]
    assert (asked[0].processor_id, asked[0].host) == ("0", None)
    assert "host-4" not in asked[0].excluded_hosts
