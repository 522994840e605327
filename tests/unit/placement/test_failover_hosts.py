"""Hosts that are lost: everything on them goes on elsewhere, each in its own way."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Ended, Limits, Phase
from tests.unit.placement.scenes import HOSTS, QUICK, Scene, running

pytestmark = pytest.mark.unit

CROWDED = {"0": "host-1", "0-0": "host-2", "1": "host-3", "1-0": "host-1", "2": "host-1"}
GROUPS = {"0": ("0", "0-0"), "1": ("1", "1-0"), "2": ("2",)}


def crowded_host_lost(limits: Limits = QUICK) -> Scene:
    world = running(CROWDED, groups=GROUPS, limits=limits)
    world.lose("host-1")
    return world


def test_every_incarnation_of_a_lost_host_becomes_a_ghost() -> None:
    """Nobody knows whether it lives; others aren't touched."""
    world = crowded_host_lost()
    ghosts = [g.processor_id for n in "012" for g in world.group(n).ghosts]
    assert ghosts == ["0", "1-0", "2"]
    assert world.phases()["1"] is Phase.RUNNING


def test_each_goes_its_own_way_in_the_same_step() -> None:
    """The active with a standby fails over; a standby and an active without go anywhere."""
    world = crowded_host_lost()
    assert world.group("0").failover is not None
    assert world.asked_for("0") == ["host-2"]
    assert world.asked_for("1-0") == world.asked_for("2") == [None]


def test_a_lost_host_is_asked_for_nothing() -> None:
    """Not by name, and excluded from any host."""
    world = crowded_host_lost()
    world.until_all_run()
    for request in world.sent(cmd.RequestResource):
        assert request.host != "host-1"
        assert request.host is not None or "host-1" in request.excluded_hosts


def test_a_standby_on_a_lost_host_does_not_qualify() -> None:
    """An active that dies later goes to any host that lives."""
    world = running(limits=QUICK)
    world.lose("host-2")
    world.evict("0")
    world.until_all_run()
    assert world.placed("0") in ("host-3", "host-4")
    assert world.counted()["failovers-to-standby"] == 0


def test_when_all_hosts_but_one_are_lost_the_actives_run_there() -> None:
    """Standbys wait: one of a group on a host is the rule."""
    world = running(limits=QUICK, slots=8)
    for host in HOSTS[1:]:
        world.lose(host)
    world.until(lambda: world.placed("1") == "host-1" and world.phases()["1"] is Phase.RUNNING)
    assert world.placed("0") == "host-1"
    assert world.placed("0-0") is world.placed("1-0") is None
    world.settle()
    assert set(world.phases().values()) == {Phase.RUNNING}


def test_a_host_that_comes_back_with_empty_books_is_waited_for_as_a_lost_one() -> None:
    """Installed anew, or another machine: what ran there before may live on for its lease."""
    world = running(CROWDED, groups=GROUPS, limits=QUICK)
    world.reboot("host-1")
    world.until_all_run()
    for processor_id in ("0", "1-0", "2"):
        assert world.how_replaced(processor_id) == Ended.LEASE
    ghosts = [ghost for group in world.state.groups.values() for ghost in group.ghosts]
    assert ghosts
    assert all(ghost.left_behind for ghost in ghosts), "nobody saw them dead"


def test_a_host_that_restarts_its_agent_alone_loses_nothing() -> None:
    """Wardens keep the containers; the new agent adopts them."""
    world = running(CROWDED, groups=GROUPS, limits=QUICK)
    world.register("host-1")
    world.until_all_run()
    assert world.started() == []
    assert world.stopped() == []


def test_two_lost_hosts_of_two_groups_are_handled_apart() -> None:
    """Both actives fail over at once."""
    world = running(limits=QUICK)
    world.lose("host-1")
    world.lose("host-3")
    assert world.group("0").failover is not None
    assert world.group("1").failover is not None
    world.until_phase("1", Phase.RUNNING)
    world.until_phase("0", Phase.RUNNING)
    assert (world.placed("0"), world.placed("1")) == ("host-2", "host-4")
