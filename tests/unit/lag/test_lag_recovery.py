"""What each container would need on each host, and what each host's death would cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Container,
    Pace,
    RestoreForecast,
    Speeds,
    StorePart,
    after_a_loss,
    restore_forecast,
    speeds,
)

pytestmark = pytest.mark.unit

HOSTS = ("a", "b", "c")
SPEEDS = Speeds(Pace(100, 60, 0, 5, 10_000), start_s=3)
PART = StorePart("lab 0", 0, 10_000, warm={"a": 10_000, "b": 9_500})
ACTIVE = Container("0", "a", (PART,), standby_hosts=("b",))


def loss(container: Container, *hosts: str) -> tuple[bool, RestoreForecast | None]:
    return after_a_loss(container, [restore_forecast(container, host, SPEEDS) for host in hosts])


def seconds(container: Container, host: str, speeds: Speeds = SPEEDS) -> float | None:
    down = restore_forecast(container, host, speeds).down
    return None if down is None or down.ready_in_ms is None else down.ready_in_ms / 1000


def test_warm_here_and_cold_there() -> None:
    """A start alone where its store is, what the standby lacks beside it, everything elsewhere."""
    rows = [restore_forecast(ACTIVE, host, SPEEDS) for host in HOSTS]
    told = [(row.host, row.is_warm, row.left, row.why) for row in rows]
    assert told == [("a", True, 0, ""), ("b", True, 500, ""), ("c", False, 10_000, "")]
    assert [seconds(ACTIVE, host) for host in HOSTS] == [3, 8, 103]


def test_nothing_is_written_while_its_active_is_dead() -> None:
    """So all that it applies is headway."""
    busy = replace(SPEEDS, pace=Pace(100, 1_000, 0, 5, 10_000))
    assert seconds(ACTIVE, "b", busy) == 8


def test_the_last_of_its_partitions_makes_it_ready() -> None:
    """They are restored at once."""
    other = StorePart("lab 1", 2_000, 22_000)
    two = replace(ACTIVE, parts=(PART, other))
    row = restore_forecast(two, "b", SPEEDS)
    assert (row.is_warm, row.left, seconds(two, "b")) == (False, 20_500, 203)


def test_what_is_left_has_a_size_where_that_of_each_partition_s_records_is_known() -> None:
    """Offsets times the mean record, rounded for each partition."""
    sized, other = replace(PART, record_bytes=10.5), StorePart("lab 1", 0, 3, record_bytes=100.0)
    rows = [
        restore_forecast(replace(ACTIVE, parts=parts), "b", SPEEDS)
        for parts in ((sized, other), (sized, replace(other, record_bytes=None)), ())
    ]
    assert [(row.left, row.left_bytes) for row in rows] == [(503, 5_550), (503, None), (0, 0)]


def test_a_host_that_is_known_goes_by_its_own_speed() -> None:
    """The others by that of all."""
    known = replace(SPEEDS, pace_on={"b": Pace(500, 0, 0, 5, 10_000)}, start_s_on={"b": 1})
    assert (seconds(ACTIVE, "b", known), seconds(ACTIVE, "c", known)) == (2, 103)


def test_a_copy_older_than_the_changelog_has_no_more_to_apply_than_there_is() -> None:
    """It begins anew at the beginning."""
    old = StorePart("lab 0", 9_000, 10_000, warm={"a": 5})
    assert restore_forecast(replace(ACTIVE, parts=(old,)), "a", SPEEDS).left == 1_000


def test_a_changelog_without_a_leader_makes_its_own_containers_unknown_and_no_others() -> None:
    """With the reason."""
    unread = Container("1", "a", (PART, StorePart("lab 1", None, None)))
    row = restore_forecast(unread, "b", SPEEDS)
    assert row.down is None
    assert row.why == "the changelog of lab 1 can't be read"
    assert restore_forecast(ACTIVE, "b", SPEEDS).down is not None
    _, best = loss(unread, *HOSTS)
    assert best is not None
    assert best.why


def test_before_any_restore_was_seen_only_what_has_nothing_to_restore_is_known() -> None:
    """A start is all that it takes."""
    unseen = Speeds(None, start_s=3)
    assert seconds(ACTIVE, "a", unseen) == 3
    row = restore_forecast(ACTIVE, "c", unseen)
    assert row.down is None
    assert row.why == "no restore has been seen that tells how fast one is"
    assert seconds(Container("2", "a", ()), "c", unseen) == 3


def after(container: Container) -> tuple[bool, str, float | None]:
    """Whether it has a standby elsewhere; where it is back, and after how many seconds."""
    has_standby, best = loss(container, *HOSTS)
    assert best is not None
    return has_standby, best.host, seconds(container, best.host)


def test_an_active_whose_host_dies_comes_back_in_the_place_of_its_standby() -> None:
    """Be it back sooner elsewhere; one without a standby restores where it is soonest back."""
    assert after(ACTIVE) == (True, "b", 8)
    part = StorePart("lab 1", 0, 1_000, warm={"b": 1_000, "c": 600})
    assert after(Container("1", "b", (part,))) == (False, "c", 7)
    assert after(Container("1", "b", (part,), standby_hosts=("a",))) == (True, "a", 13)


def test_a_standby_on_the_host_that_dies_is_none() -> None:
    """As where somebody has put both on one."""
    assert not after(replace(ACTIVE, standby_hosts=("a",)))[0]


def test_the_only_host_is_lost_for_good() -> None:
    """There is nowhere to go on."""
    assert loss(replace(ACTIVE, standby_hosts=()), "a") == (False, None)


offsets = st.integers(0, 100_000)


@given(st.lists(st.tuples(offsets, offsets, offsets), min_size=1, max_size=5))
def test_warm_is_never_slower_than_cold(parts: list[tuple[int, int, int]]) -> None:
    """Whatever the copy has."""
    made = tuple(
        StorePart(f"lab {n}", min(low, high), max(low, high), warm={"b": at})
        for n, (low, high, at) in enumerate(parts)
    )
    one = Container("0", "a", made)
    warm, cold = seconds(one, "b"), seconds(one, "c")
    assert warm is not None
    assert cold is not None
    assert warm <= cold


def test_a_host_counts_by_itself_once_three_of_its_own_were_seen() -> None:
    """Two may be anything; while no start was seen, the constant holds."""
    slow, fast = [("slow", rate) for rate in (90, 100, 110)], [("fast", 1_000.0)] * 2
    starts = [("slow", 20.0), ("slow", 30.0), ("slow", 22.0), ("fast", 4.0), ("fast", 4.0)]
    found = speeds([*slow, *fast], starts, 10.0)
    assert found.pace is not None
    assert (found.pace.apply_per_s, found.start_s) == (110, 20.0)
    assert {host: pace.apply_per_s for host, pace in found.pace_on.items()} == {"slow": 100}
    assert found.pace_on["slow"].noise_per_s == pytest.approx(10)
    assert found.start_s_on == {"slow": 22.0}
    assert speeds([], [], 10.0) == Speeds(None, 10.0)
    alone = speeds([("a", 90.0)], [], 10.0).pace
    assert alone is not None
    assert alone.noise_per_s == 45, "of one restore half its rate, as of one interval"
