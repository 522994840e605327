"""What came of forecasts: that their 90 % intervals hold, on fleets whose every figure is known."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import median

import pytest

from samza_dagster.lag import Applied, Forecast, course, time_to_ready
from samza_dagster.lag.forecasting import ready_at_ms
from samza_dagster.lag.readiness import PACED_BY
from tests.rig.fleets import Fault, Fleet, Shape
from tests.unit.lag.fleet_replicas import reports_of, standbys

pytestmark = pytest.mark.unit

RESTORING = {Fault.MOVED: 0.5, Fault.WIPED: 0.5}
LONG_MS = 1_200_000


def forecasts(seed: int, spread: float) -> Iterator[tuple[Forecast, int | None]]:
    """One of each restore of a fleet, made somewhere on its way, and what came by the fleet's own answer."""
    fleet = Fleet(Shape(jobs=50, seed=seed, spread=spread, shares=RESTORING))
    chance = Random(seed)
    for group, standby in standbys(fleet):
        caught_up_ms = standby.restores[-1][1].caught_up_ms()
        samples = [s for s in course(reports_of(group, standby, LONG_MS)).samples if caught_up_ms is None or s.at_ms < caught_up_ms]  # fmt: skip
        if len(samples) < 4:
            continue
        known = samples[: chance.randrange(3, len(samples))]
        found = time_to_ready(known[-PACED_BY:])
        if found is not None and found.ready_in_ms:
            yield found, None if caught_up_ms is None else caught_up_ms - known[-1].at_ms


def is_within(made: Forecast, came_ms: int | None) -> bool:
    """One that has no latest time says nothing of how late it may be."""
    if came_ms is None:
        return made.latest_ms is None
    return (made.soonest_ms or 0) <= came_ms <= (made.latest_ms or came_ms)


@pytest.mark.parametrize(("spread", "off"), [(0.15, 0.1), (0.4, 0.25), (0.8, 0.5)])
def test_the_90_percent_interval_covers_85_to_95_percent(spread: float, off: float) -> None:
    """Rates vary little, much, or wildly; the time itself is off by no more than so much at the median."""
    made = [one for seed in range(200, 203) for one in forecasts(seed, spread)]
    assert len(made) > 500
    assert 0.85 <= sum(is_within(*one) for one in made) / len(made) <= 0.95
    known = [(one.ready_in_ms or 0, came) for one, came in made if came is not None]
    assert median(abs(ready - came) / max(1, came) for ready, came in known) < off


@pytest.mark.parametrize(
    ("behind", "goal", "ready"),
    [
        ([30, 20, 10, 0], 0, 3_000),
        ([30, 20, 10, 0], 15, 1_500),
        ([30, 20, 10], 0, None),
        ([0, 20], 0, 0),
        ([], 0, None),
    ],
)
def test_when_it_was_ready_first(behind: list[int], goal: float, ready: int | None) -> None:
    """Between two reports it is taken to have gained evenly."""
    samples = [Applied(1_000 * n, 100 - left, 100) for n, left in enumerate(behind)]
    assert ready_at_ms(samples, goal) == ready
