"""Topics of a job that can't be read make their own answers unknown, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from samza_dagster.client import audit_history
from samza_dagster.client.state_source import TopicStateSource
from samza_dagster.errors import InvalidInput, UnknownTopic, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import checkpoint_topic

pytestmark = pytest.mark.unit

TOPIC = "yw-lab-changelog"
COMMITS = checkpoint_topic("yw", "1")


class NoEntries:
    """An audit topic in which nothing stands."""

    def records(self) -> tuple[Any, ...]:
        return ()


@pytest.fixture
def running(job: Any) -> Any:
    """Its standbys report, and its actives commit."""
    job.topics.load("metrics", "metrics-samples.jsonl")
    job.topics.load(COMMITS, "checkpoint-tail.jsonl")
    job.topics.ranges = {(TOPIC, n): OffsetRange(0, 65_900) for n in range(4)}
    return job


def lose(job: Any, lost: str) -> None:
    """The brokers of a topic are frozen: whoever reads it hears nothing."""
    read = job.topics.tail

    def tail(topic: str, *args: Any, **options: Any) -> Iterator[TopicRecord | Unreachable]:
        if topic == lost:
            raise Unreachable(f"read topic {topic}", seen=f"{topic} doesn't answer")
        yield from read(topic, *args, **options)

    job.topics.tail = tail


def test_metrics_that_cant_be_read_leave_what_checkpoints_tell(running: Any) -> None:
    """Nobody is known to be behind or not; each row says why, and the input's lag stands."""
    before = running.client().look()
    lose(running, "metrics")
    look = running.client().look()
    assert {lag.reason for lag in look.lags} == {"metrics doesn't answer"}
    assert len(look.lags) == 8
    assert look.input_lags == before.input_lags
    assert look.unread is None


def test_checkpoints_that_cant_be_read_leave_the_replicas_lags(running: Any) -> None:
    """That of the input isn't 0, nor nobody's: it isn't known."""
    before = running.client().look()
    lose(running, COMMITS)
    look = running.client().look()
    by_commit = [lag.basis == "checkpoint" for lag in before.lags]
    for was, now, unknown in zip(before.lags, look.lags, by_commit, strict=True):
        assert now.reason == (f"{COMMITS} doesn't answer" if unknown else None)
        assert unknown or now == was
    assert any(by_commit)
    assert not all(by_commit)
    assert (look.input_lags, look.unread) == ((), f"{COMMITS} doesn't answer")


@pytest.mark.parametrize("lacks_right", [True, False])
def test_a_state_topic_without_a_right_to_it_isnt_taken_for_none(
    monkeypatch: pytest.MonkeyPatch, lacks_right: bool
) -> None:
    """Samza's AM coordinates a job that has none: of this one it isn't known who does."""
    asked = "read the end of topic s"
    error = InvalidInput(asked, seen="s: not authorized") if lacks_right else UnknownTopic(asked)

    def fail(_self: object) -> None:
        raise error

    monkeypatch.setattr(StateReader, "snapshot", fail)
    state = TopicStateSource(Connection("h:1", "yw"))
    reader = StateReader("h:1", "s")
    history = audit_history.consistent(NoEntries(), lambda: audit_history.head_in(reader))
    if lacks_right:
        with pytest.raises(Unreachable, match="not authorized"):
            state.read()
        assert history.unread == "s: not authorized"
    else:
        assert state.read() is None
        assert history.unread is None
