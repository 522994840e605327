"""A standby is ready when its lag in seconds is small and flat: by many reports, never by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import (
    Bounds,
    Course,
    Judgement,
    ReplicaReport,
    StandbyStatus,
    course,
    judge,
    of_standby,
    replica_readiness,
)
from samza_dagster.lag.readiness import NO_CHANGELOG
from tests.rig.fleets import Changelog, Fault, Fleet, Shape
from tests.unit.lag.fleet_replicas import replicas

pytestmark = pytest.mark.unit

BOUNDS = Bounds(seconds=10, window_s=30, report_s=10)
LAGS = st.integers(0, 4_000)
LATE_MS = 600_000
SHAPE = Shape(jobs=40, hosts=12, shares={f: 0.09 for f in Fault if f is not Fault.NONE})


def follower(lags: list[int], per_s: int = 100, every_ms: int = 10_000) -> list[ReplicaReport]:
    """A standby under an even load, so many records behind at each report."""
    ends = [10_000 + per_s * every_ms * number // 1_000 for number in range(len(lags))]
    return [
        ReplicaReport(number * every_ms, "p", end - 1 - lag, 0, end)
        for number, (lag, end) in enumerate(zip(lags, ends, strict=True))
    ]


def judged(reports: list[ReplicaReport], bounds: Bounds = BOUNDS, silent_ms: int = 0) -> Judgement:
    return judge(course(reports), silent_ms, bounds)


def statuses(fault: Fault, shape: Shape = SHAPE, bounds: Bounds = BOUNDS) -> set[StandbyStatus]:
    """Of all replicas with this fault in a fleet, long after its moment, but those still restoring."""
    return {
        found.judgement.status
        for standby, found in replicas(Fleet(shape), LATE_MS, fault, bounds=bounds)
        if _is_done(standby.restores[-1][1].caught_up_ms(), fault)
        and (fault is not Fault.DIED or standby.container.endswith("-0"))
    }


def _is_done(caught_up_ms: int | None, fault: Fault) -> bool:
    broken = fault in (Fault.STALLED, Fault.DIED, Fault.MADE_ANEW, Fault.LEADERLESS)
    return broken or (caught_up_ms is not None and caught_up_ms < LATE_MS - 100_000)


def test_a_caught_up_standby_under_load_is_ready() -> None:
    """Half a second behind at 100 records a second."""
    found = judged(follower([50] * 6))
    assert found.is_ready
    assert found.lag_s == pytest.approx(0.5)


def test_the_limit_is_in_seconds_whatever_the_rate() -> None:
    """2,000 records are 20 s of a slow job and a fifth of a second of a fast one."""
    assert judged(follower([2_000] * 6, per_s=100)).status is StandbyStatus.BEHIND
    assert judged(follower([2_000] * 6, per_s=10_000)).is_ready


def test_one_good_report_of_one_that_is_behind_makes_it_not_ready() -> None:
    """Nor does the newest one."""
    assert judged(follower([3_000] * 5 + [0])).status is StandbyStatus.BEHIND


def test_one_bad_report_of_one_that_is_steady_changes_nothing() -> None:
    """Like a report that came late."""
    assert judged(follower([50, 50, 50, 1_040, 50, 50])).is_ready


def test_one_late_report_moves_no_rate() -> None:
    """It is the newest one of seven, and 1,040 behind."""
    found = judged(follower([50] * 6 + [1_040]), replace(BOUNDS, window_s=60))
    assert found.lag_s == pytest.approx(0.5)


def test_a_small_lag_that_grows_is_not_ready() -> None:
    """In another window it would be beyond the limit."""
    found = judged(follower([100, 300, 500, 700, 900]))
    assert found.status is StandbyStatus.GROWING
    assert "falls back by 15.0 s a minute" in found.why


def test_what_is_small_has_to_stay_so_for_the_window() -> None:
    """Three reports that reach over it."""
    assert judged(follower([50] * 3)).status is StandbyStatus.UNPROVEN
    assert judged(follower([50] * 4)).is_ready
    assert judged(follower([50] * 1)).status is StandbyStatus.UNPROVEN


def test_a_standby_that_stands_still_is_not_ready() -> None:
    """It reports on, and its changelog grows."""
    assert statuses(Fault.STALLED) <= {StandbyStatus.STALLED, StandbyStatus.READY}
    for standby, found in replicas(Fleet(SHAPE), LATE_MS, Fault.STALLED, bounds=BOUNDS):
        grows = standby.changelog.per_s > 0
        assert (found.judgement.status is StandbyStatus.STALLED) == grows


@pytest.mark.parametrize(("window_s", "report_s", "after_ms"), [(30, 60, 30_000), (60, 10, 20_000)])
def test_a_standby_stands_still_after_a_window_or_two_reports(
    window_s: float, report_s: float, after_ms: int
) -> None:
    """Whichever is shorter."""
    bounds = replace(BOUNDS, window_s=window_s, report_s=report_s)
    for late_ms, is_stalled in ((after_ms - 1, False), (after_ms, True)):
        told = [ReplicaReport(0, "p", 10, 0, 20), ReplicaReport(late_ms, "p", 10, 0, 30)]
        assert (judged(told, bounds).status is StandbyStatus.STALLED) == is_stalled


def test_a_standby_of_an_idle_job_does_not_stand_still() -> None:
    """Nothing is written, so nothing is applied; what is left may be transaction markers."""
    idle = [ReplicaReport(n * 10_000, "p", 97, 0, 100) for n in range(6)]
    assert judged(idle).is_ready
    assert judged(idle).lag_s is None, "it has no rate"
    assert judged([replace(report, applied_offset=99) for report in idle]).lag_s == 0.0
    far = [ReplicaReport(n * 10_000, "p", 97, 0, 5_000) for n in range(6)]
    assert judged(far).status is StandbyStatus.BEHIND


def test_an_empty_changelog_is_ready() -> None:
    """There is nothing to apply, and its standbys report no offset."""
    assert statuses(Fault.EMPTY) == {StandbyStatus.READY}


def test_a_compacted_changelog_is_judged_by_seconds_and_not_by_its_offsets() -> None:
    """Three of four offsets have no record: a distance of 800 at 100 a second is 8 s as any other."""
    assert statuses(Fault.COMPACTED) == {StandbyStatus.READY}
    gaps = [ReplicaReport(n * 10_000, "p", 4_000 * n, 0, 4_000 * n + 3_200) for n in range(6)]
    found = judged(gaps)
    assert found.lag_s == pytest.approx(8, abs=0.1)
    assert found.is_ready


def test_a_topic_made_anew_tells_nothing_until_the_standby_reports_of_it() -> None:
    """What was applied of the former one is beyond its end, or would look like a lag of the new one."""
    for standby, found in replicas(Fleet(SHAPE), LATE_MS, Fault.MADE_ANEW, bounds=BOUNDS):
        told = found.judgement.status, found.left
        assert told == (StandbyStatus.UNKNOWN, None), standby.changelog
    grown = [
        ReplicaReport(n * 10_000, "p", 500, 0, end) for n, end in enumerate((501, 501, 501, 200))
    ]
    assert judged(grown).why.endswith("beyond-end")


def test_after_a_topic_was_made_anew_what_was_reported_before_is_forgotten() -> None:
    """Its end went back; so reports begin anew, and three are wanted."""
    before = follower([50] * 6)
    anew = [replace(report, came_ms=60_000 + report.came_ms) for report in follower([50] * 2)]
    assert judged(before + anew).status is StandbyStatus.UNPROVEN


@pytest.mark.parametrize(
    ("reported", "left"),
    [
        # it repeats what it had of the former topic, however little of the new one that would be
        ([(200, 150)], []),
        ([(200, 150), (210, 150)], []),
        ([(200, 150), (210, 160)], [49]),
        # it has begun with the new one
        ([(200, 20)], [179]),
        ([(200, None)], []),
        ([(200, None), (210, 150)], [59]),
        # it went back over its store: what was before isn't on the way to what is left now
        ([(600, 120), (600, 130)], [479, 469]),
    ],
)
def test_of_one_process_counts_what_it_has_of_the_topic_that_is_there(
    reported: list[tuple[int, int | None]], left: list[int]
) -> None:
    """Before that it had applied up to 150 of 501."""
    pairs = [(501, 150), *reported]
    reports = [ReplicaReport(n, "p", applied, 0, end) for n, (end, applied) in enumerate(pairs)]
    found = course(reports)
    assert [sample.behind for sample in found.samples] == left
    assert bool(found.unknown_because) == (not left)


def test_a_stale_report_of_a_dead_container_is_not_ready() -> None:
    """It stays in the topic, as good as it was: by the broker's times it is older than three intervals."""
    dead = [
        found
        for standby, found in replicas(Fleet(SHAPE), LATE_MS, Fault.DIED, bounds=BOUNDS)
        if standby.container.endswith("-0")
    ]
    assert dead
    assert {one.judgement.status for one in dead} == {StandbyStatus.SILENT}
    assert {one.left for one in dead} == {None}


@given(st.lists(LAGS, max_size=8), st.lists(LAGS, min_size=1, max_size=8))
def test_what_another_process_has_reported_tells_nothing(former: list[int], own: list[int]) -> None:
    """One that moved or lost its disk begins anew, and so does one that goes on over its store."""
    later_ms, more = 1_000_000, 5_000
    new = [
        ReplicaReport(later_ms + one.came_ms, "new", (one.applied_offset or 0) + more, 0, one.end + more)
        for one in follower(own)
    ]  # fmt: skip
    assert replica_readiness([*follower(former), *new], BOUNDS) == replica_readiness(new, BOUNDS)


def test_one_that_began_anew_long_ago_is_ready() -> None:
    """Moved, or its disk lost."""
    assert statuses(Fault.MOVED) | statuses(Fault.WIPED) <= {StandbyStatus.READY}


def test_a_host_whose_clock_is_off_changes_nothing() -> None:
    """Three hours ahead or behind: only when the broker got a report counts."""
    right, off = (Fleet(replace(SHAPE, skewed_hosts=number)) for number in (0, 6))
    for (_, one), (_, other) in zip(
        replicas(right, LATE_MS, bounds=BOUNDS), replicas(off, LATE_MS, bounds=BOUNDS), strict=True
    ):
        assert one == other


def test_a_report_interval_of_60_s_takes_three_reports_and_no_longer() -> None:
    """The window of 30 s holds one at most."""
    slow = Bounds(seconds=10, window_s=30, report_s=60)
    assert statuses(Fault.SLOW_REPORTS, bounds=slow) == {StandbyStatus.READY}
    assert judged(follower([50] * 3, every_ms=60_000), slow, silent_ms=119_000).is_ready
    assert judged(follower([50] * 2, every_ms=60_000), slow).status is StandbyStatus.UNPROVEN
    assert (
        judged(follower([50] * 3, every_ms=60_000), slow, silent_ms=181_000).status
        is StandbyStatus.SILENT
    )


def test_a_store_without_a_changelog_has_nothing_to_wait_for() -> None:
    """Its standby is ready, and says why."""
    found = of_standby({})
    assert (found.status, found.lag_s) == (StandbyStatus.READY, 0.0)
    assert found.why == "none of its stores has a changelog"
    assert found == NO_CHANGELOG


def test_a_partition_without_a_leader_makes_its_own_rows_unknown_and_no_others() -> None:
    """A standby that has one of each is unknown, and which partition makes it so is said."""
    lost = replica_readiness(follower([50] * 6), BOUNDS, reason="no-leader").judgement
    good = replica_readiness(follower([50] * 6), BOUNDS).judgement
    assert (lost.status, good.status) == (StandbyStatus.UNKNOWN, StandbyStatus.READY)
    both = of_standby({"lab 0": lost, "lab 1": good})
    assert both.status is StandbyStatus.UNKNOWN
    assert both.why == "lab 0: its lag isn't known: no-leader"
    assert of_standby({"lab 1": good}).is_ready
    assert statuses(Fault.LEADERLESS) == {StandbyStatus.UNKNOWN}


def test_a_whole_fleet_is_judged_as_its_answers_say() -> None:
    """Of the standbys without a fault: ready where they caught up long ago, else not."""
    judged_so: set[bool] = set()
    fleet = Fleet(Shape(jobs=60))
    for standby, found in replicas(fleet, 100_000, Fault.NONE, bounds=BOUNDS):
        caught_up_ms = standby.restores[-1][1].caught_up_ms()
        if caught_up_ms is not None and 40_000 < caught_up_ms < 120_000:
            continue
        is_ready = caught_up_ms is not None and caught_up_ms < 40_000
        assert found.judgement.is_ready == is_ready
        judged_so.add(is_ready)
    assert judged_so == {True, False}


@given(
    st.lists(st.integers(0, 900), min_size=5, max_size=9), st.integers(0, 8), st.integers(0, 10**6)
)
def test_no_single_report_makes_a_standby_ready_that_is_not(
    lags: list[int], which: int, wild: int
) -> None:
    """All but one say it is far behind."""
    far = [5_000 + lag for lag in lags]
    far[which % len(far)] = wild
    assert not judged(follower(far)).is_ready


@pytest.mark.parametrize(("every_ms", "wanted"), [(10_000, 4), (15_000, 3), (60_000, 3)])
@given(
    former=st.lists(LAGS, max_size=4), lags=st.lists(st.integers(0, 900), min_size=4, max_size=4)
)
def test_the_newest_reports_that_reach_over_the_window_decide(
    every_ms: int, wanted: int, former: list[int], lags: list[int]
) -> None:
    """Three at least; what was before them may have been anything."""
    reports = follower([*former, *lags[:wanted]], every_ms=every_ms)
    assert judged(reports) == judged(reports[-wanted:])


def test_a_rate_that_one_interval_alone_shows_counts() -> None:
    """It applied 300 in the last of four: 7.5 a second over all, for the 400 that were left."""
    offsets = enumerate((0, 0, 0, 0, 300))
    reports = [ReplicaReport(n * 10_000, "p", at, 0, 401) for n, at in offsets]
    found = judged(reports, replace(BOUNDS, window_s=40))
    assert (found.status, found.lag_s) == (StandbyStatus.BEHIND, pytest.approx(400 / 7.5))


@given(st.lists(st.integers(0, 4_000), min_size=1, max_size=8), st.integers(0, 400_000))
def test_a_later_look_at_the_same_reports_never_finds_more(lags: list[int], silent_ms: int) -> None:
    """As time passes without a report a verdict stays, or becomes silent."""
    reports = follower(lags)
    before, later = judged(reports), judged(reports, silent_ms=silent_ms)
    assert later == before or later.status is StandbyStatus.SILENT


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=8), st.integers(-(10**9), 10**9))
def test_only_lengths_of_time_count(lags: list[int], shift_ms: int) -> None:
    """No verdict depends on what time of day it is."""
    reports = follower(lags)
    shifted = [replace(report, came_ms=report.came_ms + shift_ms) for report in reports]
    assert judged(reports) == judged(shifted)


@given(
    st.lists(
        st.builds(
            *(Judgement, st.sampled_from(StandbyStatus), st.just("")), st.none() | st.floats(0, 9)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_standby_is_ready_when_all_of_it_is(parts: list[Judgement]) -> None:
    """Its worst part speaks for it, of several the one that is furthest behind."""
    found = of_standby({f"lab {number}": part for number, part in enumerate(parts)})
    assert found.is_ready == all(part.is_ready for part in parts)
    assert found.lag_s in [part.lag_s for part in parts if part.status is found.status]
    assert (found.lag_s or 0.0) == max(
        part.lag_s or 0.0 for part in parts if part.status is found.status
    )


@given(st.lists(LAGS, min_size=2, max_size=8))
def test_a_standby_within_the_bound_is_ready_now(lags: list[int]) -> None:
    """However much is left for its pace, and whether it gains or not."""
    found = replica_readiness(follower(lags), BOUNDS)
    pace, left = found.pace, found.left
    if pace is not None and left is not None and left <= BOUNDS.seconds * pace.apply_per_s:
        assert found.ready is not None
        assert found.ready.ready_in_ms == 0


def test_a_standby_is_ready_since_it_was_within_the_limit_at_its_pace() -> None:
    """10 s at 100 records a second: it had 4,000 to apply, and 50 at its next report."""
    found = replica_readiness(follower([4_000] + [50] * 5), BOUNDS)
    assert (found.left, found.ready_since_ms) == (50, round(10_000 * 3_000 / 3_950))
    assert replica_readiness(follower([4_000] * 6), BOUNDS).ready_since_ms is None


def test_nothing_reported_is_unknown() -> None:
    """Also what a new process has reported without an offset."""
    assert judge(Course(), 0, BOUNDS).status is StandbyStatus.UNKNOWN
    silent = judged([ReplicaReport(0, "p", None, 0, 5)])
    assert (silent.status, silent.lag_s) == (StandbyStatus.UNKNOWN, None)
    assert silent.why.endswith("no-observation")
    assert Changelog().end_at(5) == 0
