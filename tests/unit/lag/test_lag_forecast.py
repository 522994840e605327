"""Time to ready from where a replica has been; one that has stopped, told from one with nothing to apply."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Applied,
    Forecast,
    last_of,
    stalled_for_ms,
    stands_since,
    time_to_ready,
)
from samza_dagster.lag.forecast import NEVER, READY

pytestmark = pytest.mark.unit

gains = st.lists(st.integers(0, 500), min_size=1, max_size=8)
spans = st.integers(1, 5_000)


def climbing(gained: list[int], behind: int, span_ms: int = 1_000) -> list[Applied]:
    """One sample a span; the changelog stands still, `behind` are left at the end."""
    places = [0, *accumulate(gained)]
    end = places[-1] + behind
    return [Applied(n * span_ms, place, end) for n, place in enumerate(places)]


IDLE = [Applied(n, 10, 10) for n in range(5)]


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        # at the end it is ready with one sample; one that isn't tells no speed
        ([Applied(0, 10, 10)], READY),
        ([], None),
        ([Applied(0, 10, 15)], None),
        ([Applied(7, 9, 15), Applied(7, 10, 15)], None),
        # it goes on as fast as it has: 100 records a second, 400 left; at half, at double the speed
        (climbing([100, 100], 400), Forecast(4_000, 4_000, 4_000)),
        (climbing([50, 100, 200], 400), Forecast(4_000, 2_000, 8_000)),
        # one pause leaves no latest time
        (climbing([100, 0, 100], 400), Forecast(4_000, 4_000, None)),
        # a restore that died keeps its process: its offset stands while the end moves
        ([Applied(n, 10, 15 + n) for n in range(5)], NEVER),
        (climbing([0, 0, 0], 1), NEVER),
        # an idle job wakes up: having had nothing to apply is no pause
        ([*IDLE, Applied(5, 10, 30)], None),
        ([*IDLE, Applied(5, 15, 25)], Forecast(2, 2, 2)),
        # what is written meanwhile is left out: 100 a second applied, 60 written, 400 left
        (
            [Applied(n * 1_000, 100 * n, 480 + 60 * n) for n in range(3)],
            Forecast(4_000, 4_000, 4_000),
        ),
    ],
)
def test_what_the_samples_tell(samples: list[Applied], told: Forecast | None) -> None:
    """When it is ready, the soonest, the latest; None: not known."""
    assert time_to_ready(samples) == told


@given(gains, st.integers(1, 10_000), spans)
def test_the_time_lies_in_its_interval(gained: list[int], behind: int, span_ms: int) -> None:
    """Soonest ≤ expected ≤ latest; no latest where it has paused."""
    found = time_to_ready(climbing(gained, behind, span_ms))
    assert found is not None
    if max(gained) == 0:
        assert found == NEVER
        return
    assert found.soonest_ms is not None
    assert found.ready_in_ms is None or found.soonest_ms <= found.ready_in_ms
    assert (found.latest_ms is None) == (min(gained) == 0)
    if found.latest_ms is not None:
        assert found.ready_in_ms is not None
        assert found.ready_in_ms <= found.latest_ms


@given(st.integers(1, 500), st.integers(1, 6), st.integers(1, 10_000), spans)
def test_an_even_speed_is_foretold_exactly(
    gain: int, number: int, behind: int, span_ms: int
) -> None:
    """What is left, over records a ms."""
    found = time_to_ready(climbing([gain] * number, behind, span_ms))
    assert found is not None
    assert found.ready_in_ms == round(behind / (gain / span_ms))


@given(gains, st.integers(1, 5_000), st.integers(1, 5_000))
def test_more_to_apply_is_never_ready_sooner(gained: list[int], behind: int, more: int) -> None:
    """With the same speeds."""
    less, later = (time_to_ready(climbing(gained, b)) for b in (behind, behind + more))
    assert less is not None
    assert later is not None
    if less.ready_in_ms is not None:
        assert later.ready_in_ms is not None
        assert less.ready_in_ms <= later.ready_in_ms


forecasts = st.none() | st.builds(
    Forecast,
    ready_in_ms=st.none() | st.integers(0, 9),
    soonest_ms=st.none() | st.integers(0, 9),
    latest_ms=st.none() | st.integers(0, 9),
)


@given(st.lists(forecasts, max_size=5))
def test_a_whole_is_ready_when_its_last_part_is(parts: list[Forecast | None]) -> None:
    """Unknown if one is unknown; never, if one is never."""
    found = last_of(parts)
    if any(part is None for part in parts):
        assert found is None
        return
    assert found is not None
    times = [part.ready_in_ms for part in parts if part is not None]
    assert found.ready_in_ms == (None if None in times else max([0, *(t or 0 for t in times)]))


def stalled(samples: Sequence[Applied]) -> int:
    """What is told after the last of the samples."""
    since = None
    for sample in samples:
        since = stands_since(since, sample)
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
