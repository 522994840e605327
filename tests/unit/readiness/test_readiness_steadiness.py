"""Small, flat, for long enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.readiness import Bounds, LagAt, Steadiness, steadiness

pytestmark = pytest.mark.unit

BOUNDS = Bounds(small_records=100, flat_records=10, long_enough_ms=30, gap_ms=12)


def lags(*records: int | None, every_ms: int = 10) -> list[LagAt]:
    return [LagAt(n * every_ms, lag) for n, lag in enumerate(records)]


def judged(samples: list[LagAt]) -> Steadiness:
    return steadiness(samples, samples[-1].at_ms, BOUNDS)


def test_small_and_flat_for_long_enough_is_steady() -> None:
    """Whatever was before."""
    assert judged(lags(0, 5, 0, 9)) == Steadiness(True, 30)
    assert judged(lags(900, None, 90, 95, 92, 99)) == Steadiness(True, 30)


@pytest.mark.parametrize(
    ("samples", "held_ms", "why"),
    [
        (lags(0, 0, 0), 20, "no earlier sample"),
        (lags(0, 0, 101), 0, "101 records behind"),
        (lags(0, 101, 99, 98, 97), 20, "101 records behind at 10"),
        (lags(0, 0, 0, None), 0, "unknown at 30"),
        (lags(0, None, 0, 0), 10, "unknown at 10"),
        (lags(0, 11, 11, 11), 20, "from 0 to 11"),
        (lags(80, 70, 60, 50, 40), 10, "from 40 to 60"),
        (lags(0, 0, 0, 0, every_ms=13), 0, "no sample for 13 ms"),
    ],
)
def test_what_keeps_it_from_being_steady_is_told(
    samples: list[LagAt], held_ms: int, why: str
) -> None:
    """The bound that held it up, going back from now."""
    found = judged(samples)
    assert (found.steady, found.steady_for_ms) == (False, held_ms)
    assert why in found.why_not


def test_silence_is_not_steadiness() -> None:
    """The last samples of a dead standby look as good as ever."""
    samples = lags(0, 0, 0, 0)
    assert steadiness(samples, 42, BOUNDS).steady
    assert steadiness(samples, 43, BOUNDS) == Steadiness(
        False, 0, "no sample for 13 ms, at most 12 allowed"
    )
    assert not steadiness([], 0, BOUNDS).steady


@given(st.lists(st.none() | st.integers(0, 120), min_size=1, max_size=12))
def test_steady_means_every_bound_held_over_the_whole_time(records: list[int | None]) -> None:
    """Checked from the samples themselves, and no longer time would have done."""
    samples = lags(*records)
    found = judged(samples)
    since = samples[-1].at_ms - found.steady_for_ms
    held = [s.records for s in samples if s.at_ms >= since]
    fine = None not in held and max(held) <= 100 and max(held) - min(held) <= 10  # type: ignore[type-var, operator]
    assert fine or found.steady_for_ms == 0
    assert found.steady == (fine and found.steady_for_ms >= 30)
    earlier = [s.records for s in samples if s.at_ms >= since - 10]
    if fine and len(earlier) > len(held):
        assert None in earlier or max(earlier) > 100 or max(earlier) - min(earlier) > 10  # type: ignore[type-var, operator]
