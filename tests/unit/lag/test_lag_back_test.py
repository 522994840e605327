"""What became of forecasts, and that the next ones' 90 % intervals hold on fleets never seen before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Applied,
    Errors,
    Forecast,
    Past,
    PastError,
    back_test,
    course,
    ready_at_ms,
    time_to_ready,
)
from samza_dagster.lag.forecasting import LEAST_PAST
from samza_dagster.lag.readiness import PACED_BY
from tests.rig.fleets import Fault, Fleet, Shape
from tests.unit.lag.fleet_replicas import reports_of, standbys

pytestmark = pytest.mark.unit

RESTORING = {Fault.MOVED: 0.5, Fault.WIPED: 0.5}
LONG_MS = 1_200_000
SPREADS = (0.15, 0.4, 0.8)


def forecasts(seed: int, spread: float, errors: Errors | None, jobs: int = 50) -> Iterator[Past]:
    """One of each restore of a fleet, made somewhere on its way, and what came by the fleet's own answer."""
    fleet = Fleet(Shape(jobs=jobs, seed=seed, spread=spread, shares=RESTORING))
    chance = Random(seed)
    for group, standby in standbys(fleet):
        caught_up_ms = standby.restores[-1][1].caught_up_ms()
        samples = [s for s in course(reports_of(group, standby, LONG_MS)).samples if caught_up_ms is None or s.at_ms < caught_up_ms]  # fmt: skip
        if len(samples) < 4:
            continue
        known = samples[: chance.randrange(3, len(samples))]
        found = time_to_ready(known[-PACED_BY:], errors=errors)
        if found is not None and found.ready_in_ms is not None:
            came = None if caught_up_ms is None else caught_up_ms - known[-1].at_ms
            yield Past(found, came, 10 * LONG_MS)


@cache
def learned() -> PastError:
    """From fleets of their own."""
    return back_test(
        one
        for number, spread in enumerate(SPREADS)
        for one in forecasts(100 + number, spread, None)
    )


@pytest.mark.parametrize("spread", SPREADS)
def test_on_held_out_fleets_the_90_percent_interval_covers_85_to_95_percent(spread: float) -> None:
    """Rates vary little, much, or wildly; what is learned is learned on other fleets."""
    seeds = range(200, 203)
    found = back_test(one for s in seeds for one in forecasts(s, spread, learned().errors))
    assert found.within is not None
    assert found.judged > 500
    assert 0.85 <= found.within <= 0.95


def test_before_anything_is_learned_the_interval_is_nearly_as_good() -> None:
    """By what is assumed of rates: too narrow by a few in a hundred here."""
    found = learned()
    assert found.within is not None
    assert found.off is not None
    assert 0.8 <= found.within <= 0.95
    assert found.off < 0.25


FOUR_S = Forecast(4_000, 3_000, 6_000, 0.2)


@pytest.mark.parametrize(
    ("past", "judged", "within", "late"),
    [
        ([Past(FOUR_S, 4_100, 60_000)], 1, 1.0, 0.0),
        ([Past(FOUR_S, 2_900, 60_000)], 1, 0.0, 0.0),
        ([Past(FOUR_S, 6_001, 60_000)], 1, 0.0, 1.0),
        # it isn't ready yet, and should be
        ([Past(FOUR_S, None, 6_000)], 1, 0.0, 1.0),
        # its time isn't over: those that came quickly would be judged first
        ([Past(FOUR_S, None, 5_999), Past(FOUR_S, 4_000, 5_000)], 0, None, None),
        # without a latest time it is judged when it has come
        ([Past(Forecast(4_000, 3_000, None, 2.0), 9_000)], 1, 1.0, 0.0),
        ([Past(Forecast(4_000, 3_000, None, 2.0), None, 99_000)], 0, None, None),
        # that it was ready, or never would be, is no time
        ([Past(Forecast(0, 0, 0), 0), Past(Forecast(None, None, None), 5)], 0, None, None),
    ],
)
def test_a_forecast_is_judged_once_its_latest_time_is_over(
    past: list[Past], judged: int, within: float | None, late: float | None
) -> None:
    """Within, or late."""
    found = back_test(past)
    assert (found.judged, found.within, found.late) == (judged, within, late)


def test_few_past_forecasts_teach_nothing() -> None:
    """The next ones go by what is assumed of rates."""
    assert back_test([Past(FOUR_S, 4_000, 9_000)] * (LEAST_PAST - 1)).errors is None
    assert back_test([Past(FOUR_S, 4_000, 9_000)] * LEAST_PAST).errors == Errors(0, 0)


@given(st.lists(st.integers(1, 100_000), min_size=LEAST_PAST, max_size=200))
def test_what_was_learned_holds_for_nine_of_ten_of_those_it_was_learned_from(
    came: list[int],
) -> None:
    """Whatever came."""
    wide = Forecast(4_000, 1, 90_000_000, 0.2)
    errors = back_test(Past(wide, ms, 90_000_000) for ms in came).errors
    assert errors is not None
    rates = [math.log(4_000 / ms) / 0.2 for ms in came]
    inside = sum(errors.low <= rate <= errors.high for rate in rates)
    assert inside >= 0.9 * len(came)


@pytest.mark.parametrize(
    ("behind", "since_ms", "goal", "ready"),
    [
        ([30, 20, 10, 0], 0, 0, 3_000),
        ([30, 20, 10, 0], 0, 15, 1_500),
        ([30, 0, 5, 0], 2_000, 0, 3_000),
        ([30, 20, 10], 0, 0, None),
        ([0, 20], 0, 0, 0),
        ([], 0, 0, None),
    ],
)
def test_when_it_was_ready_first(
    behind: list[int], since_ms: int, goal: float, ready: int | None
) -> None:
    """Between two reports it is taken to have gained evenly."""
    samples = [Applied(1_000 * n, 100 - left, 100) for n, left in enumerate(behind)]
    assert ready_at_ms(samples, since_ms, goal) == ready
