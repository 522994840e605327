"""A standby that dies: its own host, then any host that its active and the others aren't on."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Ended, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, ask, running

pytestmark = pytest.mark.unit


def test_a_standby_that_dies_starts_on_its_own_host_again() -> None:
    """Its copy of the state is there."""
    world = running()
    world.crash("0-0")
    world.until_all_run()
    assert world.started() == [("0-0", "host-2")]
    assert world.how_replaced("0-0") == Ended.DEAD


def test_when_its_host_is_not_to_be_had_a_standby_goes_to_any_legal_host() -> None:
    """The active is left alone, and its host left out."""
    world = running()
    active = world.execution("0")
    world.evict("0-0")
    world.until_all_run()
    assert world.placed("0-0") in ("host-3", "host-4")
    [_, anywhere] = [r for r in world.sent(cmd.RequestResource) if r.processor_id == "0-0"]
    assert (anywhere.host, anywhere.excluded_hosts) == (None, ("host-1",))
    assert world.execution("0") == active


def test_a_standby_never_takes_anybodys_place() -> None:
    """Every legal host is full: it waits, its active and the other replica run on."""
    places = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}
    world = running(places, groups={"0": tuple(places)})
    world.fill("host-4")
    world.evict("0-0")
    world.until(lambda: world.asked_for("0-0").count(None) == 3)
    assert world.stopped() == []
    world.make_room("host-4")
    world.until_all_run()
    assert world.placed("0-0") == "host-4"


def test_an_allocation_that_breaks_the_same_host_rule_is_given_back() -> None:
    """Its active was promised that host meanwhile; counted by Samza's name."""
    world = running()
    world.fill("host-3")
    world.fill("host-4")
    world.evict("0-0")
    world.until(lambda: world.asked_for("0-0") == ["host-2", None])
    world.submit(ask("0", "host-3"))
    move, anywhere = (r.request_id for r in reversed(world.sent(cmd.RequestResource)[-2:]))
    world.leader.requests.pending.pop(move)
    world.make_room("host-3")
    world.until(lambda: world.counted()["failed-standby-allocations"] == 1)
    assert cmd.ReleaseResource(anywhere) in world.log
    assert "host-3" in world.sent(cmd.RequestResource)[-1].excluded_hosts
    world.settle()
    assert world.placed("0-0") != world.placed("0")


def test_a_start_that_fails_is_tried_on_another_host() -> None:
    """A standby's failed start costs its active nothing."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    world.crash("0-0")
    world.until_all_run()
    assert world.placed("0-0") in ("host-3", "host-4")
    assert world.placed("0") == "host-1"


def test_a_standby_on_a_lost_host_starts_elsewhere_after_its_lease() -> None:
    """A standby writes nothing, but it too has one owner at a time."""
    world = running(limits=QUICK)
    world.lose("host-2")
    last_word = world.leader.books["host-2"].heard_ms
    world.until_phase("0-0", Phase.STARTING)
    assert world.now_ms == last_word + QUICK.lease_ms + QUICK.lease_bound_ms
    world.until_all_run()
    assert world.placed("0-0") in ("host-3", "host-4")
    assert world.how_replaced("0-0") == Ended.LEASE


def test_an_active_and_its_standby_that_die_together_both_come_back() -> None:
    """Each at home: nobody qualifies for a failover, and none is needed."""
    world = running()
    world.crash("0")
    world.crash("0-0")
    world.until_all_run()
    assert (world.placed("0"), world.placed("0-0")) == ("host-1", "host-2")


def test_failures_of_either_kind_are_counted_apart_and_together() -> None:
    """By Samza's names, and ours for the two kinds."""
    world = running()
    for processor_id in ("0", "0-0", "1-0"):
        world.crash(processor_id)
    world.until_all_run()
    counted = world.counted()
    assert counted["failed-containers"] == 3
    assert (counted["active-failures"], counted["standby-failures"]) == (1, 2)
