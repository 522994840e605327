"""`mass`: many hosts that look bad hold failovers back; machines that are gone for long don't."""

from __future__ import annotations

import pytest
from watching import Fleet

pytestmark = pytest.mark.unit

SPARE = ("h4", "h5", "h6", "h7")


def test_machines_that_were_replaced_long_ago_hold_nothing() -> None:
    """Four of eight are gone for months, one freezes."""
    fleet = Fleet(4)
    fleet.lose(*SPARE)
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["ask 0"]


def test_lost_hosts_count_as_long_as_containers_are_on_them() -> None:
    """The cause is elsewhere: the network, a rack, an agent's new release."""
    fleet = Fleet(4)
    fleet.lose("h2", "h3", *SPARE)
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["mass 0"]
    fleet.on |= dict.fromkeys(("1-0", "2", "2-0", "3", "3-0"), "h1")
    assert fleet.look() == ["ask 0"]


def test_it_holds_as_long_as_that_lasts() -> None:
    """A day later they are as bad as they were; half of them are well then, and the others are helped."""
    fleet = Fleet()
    fleet.words = dict.fromkeys(("h0", "h2", "h4", "h6"), 20_000)
    assert fleet.look() == [f"mass {n}" for n in (0, 2, 4, 6)]
    fleet.now += 86_400_000
    assert fleet.look() == []
    fleet.words = {"h0": 20_000, "h2": 20_000}
    assert fleet.look() == ["ask 0", "ask 2"]


def test_a_host_that_is_lost_is_none_of_those_that_a_share_is_taken_of() -> None:
    """Two of the four that are left are many."""
    fleet = Fleet(4)
    fleet.lose(*SPARE)
    fleet.words = {"h0": 20_000, "h2": 20_000}
    assert fleet.look() == ["mass 0", "mass 2"]


def test_whatever_looks_bad_about_a_host_counts() -> None:
    """An active that commits nothing, where the broker of its input is away, is one of many."""
    fleet = Fleet(4)
    fleet.lose(*SPARE)
    fleet.stuck = {"0", "1", "2"}
    assert fleet.look(40) == ["no standby 0", "no standby 1", "mass 2"]
