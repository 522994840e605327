"""Which standby's place is the best, where the racks of their hosts tell them apart."""

from __future__ import annotations

import pytest
from rpds import HashTrieMap

from samza_dagster.placement.draft import Draft
from samza_dagster.placement.places import ranked
from samza_dagster.placement.state import Lag
from tests.unit.placement.scenes import JOBS, running

pytestmark = pytest.mark.unit


def test_a_place_in_a_rack_of_its_own_goes_before_one_that_is_ready_sooner() -> None:
    """An agent named another rack since they started: two standbys are in one, the third isn't."""
    places = JOBS["an active and three standbys"]
    world = running(places, groups={"0": tuple(places)})
    racks = {"host-1": "a", "host-2": "b", "host-3": "c", "host-4": "b"}
    hosts = {
        name: world.state.hosts[name].evolve(fault_domain=rack) for name, rack in racks.items()
    }
    lags = world.state.lags.update(
        {pid: Lag(pid, 10 * number, None, world.now_ms) for number, pid in enumerate(places)}
    )
    state = world.state.evolve(hosts=HashTrieMap(hosts), lags=lags)
    assert ranked(Draft(state, world.now_ms).at("0"), "0") == ["0-1", "0-0", "0-2"]
