"""Which of several standbys takes over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import Candidate, soonest_ready

pytestmark = pytest.mark.unit

NOW = 1_000_000
amounts = st.none() | st.integers(0, 5)
candidates = st.lists(
    st.builds(
        Candidate,
        processor_id=st.sampled_from([f"0-{n}" for n in range(6)]),
        records=amounts,
        ready_in_ms=amounts,
        sampled_at_ms=st.none() | st.integers(NOW - 100, NOW + 100),
        good_for_ms=st.just(50),
    ),
    max_size=6,
    unique_by=lambda candidate: candidate.processor_id,
)


def ids(found: list[Candidate]) -> list[str]:
    return [candidate.processor_id for candidate in found]


def test_the_forecast_decides_before_the_records() -> None:
    """Many records on a fast host may be ready before few on a slow one."""
    few, many = Candidate("0-0", 10, 9_000, NOW), Candidate("0-1", 10_000, 2_000, NOW)
    assert ids(soonest_ready([few, many], NOW)) == ["0-1", "0-0"]


def test_without_a_forecast_the_records_decide_then_the_id() -> None:
    """Unknown comes last, and equal ones have an order of their own."""
    found = soonest_ready(
        [
            Candidate("0-3"),
            Candidate("0-2", 7, None, NOW),
            Candidate("0-1", 3, None, NOW),
            Candidate("0-0", 7, None, NOW),
            Candidate("0-4", 9, 50_000, NOW),
        ],
        NOW,
    )
    assert ids(found) == ["0-4", "0-1", "0-0", "0-2", "0-3"]


@pytest.mark.parametrize("age_ms", [60_001, -60_001])
def test_an_old_sample_tells_nothing(age_ms: int) -> None:
    """A standby that was close when it last spoke may be dead since."""
    stale = Candidate("0-0", 0, 0, NOW - age_ms)
    assert ids(soonest_ready([stale, Candidate("0-1", 9_999, None, NOW)], NOW)) == ["0-1", "0-0"]
    assert ids(soonest_ready([stale, Candidate("0-1", 9_999, None, NOW)], NOW - age_ms)) == [
        "0-0",
        "0-1",
    ]


@pytest.mark.parametrize(("age_ms", "best"), [(61_000, "0-0"), (180_001, "0-1")])
def test_a_sample_is_good_for_three_of_its_reporters_intervals(age_ms: int, best: str) -> None:
    """With Samza's default of a minute the newest is often older than one: it was passed over then."""
    near = Candidate("0-0", 0, 0, NOW - age_ms, good_for_ms=180_000)
    far = Candidate("0-1", 9_999, None, NOW, good_for_ms=180_000)
    assert ids(soonest_ready([near, far], NOW))[0] == best


@given(candidates, st.randoms(use_true_random=False))
def test_the_order_is_one_whatever_order_they_come_in(
    given_: list[Candidate], random: object
) -> None:
    """A permutation of what was given, and always the same: recovery decides as before."""
    shuffled = list(given_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = soonest_ready(given_, NOW)
    assert found == soonest_ready(shuffled, NOW)
    assert sorted(ids(found)) == sorted(ids(given_))


@given(candidates)
def test_no_later_one_is_known_to_be_ready_sooner(given_: list[Candidate]) -> None:
    """Neither by forecast, nor, where no forecast is fresh, by records."""
    found = soonest_ready(given_, NOW)

    def fresh(candidate: Candidate) -> bool:
        return candidate.sampled_at_ms is not None and abs(NOW - candidate.sampled_at_ms) <= 50

    forecasts = [c.ready_in_ms if fresh(c) else None for c in found]
    known = [f for f in forecasts if f is not None]
    assert known == sorted(known)
    assert forecasts[: len(known)] == known
    behind = [c.records if fresh(c) else None for c in found[len(known) :]]
    counted = [b for b in behind if b is not None]
    assert counted == sorted(counted)
    assert behind[: len(counted)] == counted
