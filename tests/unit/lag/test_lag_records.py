"""Lag of a replica: the rule, without Spark and without Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.lag import records_behind, times_to_ask

pytestmark = pytest.mark.unit

OFFSETS = st.integers(min_value=0, max_value=2**62)
MAYBE = st.none() | OFFSETS


def test_recorded_samples() -> None:
    """End and applied offset of a standby as recorded while it was being filled."""
    assert records_behind(0, 52399, 46231) == 6167
    assert records_behind(0, 65889, 65888) == 0


@given(beginning=MAYBE, end=MAYBE, applied=MAYBE)
def test_lag_is_never_negative(beginning: int | None, end: int | None, applied: int | None) -> None:
    """For any offsets whatever."""
    lag = records_behind(beginning, end, applied)
    assert lag is None or lag >= 0


@given(end=OFFSETS, applied=OFFSETS, step=st.integers(min_value=0, max_value=1000))
def test_applying_more_reduces_lag_by_as_much(end: int, applied: int, step: int) -> None:
    """As long as the replica stays within the changelog."""
    before, after = records_behind(0, end, applied), records_behind(0, end, applied + step)
    if end > 0 and after is not None:
        assert before == after + step


def test_brokers_are_asked_about_replicas_that_have_something_to_apply() -> None:
    """Where the changelog ended when the report came, and whether it went on for longer than a reporter may be silent."""
    came = ("log", 3, 1_000)
    assert times_to_ask(came, 98, 100, 60) == (came, ("log", 3, 1_060))
    assert times_to_ask(came, 99, 100, 60) == ()
