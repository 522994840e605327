"""A silence that a move didn't cause isn't taken for its downtime."""

from __future__ import annotations

import pytest

from benchmarks.downtime_moves import longest_of
from samza_dagster.sandbox.ledger import Gap

pytestmark = pytest.mark.unit


def gap(partition: int, from_ms: int, to_ms: int) -> Gap:
    """Between two outputs."""
    return Gap(partition, to_ms - from_ms, from_ms, to_ms, 20)


def test_the_longest_silence_of_the_moved_tasks_counts() -> None:
    """Whatever others do."""
    gaps = [gap(0, 9_900, 12_000), gap(1, 10_100, 12_900), gap(2, 1_000, 20_000)]
    assert longest_of(gaps, (0, 1), 10_000) == gaps[1]


def test_an_active_that_stood_still_for_its_quota_before_it_was_moved_is_found() -> None:
    """A restore may draw a window's quota at once, for which the next move seemed to take 8.2 s."""
    with pytest.raises(AssertionError, match="stood still 5000 ms before the move"):
        longest_of([gap(0, 5_000, 13_236)], (0, 1), 10_000)
