"""A replica that has stopped applying, told from one that has nothing to apply."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import Applied, stalled_for_ms, stands_since

pytestmark = pytest.mark.unit


def stalled(samples: Sequence[Applied]) -> int:
    """What is told after the last of the samples."""
    since = None
    for sample in samples:
        since = stands_since(since, sample)
    return stalled_for_ms(since, samples[-1])


def test_it_counts_from_when_it_last_moved() -> None:
    """Behind, and the end goes on."""
    at = [Applied(0, 1, 5), Applied(10, 3, 6), Applied(20, 3, 7), Applied(30, 3, 9)]
    assert stalled(at) == 20


def test_one_that_has_caught_up_stands_still_rightly() -> None:
    """Nothing to apply; it counts from when there was something."""
    at = [Applied(0, 5, 5), Applied(10, 5, 5), Applied(20, 5, 6), Applied(30, 5, 7)]
    assert stalled(at[:2]) == 0
    assert stalled(at[:3]) == 0
    assert stalled(at) == 10


def test_a_changelog_that_does_not_grow_proves_nothing() -> None:
    """What is left may be markers that no reader is given."""
    assert stalled([Applied(0, 3, 5), Applied(90_000, 3, 5)]) == 0


def test_the_least_headway_ends_it() -> None:
    """However far it is behind."""
    assert stalled([Applied(0, 3, 50), Applied(10, 3, 60), Applied(20, 4, 70)]) == 0


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
