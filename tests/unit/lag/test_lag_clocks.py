"""Silence and skew by the observer's clock alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import Heard, HostClock, all_silent, clocks, heard, newest_reports

pytestmark = pytest.mark.unit
SKEW = st.integers(-(10**9), 10**9)


def test_a_mark_that_changed_is_new_and_one_that_did_not_is_silence() -> None:
    """Smaller or larger; a source that shows nothing isn't heard again by that."""
    known = heard({}, {"a": 5, "b": 5, "c": 5, "d": None}, 100)
    after = heard(known, {"a": 5, "b": 4, "c": None, "e": 1}, 200)
    assert {source: one.at_ms for source, one in after.items()} == {
        "a": 100,
        "b": 200,
        "c": 100,
        "e": 200,
    }
    assert heard(after, {"c": 5}, 300) == {"c": Heard(5, 100)}


def test_nothing_was_heard_later_than_now() -> None:
    """The observer's clock was set back: what lasts has lasted for as long as it can tell."""
    assert heard({"a": Heard(5, 100)}, {"a": 5}, 40) == {"a": Heard(5, 40)}


@pytest.mark.parametrize(
    ("reported_ms", "since_ms", "worked_ms", "silent"),
    [
        ([4_000, 1_000], 0, 0, "16 s"),
        ([4_000, 11_000], 0, 0, ""),
        # a deployment that was seen first later, or a commit that came: then the reporters are broken
        ([4_000], 11_000, 0, ""),
        ([4_000], 0, 11_000, ""),
        ([4_000], 9_000, 10_000, "10 s"),
        ([], 0, 0, ""),
    ],
)
def test_a_job_is_silent_once_none_of_its_containers_reports_or_commits(
    reported_ms: list[int], since_ms: int, worked_ms: int, silent: str
) -> None:
    """For ten seconds. Of one that never reported nothing can be told."""
    reports = [*(Heard(1, at_ms) for at_ms in reported_ms), Heard(0, 19_000)]
    told = all_silent(
        reports, since_ms=since_ms, worked_ms=worked_ms, now_ms=20_000, after_ms=10_000
    )
    assert silent in told if silent else not told


@given(
    began_ms=st.sampled_from([0, 1_700_000_000_000]),
    skew=SKEW,
    gaps=st.lists(st.integers(1, 60_000), min_size=2, max_size=20),
    data=st.data(),
)
def test_the_bounds_hold_the_true_skew_whenever_reports_come(
    began_ms: int, skew: int, gaps: list[int], data: st.DataObject
) -> None:
    """A report that is new was written between the two looks."""
    known: dict[str, HostClock] = {}
    now = looked = began_ms
    for gap in gaps:
        looked, now = now, now + gap
        written = data.draw(st.integers(looked + 1, now))
        known = clocks(known, {"h": written + skew}, looked_ms=looked, now_ms=now)
    clock = known["h"]
    assert clock.least_ms is not None
    assert clock.most_ms is not None
    assert clock.least_ms <= skew <= clock.most_ms
    if clock.is_skewed:
        assert abs(skew) > 5_000


def test_a_host_that_falls_silent_keeps_the_clock_that_it_had() -> None:
    """An old report isn't a slow clock."""
    known = clocks({}, {"h": 10_000}, looked_ms=0, now_ms=10_000)
    known = clocks(known, {"h": 12_000}, looked_ms=10_000, now_ms=12_000)
    for now in range(20_000, 200_000, 10_000):
        known = clocks(known, {"h": 12_000}, looked_ms=now - 10_000, now_ms=now)
    assert known == {"h": HostClock(12_000, 0, 2_000)}
    assert not known["h"].is_skewed


@pytest.mark.parametrize(
    ("pause_ms", "bounds"), [(86_400_000, (-5_000, 86_395_000)), (86_400_001, (None, None))]
)
def test_what_came_in_more_than_a_day_without_a_look_tells_nothing(
    pause_ms: int, bounds: tuple[int | None, int | None]
) -> None:
    """The observer's own clock may have been set meanwhile."""
    looked_ms = 1_700_000_000_000
    now_ms = looked_ms + pause_ms
    reported = {"h": looked_ms + 86_395_000}
    known = clocks({"h": HostClock(1)}, reported, looked_ms=looked_ms, now_ms=now_ms)["h"]
    assert (known.least_ms, known.most_ms) == bounds


def test_a_clock_that_is_set_right_is_believed() -> None:
    """Bounds that contradict the former replace them."""
    known = {"h": HostClock(5_000, -100_000, -99_000)}
    assert known["h"].is_skewed
    known = clocks(known, {"h": 20_000}, looked_ms=15_000, now_ms=20_000)
    assert known == {"h": HostClock(20_000, 0, 5_000)}


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "is_skewed"),
    [
        (5_001, 9_000, True),
        (-9_000, -5_001, True),
        # it may be right, or as far off as is tolerated
        (5_000, 9_000, False),
        (-9_000, -5_000, False),
        (-60_000, 60_000, False),
        (None, None, False),
    ],
)
def test_a_clock_is_off_when_both_bounds_are(
    least_ms: int | None, most_ms: int | None, *, is_skewed: bool
) -> None:
    """Ahead or behind."""
    assert HostClock(0, least_ms, most_ms).is_skewed is is_skewed


def test_the_skew_is_told_with_its_bounds() -> None:
    """And to which side."""
    assert str(HostClock(0, -100_000, -98_000)) == (
        "its clock is about 99 s behind the observer's (between 98.0 and 100.0 s, by the times of"
        " its metrics reports and when they came)"
    )
    assert "about 10 s ahead of" in str(HostClock(0, 9_000, 11_000))


def test_a_hosts_newest_report_is_the_latest_by_its_own_clock() -> None:
    """Of its containers; who told nothing is left out."""
    told = newest_reports([("a", 3), ("a", 5), ("a", None), (None, 9), ("b", 1)])
    assert told == {"a": 5, "b": 1}
