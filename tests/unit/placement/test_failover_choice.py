"""Which standby gives way to an active that has lost its own host."""

from __future__ import annotations

import pytest

from samza_dagster.placement.state import Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import Scene, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def replicas() -> Scene:
    world = running(PLACES, groups=REPLICAS)
    world.evict("0")
    return world


def test_the_standby_that_is_ready_soonest_is_taken() -> None:
    """By forecast, also against fewer records."""
    world = replicas()
    world.lag("0-0", 10, 9_000)
    world.lag("0-1", 5_000, 2_000)
    world.until_all_run()
    assert world.placed("0") == "host-3"


def test_without_a_forecast_fewest_records_behind_is_taken() -> None:
    """Samples that were read without one."""
    world = replicas()
    world.lag("0-0", 700)
    world.lag("0-1", 70)
    world.until_all_run()
    assert world.placed("0") == "host-3"


def test_without_any_sample_the_first_replica_is_taken() -> None:
    """The SEP's order."""
    world = replicas()
    world.until_all_run()
    assert world.placed("0") == "host-2"


def test_the_certificate_names_standby_reason_and_lag() -> None:
    """What the choice rested on can be read later."""
    world = replicas()
    world.lag("0-0", 700, 2_000)
    world.until_all_run()
    record = world.certificate("0")
    assert record.why == "failover to the host of 0-0: host-1 has no room"
    assert (record.lag_records, record.ready_in_ms) == (700, 2_000)


def test_when_the_best_standbys_place_is_taken_the_next_one_gives_way() -> None:
    """Another job is in the best one's room as soon as it is free."""
    world = running(PLACES, groups=REPLICAS, slots=1)
    world.evict("0")
    world.until(lambda: world.where("0-0") is None)
    world.fill("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-3"
    assert world.counted()["failovers-to-standby"] == 2


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
