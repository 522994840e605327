"""Which standby gives way to an active that has lost its own host, and that none takes another's."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import Scene, ask, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def replicas() -> Scene:
    world = running(PLACES, groups=REPLICAS)
    world.evict("0")
    return world


def test_the_certificate_names_standby_reason_and_lag() -> None:
    """What the choice rested on can be read later."""
    world = replicas()
    world.lag("0-0", 700, 2_000)
    world.until_all_run()
    record = world.certificate("0")
    assert record.why == "failover to the host of 0-0: host-1 has no room"
    assert (record.lag_records, record.ready_in_ms) == (700, 2_000)


def test_no_standbys_place_is_sought_twice_for_one_failure() -> None:
    """Both are taken by others: any host comes next."""
    world = running(PLACES, groups=REPLICAS, slots=1)
    world.evict("0")
    for standby_id, host in (("0-0", "host-2"), ("0-1", "host-3")):
        world.until(lambda standby_id=standby_id: world.where(standby_id) is None)
        world.fill(host)
    world.until(lambda: None in world.asked_for("0"))
    assert world.asked_for("0") == ["host-1", "host-2", "host-3", None]


def test_a_standby_where_the_active_failed_to_start_does_not_qualify() -> None:
    """It came back to that host, and would be stopped for another failure."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    world.fill("host-3")
    world.fill("host-4")
    world.evict("0")
    world.until(lambda: world.processor("0").avoid_hosts == ("host-2",))
    world.calm("host-2")
    world.until_phase("0-0", Phase.RUNNING)
    assert world.placed("0-0") == "host-2"
    world.make_room("host-4")
    world.until_all_run()
    assert (world.placed("0"), world.placed("0-0")) == ("host-4", "host-2")
    assert world.counted()["failovers-to-standby"] == 1


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
