"""How offset ranges are dealt to workers, and for how long one reads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.snapshots.reading import (
    CHECKPOINTS,
    COORDINATOR,
    METRICS,
    STATE,
    Readers,
    Span,
    deal,
)

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


def message(offset: int, error: KafkaError | None = None) -> Any:
    """A record without a value, or what the brokers say in place of one."""
    told = {"topic": "t", "partition": 0, "offset": offset, "error": error, "value": None}
    told |= {"timestamp": (1, 7_000)}
    return SimpleNamespace(**{name: lambda it=it: it for name, it in told.items()})


def consumer(consume: Callable[..., list[Any]]) -> Any:
    return SimpleNamespace(assign=lambda _: None, close=lambda: None, consume=consume)


def test_a_range_that_the_brokers_refuse_half_way_is_told_as_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A right that was taken away meanwhile: what was read till then isn't all. What passes by itself is no refusal."""
    whole = span("t", 0, 4)
    passing, refused = (
        KafkaError(code, retriable=code == KafkaError.NOT_LEADER_FOR_PARTITION)
        for code in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )
    came = iter([[message(0), message(1)], [message(2, passing)], [message(2, refused)]])
    monkeypatch.setattr(KafkaCluster, "reader", lambda *_, **__: consumer(lambda *_: next(came)))
    ((one, why),) = Readers("", {}, 7_000).part([whole]).unread
    assert one == whole
    assert why.seen == "no right to read topic t"


@pytest.mark.parametrize(
    ("pauses", "read"),
    [((0.6, 0.6, 0.6, 0.6), 4), ((0.6, 0.6, 1.2, 0.6), 2)],
    ids=["answers", "falls silent"],
)
def test_a_range_is_read_for_as_long_as_the_brokers_answer(
    pauses: Sequence[float], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long all of it takes; each record comes after so many times of an answer's time."""
    whole, now_s, offsets = span("t", 0, 4), [0.0], itertools.count()
    steps = iter([step for pause in pauses for step in (pause * ANSWER_S, 0.0)])

    def consume(*_: object) -> list[Any]:
        passed = next(steps)
        now_s[0] += passed
        return [] if passed else [message(next(offsets))]

    monkeypatch.setattr(KafkaCluster, "reader", lambda *_, **__: consumer(consume))
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    found = Readers("", {}, 7_000).part([whole])
    assert next(offsets) == read
    assert [one for one, _ in found.unread] == ([] if read == 4 else [whole])
