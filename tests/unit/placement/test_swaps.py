"""STANDBY: the active takes its standby's place, which has another one by then."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import ask, running

pytestmark = pytest.mark.unit

REPLICAS = {"0": ("0", "0-0", "0-1")}
PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


# -- as it should go -----------------------------------------------------------------------


def test_the_order_is_reserve_stop_reserve_stop_start() -> None:
    """The active runs until its destination is held."""
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.until_all_run()
    kinds = (cmd.RequestResource, cmd.StopContainer)
    told = [(type(c).__name__, c.processor_id) for c in world.log if isinstance(c, kinds)]
    assert told == [
        ("RequestResource", "0-0"),
        ("StopContainer", "0-0"),
        ("RequestResource", "0"),
        ("StopContainer", "0"),
    ]
    assert sorted(pid for pid, _ in world.started()) == ["0", "0-0"]


def test_the_standbys_new_place_is_neither_its_own_nor_its_actives() -> None:
    """Nor another replica's."""
    world = running(PLACES, groups=REPLICAS)
    world.submit(ask("0", "STANDBY"))
    [request] = world.sent(cmd.RequestResource)
    assert request.processor_id == "0-0"
    assert request.excluded_hosts == ("host-1", "host-2", "host-3")


def test_on_the_way_back_the_standbys_new_place_is_its_own_again() -> None:
    """It gives way no more: any host leaves it out."""
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    for host in ("host-3", "host-4"):
        world.trouble(host, Trouble.NO_CHECK_IN)
    world.submit(ask("0", "STANDBY"))
    world.until_phase("0", Phase.STARTING)
    world.fill("host-1")
    world.until(lambda: None in world.asked_for("0"))
    request = world.sent(cmd.RequestResource)[-1]
    assert (request.processor_id, request.host) == ("0", None)
    assert world.placed("0-0") in request.excluded_hosts
