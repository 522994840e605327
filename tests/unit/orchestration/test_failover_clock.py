"""`auto_failover` where its clock is set back: nothing that it did or saw is forgotten over that."""

from __future__ import annotations

import pytest
from watching import BEGIN, Fleet, leader_seen

from samza_dagster.orchestration.watch.cursor import HOUR_MS, Act, FailoverCursor

pytestmark = pytest.mark.unit
MINUTE_MS, DAY_MS = 60_000, 86_400_000


@pytest.mark.parametrize("back_ms", [2 * MINUTE_MS, 3 * DAY_MS])
def test_the_cap_of_the_hour_holds_though_the_clock_is_set_back(back_ms: int) -> None:
    """However far: what was asked by the later clock counts for an hour from then."""
    fleet = Fleet(cap=1)
    fleet.words = {"h0": 20_000}
    assert fleet.look() == ["ask 0"]
    fleet.now -= back_ms
    fleet.words = {"h4": 20_000}
    assert fleet.look() == ["cap 4"]
    fleet.words = {}
    fleet.look()
    fleet.now += HOUR_MS
    fleet.words = {"h4": 20_000}
    assert fleet.look() == ["ask 4"]


def test_what_was_asked_by_a_later_clock_is_remembered_as_a_block() -> None:
    """Only the cap is bound to the hour."""
    act = Act("0", BEGIN + 3 * DAY_MS, 7)
    cursor = (
        FailoverCursor("demo/1", looked_ms=BEGIN + 1, acts={"u": act})
        .at(BEGIN)
        .without_old_acts(BEGIN)
    )
    assert cursor.acts == {"u": Act("0", BEGIN, 7)}


def test_hosts_that_went_bad_together_did_so_though_the_clock_was_set_back_in_between() -> None:
    """Half of them, ten seconds apart: failovers would only move it."""
    fleet = Fleet()
    fleet.words = dict.fromkeys(("h0", "h2"), 20_000)
    fleet.look(1)
    fleet.now -= 20 * MINUTE_MS
    fleet.words = dict.fromkeys(("h0", "h2", "h4", "h6"), 20_000)
    assert fleet.look() == [f"mass {n}" for n in (0, 2, 4, 6)]


def test_an_active_that_commits_nothing_is_seen_in_time_though_the_clock_is_set_back() -> None:
    """It is stuck for three minutes by the clock as it goes now."""
    fleet = Fleet()
    fleet.stuck = {"0"}
    fleet.look(2)
    fleet.now -= DAY_MS
    assert fleet.look(39) == ["ask 0"]


def test_a_leader_that_falls_silent_is_known_to_though_the_clock_is_set_back() -> None:
    """Nobody would read a request."""
    fleet = Fleet()
    fleet.leader = leader_seen(BEGIN + 10_000)
    fleet.look(2)
    fleet.now -= DAY_MS
    fleet.look(3)
    fleet.words = {"h0": 20_000}
    assert fleet.look(3) == ["advise coordinator", "no coordinator 0"]
