"""When a standby counts as warm: how a look is judged, and that looks add up to what samples say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import ReplicaLag
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.plans.conditions import Reported, WarmUp

pytestmark = pytest.mark.unit
BOUNDS = CatchUp(lag_limit=100, steady_s=30, timeout_s=1_000)


def reported(lag: int | None, report_ms: int) -> Reported:
    """Of one store of standby 0-1, as reported at a time."""
    return Reported.by(
        [ReplicaLag(*("0-1", "t", TaskMode.STANDBY, "s", "log", 0, "h", 9, 0), lag, report_ms)]
    )


def watched(lags: list[tuple[int, int | None]]) -> WarmUp:
    """Each look sees a new report."""
    watch = WarmUp.of("0-1", BOUNDS)
    for at_ms, lag in lags:
        watch.look(reported(lag, at_ms), at_ms)
    return watch


@given(
    st.lists(
        st.tuples(st.integers(1, 18_000), st.one_of(st.none(), st.integers(0, 120)), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_looks_say_what_all_samples_say(steps: list[tuple[int, int | None, bool]]) -> None:
    """From the look that found it small first to the one that saw its newest report first."""
    watch = WarmUp.of("0-1", BOUNDS)
    samples: list[tuple[int, bool]] = []
    at_ms = report = reported_ms = 0
    for step, lag, is_new in steps:
        at_ms += step
        if is_new or not samples:
            report, reported_ms = report + 1, at_ms
        samples.append((at_ms, lag is not None and lag <= 100))
        watch.look(reported(lag, report), at_ms)
    since: int | None = None
    for before, (now_ms, small) in zip([(0, False), *samples], samples, strict=False):
        keeps_on = since is not None and now_ms - before[0] <= 15_000
        since = (since if keeps_on else now_ms) if small else None
    held_ms = None if since is None else max(0, reported_ms - since)
    assert watch.steady_ms == held_ms
    assert watch.is_warm is ((held_ms or 0) >= 30_000)


@given(st.lists(st.none() | st.integers(0, 200), min_size=1, max_size=4))
def test_a_standby_is_warm_when_each_of_its_stores_is(lags: list[int | None]) -> None:
    """For whoever waits and for a drain: one store of which nothing is known may be all that is missing."""
    stores = [
        ReplicaLag("0-1", "t", TaskMode.STANDBY, f"s{n}", "log", 0, "h", 9, 0, lag, 10)
        for n, lag in enumerate(lags)
    ]
    watch = WarmUp.of("0-1", CatchUp(lag_limit=100, steady_s=0, timeout_s=1_000))
    is_warm = all(lag is not None and lag <= 100 for lag in lags)
    watch.look(Reported.by(stores), 10)
    assert watch.is_warm is is_warm


def test_a_standby_that_isnt_new_has_to_be_small_once() -> None:
    """It ran before; a drain looks whether it is still warm."""
    assert WarmUp.of("0-1", BOUNDS, is_new=False).look(reported(3, 10), 10)
    assert not WarmUp.of("0-1", BOUNDS).look(reported(3, 10), 10)


@pytest.mark.parametrize(("waited_ms", "is_over"), [(999_999, False), (1_000_000, True)])
def test_its_time_is_counted_from_the_first_look(waited_ms: int, is_over: bool) -> None:
    """However often it is looked at."""
    assert watched([(7, 9_000), (500, 9_000), (7 + waited_ms, 9_000)]).is_too_late is is_over


def test_a_clock_that_went_back_begins_anew() -> None:
    """A sample from the future proves nothing, and no time has passed."""
    watch = watched([(50_000, 1), (10_000, 1)])
    assert (watch.steady_ms, watch.left_s) == (0, 1_000)


def test_a_wait_is_told_in_one_line() -> None:
    """How far, how long, what is wanted, how long it may still take."""
    watch = WarmUp.of("0-1", BOUNDS)
    watch.look(reported(42, 1), 10_000)
    text = "0-1 42 records behind, steady for 0 s; wanted ≤ 100 for 30 s within 1000 s"
    assert watch.line == text
