"""What the benchmark of the reducer calls too slow, and that what is measured is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reducer_speed import too_slow
from benchmarks.results_file import keep

pytestmark = pytest.mark.unit


def sizes(events_per_second: int, ratio: float) -> list[dict[str, float]]:
    return [
        {"containers": 1_000, "events_per_second": events_per_second, "ratio_to_smallest": 1.0},
        {"containers": 10_000, "events_per_second": 1, "ratio_to_smallest": ratio},
    ]


def test_ten_thousand_events_a_second_and_flat_within_a_factor_of_two_are_fast_enough() -> None:
    assert too_slow(sizes(10_000, 2.0)) == []


def test_each_missed_bound_is_told_with_what_was_measured() -> None:
    slow, steep = too_slow(sizes(9_999, 2.1))
    assert "9,999" in slow
    assert "2.1 times" in steep


def test_the_first_results_of_a_clone_are_kept(tmp_path: Path) -> None:
    """Its directory isn't there yet: all that the cockpit's benchmark had measured was lost."""
    file = tmp_path / "results" / "cockpit_reaction.json"
    keep("{}", file)
    assert file.read_text() == "{}\n"
