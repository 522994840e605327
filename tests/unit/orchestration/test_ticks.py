"""Ticks come as often as the interval says, though the daemon looks every 5 s, more or less."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.orchestration.ticks import least_seconds

pytestmark = pytest.mark.unit

LOOP_S = 5


def test_an_interval_of_one_second_stays_one() -> None:
    """Nought would be Dagster's own default of 30 s."""
    assert least_seconds(1) == 1


@given(
    st.integers(min_value=1, max_value=3_600),
    st.floats(min_value=-0.4, max_value=0.4),
    st.floats(min_value=-0.4, max_value=0.4),
)
def test_a_loop_that_is_a_little_early_leaves_no_tick_out(
    interval_s: int, late: float, early: float
) -> None:
    """By the daemon's rule: due when the last one began at least that long ago."""
    loops = math.ceil(interval_s / LOOP_S)
    assert loops * LOOP_S + early - late >= least_seconds(interval_s)
