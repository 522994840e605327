"""How offset ranges are dealt to workers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.snapshots.reading import CHECKPOINTS, COORDINATOR, METRICS, STATE, Span, deal

pytestmark = pytest.mark.unit


def span(topic: str, start: int, end: int) -> Span:
    return Span(topic, 0, start, end, METRICS)


def test_a_big_partition_is_split() -> None:
    """No record is in two parts."""
    assert deal([span("t", 100, 100_100)], 50_000) == [
        [span("t", 100, 50_100)],
        [span("t", 50_100, 100_100)],
    ]


@pytest.mark.parametrize("what", [COORDINATOR, CHECKPOINTS, STATE])
def test_a_job_s_own_topic_is_never_split(what: str) -> None:
    """What deletes a record must be read by whoever read the record."""
    whole = Span("of-its-own", 0, 0, 100_000, what, ("j", "1"))
    assert deal([whole], 20_000) == [[whole]]


def test_small_ones_share_a_worker() -> None:
    """A job's few records aren't worth one of their own."""
    every = [span(name, 0, 10) for name in "abc"]
    assert deal(every, 20_000) == [every]


@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 90_000)), max_size=8), st.integers(9_000, 99_000))  # fmt: skip
def test_each_record_is_dealt_once(lengths: list[tuple[int, int]], size: int) -> None:
    """Whatever the ranges are; no part is empty."""
    every = [span(f"t{n}", start, start + more) for n, (start, more) in enumerate(lengths) if more]
    dealt = deal(every, size)
    assert all(dealt)
    for one in every:
        mine = sorted(piece for part in dealt for piece in part if piece.topic == one.topic)
        assert (mine[0].start, mine[-1].end) == (one.start, one.end)
        assert all(a.end == b.start for a, b in itertools.pairwise(mine))
