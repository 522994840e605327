"""Ticks come as often as the interval says, though the daemon looks every 5 s, more or less."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.orchestration import ticks
from samza_dagster.orchestration.operations import step
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.ticks import elapsed_ms, least_seconds

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


def test_a_run_counts_its_waits_by_a_clock_that_no_step_of_the_wall_clock_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that is set by an hour neither ends a wait nor draws it out."""
    now_ms = inspect.signature(Runner).parameters["now_ms"].default
    began_ms = now_ms()
    monkeypatch.setattr(ticks.time, "time_ns", lambda: (began_ms + 3_600_000) * 1_000_000)
    assert 0 <= now_ms() - began_ms < 60_000
    assert now_ms is elapsed_ms is step.elapsed_ms
