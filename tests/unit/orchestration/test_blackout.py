"""When a bounce may not begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.plans.blackout import DAY_MIN, WEEKDAYS, Window, which, window

pytestmark = pytest.mark.unit
FRIDAY = datetime(2026, 11, 27, tzinfo=UTC)


def at(days: int, hour: int, minute: int = 0) -> datetime:
    return FRIDAY + timedelta(days=days, hours=hour, minutes=minute)


def test_hours_that_cross_midnight_belong_to_the_day_on_which_they_begin() -> None:
    """Friday night ends on Saturday morning; Friday morning isn't Friday night."""
    night = window(weekdays=["fri"], start="22:00", end="06:00")
    assert [night.holds(at(0, 22)), night.holds(at(1, 5, 59))] == [True, True]
    assert [night.holds(at(0, 5)), night.holds(at(1, 6)), night.holds(at(1, 23))] == [False] * 3


def test_dates_are_days_or_ranges_with_their_last_day() -> None:
    """The whole day unless hours are named too."""
    freeze = window(dates=["2026-11-27", "2026-12-24..2027-01-02"], why="freeze")
    assert which([freeze], at(0, 0)) is freeze
    assert which([freeze], at(1, 0)) is None
    assert freeze.holds(datetime(2027, 1, 2, 23, 59, tzinfo=UTC))
    assert not freeze.holds(datetime(2027, 1, 3, tzinfo=UTC))
    assert "freeze" in str(freeze)
    both = window(dates=["2026-11-27"], start="08:00", end="10:00")
    assert [both.holds(at(0, 9)), both.holds(at(0, 11)), both.holds(at(1, 9))] == [
        True,
        False,
        False,
    ]


def test_yaml_s_reading_of_an_unquoted_time_is_understood() -> None:
    """22:00 is 1320 to it."""
    assert window(start=1320, end="23:30") == window(start="22:00", end="23:30")


@pytest.mark.parametrize(
    "text",
    [
        {"start": "25:00"},
        {"end": "12:60"},
        {"start": "noon"},
        {"weekdays": ["someday"]},
        {"dates": ["tomorrow"]},
        {"dates": ["2026-02-30"]},
        {"dates": ["2026-12-02..2026-12-01"]},
        {"dates": ["2026-12-24.."]},
    ],
)
def test_what_cannot_be_read_is_refused(text: dict[str, object]) -> None:
    """When the definitions are loaded, not at three in the morning."""
    with pytest.raises(InvalidInput):
        window(**text)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "text",
    [
        {"start": "24:00"},
        {"start": "24:00", "end": "24:00"},
        {"start": 1440},
        {"start": "24:00", "end": "00:00"},
        {"start": "24:00", "dates": ["2026-11-27"]},
        {"weekdays": ["mon"], "dates": ["2026-11-27"]},
        {"weekdays": ["mon", "thu"], "dates": ["2026-11-27..2026-11-29"]},
    ],
)
def test_a_blackout_that_no_time_is_in_is_refused(text: dict[str, object]) -> None:
    """It would be listed as one, and keep no bounce from beginning when it was meant to."""
    with pytest.raises(InvalidInput, match="blackout"):
        window(**text)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("text", [{"start": "08:00", "end": "08:00"}, {"end": "00:00"}])
def test_equal_start_and_end_are_a_whole_day(text: dict[str, str]) -> None:
    """As with any end that isn't after its start, it is the next morning's."""
    made = window(weekdays=["fri"], **text)  # pyright: ignore[reportArgumentType]
    held = [made.holds(FRIDAY + timedelta(minutes=m)) for m in range(7 * DAY_MIN)]
    assert (held[made.start], held.count(True)) == (True, DAY_MIN)


def test_a_night_may_begin_at_the_end_of_its_day() -> None:
    """24:00 of Friday is 00:00 of Saturday."""
    night = window(weekdays=["fri"], start="24:00", end="06:00")
    assert [night.holds(at(1, 0)), night.holds(at(1, 6)), night.holds(at(0, 5))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("days", ["2026-11-21..2026-11-27", "2026-11-27..9999-12-31"])
def test_a_range_that_reaches_its_weekday_is_a_blackout(days: str) -> None:
    """At its last day, and in one without an end."""
    assert window(weekdays=["fri"], dates=[days]).holds(at(0, 12))


@given(st.integers(0, DAY_MIN - 1), st.integers(1, DAY_MIN), st.integers(0, 7 * DAY_MIN - 1))
def test_a_window_of_one_weekday_is_as_long_as_it_says(start: int, end: int, minute: int) -> None:
    """Once a week, from its start for its length."""
    made = Window(weekdays=frozenset({WEEKDAYS.index("fri")}), start=start, end=end)
    length = (end - start) % DAY_MIN or DAY_MIN
    since = (minute - start) % (7 * DAY_MIN)
    assert made.holds(FRIDAY + timedelta(minutes=minute)) == (since < length)
