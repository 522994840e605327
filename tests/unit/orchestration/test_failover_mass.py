"""`mass`: hosts that went bad together hold failovers back; those that went bad before don't."""

from __future__ import annotations

import pytest
from watching import Fleet

from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.signals import TOGETHER_MS

pytestmark = pytest.mark.unit
SPARE = ("h4", "h5", "h6", "h7")


@pytest.mark.parametrize("seen_before", [True, False])
def test_machines_that_were_replaced_long_ago_hold_nothing(seen_before: bool) -> None:
    """Four of eight are gone for months, one freezes; also by a sensor that has just begun."""
    fleet = Fleet(4)
    fleet.lose(*SPARE)
    if seen_before:
        fleet.look()
        fleet.now += 90 * 86_400_000
        fleet.look()
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["ask 0"]


def test_hosts_that_are_lost_together_with_one_that_freezes_hold_it() -> None:
    """The cause is elsewhere: the network, a rack, an agent's new release."""
    fleet = Fleet(4)
    fleet.look()
    fleet.lose(*SPARE)
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["mass 0"]


def test_it_holds_as_long_as_that_lasts_and_not_what_comes_later() -> None:
    """A day later they are as bad as they were; another one alone isn't of them."""
    fleet = Fleet(4)
    fleet.look()
    fleet.lose(*SPARE)
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["mass 0"]
    fleet.now += 86_400_000
    fleet.words = {"h0": 20_000, "h2": 20_000}
    assert fleet.look() == ["ask 2"]


@pytest.mark.parametrize(("apart_ms", "told"), [(-60_000, "mass 0"), (60_000, "ask 0")])
def test_together_is_within_a_quarter_of_an_hour(apart_ms: int, told: str) -> None:
    """One cause shows at once or a little later."""
    fleet = Fleet(4)
    fleet.look()
    fleet.lose(*SPARE)
    fleet.look()
    fleet.now += TOGETHER_MS + apart_ms
    fleet.words = {"h0": 20_000}
    assert fleet.look() == [told]


def test_a_sensor_that_begins_in_the_midst_of_it_holds_too() -> None:
    """Their containers are still on them, or the leader says how long ago they spoke."""
    fleet = Fleet(4)
    fleet.lose("h2", "h3", "h6", "h7")
    fleet.words = {"h0": 20_000, "h6": 30_000, "h7": 30_000}
    assert fleet.look() == ["mass 0"]
    fleet = Fleet(4)
    fleet.lose("h2", "h3", "h6", "h7")
    fleet.words = {"h0": 20_000, "h6": 5_000_000, "h7": 5_000_000}
    assert fleet.look() == ["mass 0"]  # 3 of 6: those two could run nothing
    fleet.on |= {"3": "h1", "3-0": "h5", "2": "h1", "2-0": "h5"}
    fleet.cursor = FailoverCursor("demo/1")
    assert fleet.look() == ["ask 0"]


def test_a_host_that_is_lost_for_long_is_none_of_those_that_a_share_is_taken_of() -> None:
    """Two of the four that are left are many."""
    fleet = Fleet(4)
    fleet.lose(*SPARE)
    fleet.look()
    fleet.now += 86_400_000
    fleet.words = {"h0": 20_000, "h2": 20_000}
    assert fleet.look() == ["mass 0", "mass 2"]
