"""Time to ready from where a replica has been; one that has stopped, told from one with nothing to apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Applied,
    Forecast,
    Pace,
    forecast,
    last_of,
    pace,
    stalled_for_ms,
    stalled_since,
    time_to_ready,
)
from samza_dagster.lag.forecasting import READY, trend

pytestmark = pytest.mark.unit
NEVER = Forecast(None, None, None)

gains = st.lists(st.integers(0, 500), min_size=1, max_size=8)
spans = st.integers(1, 5_000)


def climbing(gained: list[int], behind: int, span_ms: int = 1_000) -> list[Applied]:
    """One sample a span; the changelog stands still, `behind` are left at the end."""
    places = [0, *accumulate(gained)]
    end = places[-1] + behind
    return [Applied(n * span_ms, place, end) for n, place in enumerate(places)]


IDLE = [Applied(n, 10, 10) for n in range(5)]


@pytest.mark.parametrize(
    ("samples", "ready_in_ms"),
    [
        # at the end it is ready with one sample
        ([Applied(0, 10, 10)], 0),
        # it goes on as fast as it has: 100 records a second, 400 left
        (climbing([100, 100], 400), 4_000),
        # what is written meanwhile has to be applied, too: 100 a second applied, 60 written, 400 left
        ([Applied(n * 1_000, 100 * n, 480 + 60 * n) for n in range(3)], 10_000),
        # an idle job wakes up: having had nothing to apply is no pause
        ([*IDLE, Applied(5, 15, 25)], None),
    ],
)
def test_what_is_left_over_the_rate_of_headway(
    samples: list[Applied], ready_in_ms: int | None
) -> None:
    """The last of them: the changelog grows by 15 while 5 are applied."""
    found = time_to_ready(samples)
    assert found is not None
    assert found.ready_in_ms == ready_in_ms


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [Applied(0, 10, 15)],
        [Applied(7, 9, 15), Applied(7, 10, 15)],
        [*IDLE, Applied(5, 10, 30)],
    ],
)
def test_one_report_tells_no_rate(samples: list[Applied]) -> None:
    """One that isn't at the end needs a second one."""
    assert time_to_ready(samples) is None


@pytest.mark.parametrize(
    ("samples", "known"),
    [
        # one interval: half of the larger of what it applies and what it gains
        ([Applied(0, 0, 500), Applied(2_000, 200, 620)], Pace(100, 60, 50, 1, 2_000)),
        ([Applied(0, 0, 500), Applied(2_000, 20, 620)], Pace(10, 60, 25, 1, 2_000)),
        # slopes of all pairs: 10, 16⅔, 20, 35, 50 and 90
        (
            [Applied(0, 0, 500), *(Applied(1_000 * n, at, 500) for n, at in ((1, 90), (2, 100), (4, 140)))],
            Pace(27.5, 0, ((62.5**2 + 17.5**2 + 7.5**2) / 2) ** 0.5, 3, 4_000 / 3),
        ),
        # of two reports of one time the later counts
        ([Applied(0, 0, 500), Applied(0, 50, 500), Applied(1_000, 150, 500)], Pace(100, 0, 50, 1, 1_000)),
        # what it applied of what had just been written is no pace
        (
            [*(Applied(1_000 * n, n, n) for n in (1, 2)), *(Applied(3_000 + 1_000 * n, 2 + 100 * n, 502) for n in (0, 1))],
            Pace(100, 0, 50, 1, 1_000),
        ),
    ],
)  # fmt: skip
def test_a_pace_is_what_was_seen_and_how_far_that_varies(
    samples: list[Applied], known: Pace
) -> None:
    """In offsets a second."""
    assert pace(samples) == known


@pytest.mark.parametrize(
    "samples",
    [
        # a restore that died keeps its process: its offset stands while the end moves
        [Applied(n, 10, 15 + n) for n in range(5)],
        climbing([0, 0, 0], 1),
        # it applies, and more is written
        [Applied(n * 1_000, 50 * n, 1_000 + 60 * n) for n in range(5)],
    ],
)
def test_without_headway_it_is_never_ready(samples: list[Applied]) -> None:
    """No time, no latest."""
    found = time_to_ready(samples)
    assert found is not None
    assert (found.ready_in_ms, found.latest_ms) == (None, None)


def test_a_takeover_waits_for_what_is_left_and_nothing_more_is_written() -> None:
    """Its active is dead: 100 a second, 400 left."""
    samples = [Applied(n * 1_000, 100 * n, 480 + 60 * n) for n in range(3)]
    found = time_to_ready(samples, writes_go_on=False)
    assert found is not None
    assert found.ready_in_ms == 4_000


def test_a_caught_up_standby_under_load_is_ready_though_it_never_gets_to_the_end() -> None:
    """It applies as fast as is written: 200 behind at 1,000 a second is a fifth of a second."""
    samples = [Applied(n * 1_000, 1_000 * n, 1_000 * n + 200) for n in range(5)]
    assert time_to_ready(samples, ready_s=1) == READY
    assert time_to_ready(samples, ready_s=0.1) == NEVER


def test_a_container_that_is_still_to_start_needs_that_too() -> None:
    """Start and restore are added."""
    even = Pace(100, 0, 0, 5, 1_000)
    found = forecast(400, even, start_ms=3_000)
    assert found is not None
    assert found.ready_in_ms == 7_000
    assert forecast(0, None, start_ms=3_000) == Forecast(3_000, 3_000, 3_000)


@given(gains, st.integers(1, 10_000), spans)
def test_the_time_lies_in_its_interval(gained: list[int], behind: int, span_ms: int) -> None:
    """Soonest ≤ expected ≤ latest."""
    found = time_to_ready(climbing(gained, behind, span_ms))
    assert found is not None
    if found.ready_in_ms is None:
        assert found.latest_ms is None
        return
    assert found.soonest_ms is not None
    assert found.soonest_ms <= found.ready_in_ms
    assert found.latest_ms is None or found.ready_in_ms <= found.latest_ms


@given(st.integers(1, 500), st.integers(1, 6), st.integers(1, 10_000), spans)
def test_an_even_speed_is_foretold_exactly(
    gain: int, number: int, behind: int, span_ms: int
) -> None:
    """What is left, over records a ms; rates are counted in seconds, so by rounding a ms may lack."""
    found = time_to_ready(climbing([gain] * number, behind, span_ms))
    assert found is not None
    assert found.ready_in_ms == pytest.approx(behind / (gain / span_ms), abs=1)


@given(gains, st.integers(1, 5_000), st.integers(1, 5_000))
def test_more_to_apply_is_never_ready_sooner(gained: list[int], behind: int, more: int) -> None:
    """With the same speeds."""
    less, later = (time_to_ready(climbing(gained, b)) for b in (behind, behind + more))
    assert less is not None
    assert later is not None
    assert (less.ready_in_ms is None) == (later.ready_in_ms is None)
    if less.ready_in_ms is not None and later.ready_in_ms is not None:
        assert less.ready_in_ms <= later.ready_in_ms


@given(st.integers(20, 500), st.lists(st.integers(-10_000, 10_000), min_size=2, max_size=2))
def test_two_wild_reports_of_nine_hardly_move_the_rate(gain: int, wild: list[int]) -> None:
    """A mean would follow them."""
    samples = climbing([gain] * 8, 1_000)
    for index, off in zip((2, 6), wild, strict=True):
        samples[index] = replace(samples[index], applied=samples[index].applied + off)
    found = trend([(one.at_ms / 1000, one.applied) for one in samples])
    assert found == pytest.approx(gain)


forecasts = st.none() | st.builds(
    Forecast,
    ready_in_ms=st.none() | st.integers(0, 9),
    soonest_ms=st.none() | st.integers(0, 9),
    latest_ms=st.none() | st.integers(0, 9),
)


@given(st.lists(forecasts, max_size=5))
def test_a_whole_is_ready_when_its_last_part_is(parts: list[Forecast | None]) -> None:
    """Soonest and latest too: unknown if one is unknown; never, if one is never."""
    found = last_of(parts)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        assert found is None
        return
    assert found is not None
    for name in ("ready_in_ms", "soonest_ms", "latest_ms"):
        times = [getattr(part, name) for part in known]
        assert getattr(found, name) == (None if None in times else max([0, *times]))


def stalled(samples: Sequence[Applied]) -> int:
    """What is told after the last of the samples."""
    since = None
    for sample in samples:
        since = stalled_since(since, sample)
    return stalled_for_ms(since, samples[-1])


CAUGHT_UP = [Applied(0, 5, 5), Applied(10, 5, 5), Applied(20, 5, 6), Applied(30, 5, 7)]


@pytest.mark.parametrize(
    ("samples", "for_ms"),
    [
        # from when it last moved, behind while the end goes on
        ([Applied(0, 1, 5), Applied(10, 3, 6), Applied(20, 3, 7), Applied(30, 3, 9)], 20),
        # caught up it stands still rightly: from when there was something to apply
        (CAUGHT_UP[:2], 0),
        (CAUGHT_UP[:3], 0),
        (CAUGHT_UP, 10),
        # a changelog that doesn't grow proves nothing: what is left may be markers
        ([Applied(0, 3, 5), Applied(90_000, 3, 5)], 0),
        # the least headway ends it
        ([Applied(0, 3, 50), Applied(10, 3, 60), Applied(20, 4, 70)], 0),
    ],
)
def test_for_how_long_it_has_stood_still(samples: list[Applied], for_ms: int) -> None:
    """After the last of the samples."""
    assert stalled(samples) == for_ms


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20))
def test_it_is_the_longest_time_without_headway(moves: list[tuple[int, int]]) -> None:
    """Read a second time: from the whole list, backwards."""
    samples: list[Applied] = []
    applied = end = 0
    for number, (gained, written) in enumerate(moves):
        end += written
        applied = min(end, applied + gained)
        samples.append(Applied(number * 10, applied, end))
    newest = samples[-1]
    still = [s for s in samples if s.applied == newest.applied and s.behind]
    first = still[0] if newest.behind else newest
    expected = newest.at_ms - first.at_ms if newest.end > first.end else 0
    assert stalled(samples) == expected


def test_a_rate_of_which_hardly_anything_is_known_has_a_forecast_too() -> None:
    """Its interval is wider than any number tells; a snapshot ended with an OverflowError."""
    found = forecast(1_000, Pace(0.001, 0.0, 1_000.0, 1, 1_000.0))
    assert found is not None
    assert (found.ready_in_ms, found.soonest_ms, found.latest_ms) == (1_000_000_000, 0, None)
