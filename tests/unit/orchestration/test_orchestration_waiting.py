"""What a run waits for: how a look is judged, and that looks add up to what samples say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import ReplicaLag
from samza_dagster.lag import Heard
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.operations.progress import any_of
from samza_dagster.orchestration.plans.conditions import (
    Met,
    Reported,
    Wait,
    Watched,
    described,
    lags_by_processor,
    look,
    met,
)
from samza_dagster.orchestration.plans.drain import KnownLags
from samza_dagster.orchestration.tags import MOST_TAG_BYTES

pytestmark = pytest.mark.unit
WAIT = Wait({"0-1": 1_000_000}, limit=100, steady_s=30, number=1, run="r")


def replicas(lags: dict[str, int | None], report_ms: int) -> Reported:
    """Of a store each, as reported at a time."""
    return Reported.by(
        [
            ReplicaLag(p, "t", TaskMode.STANDBY, "s", "log", 0, "h", 9, 0, lag, report_ms)
            for p, lag in lags.items()
        ]
    )


def watched(lags: list[tuple[int, int | None]]) -> Watched | None:
    """Each look sees a new report."""
    seen: Watched | None = None
    for at_ms, lag in lags:
        seen = look(WAIT, seen, replicas({"0-1": lag}, at_ms), at_ms)
    return seen


@given(
    st.lists(
        st.tuples(st.integers(1, 18_000), st.one_of(st.none(), st.integers(0, 120)), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_looks_kept_as_two_times_say_what_all_samples_say(
    steps: list[tuple[int, int | None, bool]],
) -> None:
    """From the look that found it small first to the one that saw its newest report first."""
    seen: Watched | None = None
    samples: list[tuple[int, bool]] = []
    at_ms = report = reported_ms = 0
    for step, lag, is_new in steps:
        at_ms += step
        if is_new or not samples:
            report, reported_ms = report + 1, at_ms
        samples.append((at_ms, lag is not None and lag <= 100))
        seen = look(WAIT, seen, replicas({"0-1": lag}, report), at_ms)
    since: int | None = None
    for before, (now_ms, small) in zip([(0, False), *samples], samples, strict=False):
        keeps_on = since is not None and now_ms - before[0] <= 15_000
        since = (since if keeps_on else now_ms) if small else None
    held_ms = None if since is None else max(0, reported_ms - since)
    assert seen is not None
    assert seen.steady_ms("0-1") == held_ms
    assert (met(WAIT, seen, ["0-1"]) is not None) is ((held_ms or 0) >= 30_000)


@given(st.lists(st.none() | st.integers(0, 200), min_size=1, max_size=4))
def test_a_standby_is_warm_when_each_of_its_stores_is(lags: list[int | None]) -> None:
    """For whoever waits and for a drain: one store of which nothing is known may be all that is missing."""
    stores = [
        ReplicaLag("0-1", "t", TaskMode.STANDBY, f"s{n}", "log", 0, "h", 9, 0, lag, 10)
        for n, lag in enumerate(lags)
    ]
    wait, is_warm = replace(WAIT, steady_s=0), all(lag is not None and lag <= 100 for lag in lags)
    seen = look(wait, None, Reported.by(stores), 10)
    assert (met(wait, seen, ["0-1"]) is not None) is is_warm
    assert KnownLags(lags_by_processor(stores), 100).is_warm("0-1") is is_warm


def test_one_of_several_is_enough() -> None:
    """Whoever waits for several goes on with the first."""
    wait = Wait({"0-1": 1_000, "1-1": 1_000}, 100, 0, 1, "r")
    seen = look(wait, None, replicas({"0-1": 5_000, "1-1": 3}, 10), 10)
    why = met(wait, seen, ["0-1", "1-1"])
    assert why is not None
    assert why.steady_ms == {"1-1": 0}


@pytest.mark.parametrize(
    ("waited_ms", "processors", "why"),
    [
        (999_999, ["0-1"], None),
        (1_000_000, ["0-1"], "time is over"),
        (5, ["0"], "isn't in the job"),
    ],
)
def test_what_can_come_true_no_more_is_continued_to_fail(
    waited_ms: int, processors: list[str], why: str | None
) -> None:
    """A time that is over, a standby that is gone: the run says so itself."""
    behind = replicas({"0-1": 9_000}, 7)
    first = look(WAIT, None, behind, 7)
    found = met(WAIT, look(WAIT, first, behind, 7 + waited_ms), processors)
    assert (found is None) is (why is None)
    assert found is None or (why or "") in found.why


def test_a_clock_that_went_back_begins_anew() -> None:
    """A sample from the future proves nothing."""
    seen = watched([(50_000, 1), (10_000, 1)])
    assert seen is not None
    assert (seen.since_ms, seen.waited_ms, seen.steady_ms("0-1")) == ({"0-1": 10_000}, 0, 0)


def test_a_look_by_another_machines_clock_begins_the_steady_time_anew_and_counts_no_wait() -> None:
    """How long ago the last look was isn't known; what was waited before stays waited."""
    seen = watched([(50_000, 1), (60_000, 1)])
    assert seen is not None
    small = replicas({"0-1": 1}, 7)
    moved = look(WAIT, seen.by_another_clock(900_000), small, 900_000)
    assert (moved.since_ms, moved.waited_ms) == ({"0-1": 900_000}, 10_000)
    assert look(WAIT, moved, small, 910_000).waited_ms == 20_000


def test_tags_are_read_back_and_others_passed_over() -> None:
    """A tag somebody else wrote is no wait."""
    assert Wait.read(WAIT.to_text()) == WAIT
    why = Met({"0-1": 30_000}, {"0-1": 9}, "steady")
    assert Met.read(why.to_text()) == why
    for text in (None, "", "[]", "{}", '{"version":2}', "no json", '{"version":2,"what":"x"}'):
        assert Wait.read(text) is None
        assert Met.read(text) is None


def test_each_standby_of_a_wait_keeps_its_own_time() -> None:
    """Through both tags; one that wasn't there has none."""
    single = (Wait({p: left_ms}, 100, 30, 0, "") for p, left_ms in (("0-0", 900), ("1-0", 5_000)))
    wait = Wait.read(replace(any_of(tuple(single)), run="r").to_text())
    assert wait is not None
    assert wait.left_ms == {"0-0": 900, "1-0": 5_000}
    seen = look(wait, look(wait, None, replicas({}, 7), 7), replicas({}, 7), 907)
    why = met(wait, seen, ["0-0", "1-0"])
    assert why is not None
    found = Met.read(why.to_text())
    assert found is not None
    assert found.left_ms == {"0-0": 0, "1-0": 4_100}


def test_a_wait_is_told_in_one_line() -> None:
    """How far, how long, what is wanted, how long it may still take."""
    seen = look(WAIT, None, replicas({"0-1": 42}, 1), 10_000)
    text = described(WAIT, seen, replicas({"0-1": 42}, 1))
    assert text == "0-1 42 records behind, steady for 0 s; wanted ≤ 100 for 30 s within 1000 s"


@pytest.mark.parametrize("longest", [5, 128])
def test_a_wait_for_many_standbys_at_once_fits_into_a_run_tag(longest: int) -> None:
    """Those left out are due last; they are looked at by each run that goes on."""
    names = [f"{number:03}-0".rjust(longest, "n") for number in range(64)]
    waits = [replace(WAIT, left_ms={name: 10**12 - n}) for n, name in enumerate(names)]
    wait = replace(any_of(waits), number=999, run="r" * 36)
    assert min(wait.left_ms.values()) == 10**12 - 63
    assert set(wait.who) == set(names[-len(wait.who) :])
    assert len(wait.who) >= 5
    at_ms = 10**12 - 64
    for lags in (dict[str, int | None].fromkeys(names, 0), dict[str, int | None]()):
        for there in (names, ()):
            first = look(wait, None, replicas(lags, 1), 1, 0)
            reports = {name: Heard(1, at_ms) for name in first.reports}
            seen = met(wait, Watched(first.since_ms, at_ms, 0, reports), there)
            assert len(wait.to_text().encode()) <= MOST_TAG_BYTES
            assert seen is None or len(seen.to_text().encode()) <= MOST_TAG_BYTES
