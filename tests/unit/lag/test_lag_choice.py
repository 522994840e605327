"""Which of several standbys takes over."""

from __future__ import annotations

import pytest

from samza_dagster.lag import soonness

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        # many records on a fast host may be ready before few on a slow one
        (soonness(10_000, 2_000, 0), soonness(10, 9_000, 0)),
        (soonness(None, 2_000, 0), soonness(10, 9_000, 0)),
        (soonness(9, 50_000, 0), soonness(3, None, 0)),
        (soonness(3, None, 0), soonness(7, None, 0)),
        (soonness(7, None, 0), soonness(None, None, 0)),
        # one that was close when it last spoke may be dead since; or its clock was set
        (soonness(9_999, None, 0), soonness(0, 0, 60_001)),
        (soonness(9_999, None, 0), soonness(0, 0, -60_001)),
        (soonness(0, 0, 60_000), soonness(9_999, None, 0)),
        # with Samza's default of a minute between reports, the newest is often older than one
        (soonness(0, 0, 61_000, 180_000), soonness(9_999, None, 0)),
        (soonness(9_999, None, 0), soonness(0, 0, 180_001, 180_000)),
    ],
)
def test_the_forecast_decides_before_the_records(
    better: tuple[bool, int, bool, int], worse: tuple[bool, int, bool, int]
) -> None:
    """Unknown comes last, and what an old sample told is unknown."""
    assert better < worse
