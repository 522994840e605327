"""What is published of standbys is read back, used while it is new, and joined with lags of now."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Forecast,
    Judgement,
    NewestReadiness,
    Pace,
    Part,
    StandbyStatus,
    newest_readiness,
    published,
    soonest_ready,
)

pytestmark = pytest.mark.unit

AS_OF_MS, GOOD_FOR_MS = 1_000_000, 600_000
FAST, SLOW = Pace(5_000, 100, 50, 6, 10_000), Pace(200, 100, 5, 6, 10_000)


def standby(name: str, *paces: Pace | None, good_for_ms: int = GOOD_FOR_MS) -> tuple[bytes, bytes]:
    """The record of one with a store partition for each pace."""
    parts = {(f"task {n}", "lab", n): pace for n, pace in enumerate(paces)}
    return published(
        name, Judgement(StandbyStatus.READY, "well", 0.1), parts, AS_OF_MS, good_for_ms
    )


def read(records: Sequence[tuple[bytes, bytes]], newest_ms: int = AS_OF_MS) -> NewestReadiness:
    return newest_readiness(records, newest_ms)


def left(*records: int | None) -> dict[Part, int | None]:
    return {(f"task {n}", "lab", n): behind for n, behind in enumerate(records)}


def test_the_slowest_of_its_replicas_tells_the_pace() -> None:
    """One of which no pace is known isn't counted."""
    newest = read([standby("0-0", FAST, SLOW, None), standby("1-0")])
    assert newest.apply_per_s("0-0") == 200
    assert newest.apply_per_s("1-0") == newest.apply_per_s("7-0") == 0


def test_a_limit_in_seconds_never_makes_that_in_records_smaller() -> None:
    """It is more records of a fast standby; of one that nothing is known of, records alone."""
    newest = read([standby("0-0", FAST), standby("1-0", SLOW)])
    assert [newest.limit(one, 1_000, 2) for one in ("0-0", "1-0", "2-0")] == [10_000, 1_000, 1_000]


def test_one_that_is_too_old_is_said_and_not_used() -> None:
    """By the newest report of now: no clock of a reader is asked."""
    rows = [standby("0-0", FAST)]
    assert read(rows, AS_OF_MS + GOOD_FOR_MS).limit("0-0", 10, 1) == 5_000
    old = read(rows, AS_OF_MS + GOOD_FOR_MS + 1)
    assert old.limit("0-0", 10, 1) == 10
    assert "10 min older than the newest report, and good for 10 min" in old.unused["0-0"]


def test_the_last_record_of_a_standby_counts_and_none_is_a_removal() -> None:
    """As in a compacted topic whose former records are still there."""
    first, then = (standby("0-0", pace) for pace in (FAST, SLOW))
    assert newest_readiness([first, then], AS_OF_MS).apply_per_s("0-0") == 200
    assert newest_readiness([first, (b"0-0", None)], AS_OF_MS) == NewestReadiness()


def test_a_takeover_waits_for_what_is_left_now_at_the_published_pace() -> None:
    """The last of its replicas; nothing more is written while its active is dead."""
    newest = read([standby("0-0", FAST, SLOW)])
    found = newest.takeover("0-0", left(5_000, 400))
    assert found is not None
    assert found.ready_in_ms == 2_000
    assert newest.takeover("0-0", left(5_000, None)) is None
    assert newest.takeover("9-0", left(5)) is None
    assert newest.takeover("9-0", left(0)) == Forecast(0, 0, 0)


def test_the_standby_soonest_ready_comes_first() -> None:
    """More records on a fast host may be ready before few on a slow one; unknown ones come last."""
    newest = read([standby("0-0", SLOW), standby("0-1", FAST), standby("0-2", FAST)])
    lags = {"0-0": left(400), "0-1": left(5_000), "0-2": left(None)}
    assert soonest_ready(newest, lags, ["0-2", "0-0", "0-1", "0-3"]) == ["0-1", "0-0", "0-2", "0-3"]


def spoiled(**told: object) -> bytes:
    """A record that was well but for this."""
    _, value = standby("0-0", FAST)
    return json.dumps({**json.loads(value), **told}).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        spoiled(version=2),
        spoiled(status="asleep"),
        spoiled(as_of_ms="now"),
        spoiled(parts=[{}]),
        spoiled(parts=[{**json.loads(spoiled())["parts"][0], "apply_per_s": float("inf")}]),
        spoiled(parts=[{**json.loads(spoiled())["parts"][0], "intervals": 0}]),
    ],
)
def test_what_cannot_be_read_is_said_and_costs_no_other_one(value: bytes) -> None:
    """Anybody may write there."""
    newest = newest_readiness([(b"0-0", value), standby("1-0", FAST)], AS_OF_MS)
    assert newest.unused == {"0-0": "its published readiness can't be read"}
    assert newest.apply_per_s("1-0") == 5_000


def test_no_record_is_good_for_more_than_an_hour_whatever_it_says() -> None:
    """A pace of yesterday tells nothing."""
    record = standby("0-0", FAST, good_for_ms=10**12)
    assert newest_readiness([record], AS_OF_MS + 3_600_001).unused


paces = st.builds(
    Pace,
    apply_per_s=st.floats(-1e9, 1e9),
    write_per_s=st.floats(0, 1e9),
    noise_per_s=st.floats(0, 1e9),
    intervals=st.integers(1, 100),
    every_ms=st.floats(1, 1e6),
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.lists(paces, max_size=3), max_size=4))
def test_what_was_published_is_what_is_read(all_paces: dict[str, list[Pace]]) -> None:
    """Each pace to the last bit."""
    rows = [standby(name, *mine) for name, mine in all_paces.items()]
    found = read(rows)
    assert {n: list(one.paces.values()) for n, one in found.standbys.items()} == all_paces
    assert not found.unused
