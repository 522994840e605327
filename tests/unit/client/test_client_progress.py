"""SUCCEEDED means launched; processing means that input offsets grow in commits after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.checkpoints import task_progress
from samza_dagster.errors import InvalidInput
from samza_dagster.model.checkpoints import Checkpoint
from samza_dagster.model.naming import checkpoint_topic

pytestmark = pytest.mark.unit

FIRST, SECOND = 4, 12
"""Behind the first commit of the tasks of 0, and behind the second."""


@pytest.fixture
def committing(job: Any) -> Any:
    job.topics.load(checkpoint_topic("yw", "1"), "checkpoint-tail.jsonl")
    return job


def test_offsets_that_grew_since_are_progress(committing: Any) -> None:
    """Recorded commits: 65694 before, 65719 after."""
    progress = committing.client().processing("0", FIRST)
    assert progress.processing
    task = progress.tasks[0]
    assert (task.task_name, task.checkpoint_at_ms) == ("Partition 0", 1_795_264_713_939)
    assert task.input_offsets == {"kafka.yw-input.0": 65_719}


def test_a_commit_that_cant_be_read_costs_itself_alone(committing: Any) -> None:
    """Anybody may write to the topic."""
    records = committing.topics.records[checkpoint_topic("yw", "1")]
    last = records[-1]
    for key, value in ((b"x", b"{}"), (last.key, b"{"), (last.key, None), (None, b"{}")):
        records.append(replace(last, key=key, value=value, offset=records[-1].offset + 1))
    assert committing.client().processing("0", FIRST).processing


def test_no_commit_since_is_no_progress(committing: Any) -> None:
    """The newest commit is older than the moment asked about."""
    progress = committing.client().processing("0", SECOND)
    assert not progress.processing
    assert progress.tasks[0].checkpoint_at_ms == 1_795_264_713_939


@pytest.mark.parametrize("skew_ms", [-150_000, 150_000])
def test_commits_of_the_old_incarnation_dont_count_whatever_its_hosts_clock_says(
    committing: Any, skew_ms: int
) -> None:
    """A host that is fast by 150 s dates them after the start of the new one."""
    topic = checkpoint_topic("yw", "1")
    records = committing.topics.records[topic]
    records[:] = [replace(r, timestamp_ms=r.timestamp_ms + skew_ms) for r in records]
    client = committing.client()
    assert not client.processing("0", client.checkpoints_end()).processing


@pytest.mark.parametrize("skew_ms", [-150_000, -86_400_000, 150_000, 86_400_000])
def test_a_restart_is_verified_whatever_its_hosts_clock_says(committing: Any, skew_ms: int) -> None:
    """A host that is slow by 150 s dates the first commits of the new one before its start."""
    topic = checkpoint_topic("yw", "1")
    records, client = committing.topics.records[topic], committing.client()
    written, records[:] = records[4:], records[:4]
    since = client.checkpoints_end()
    records += [replace(r, timestamp_ms=r.timestamp_ms + skew_ms) for r in written]
    progress = client.processing("0", since)
    assert (since, progress.processing, progress.end) == (4, True, 12)


@given(
    offsets=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    since=st.integers(0, 8),
    skews=st.lists(st.integers(-(10**9), 10**9), min_size=8, max_size=8),
)
def test_progress_is_the_same_by_whatever_clocks_commits_are_dated(
    offsets: list[int], since: int, skews: list[int]
) -> None:
    """Each commit may be another host's."""

    def commits(skews: list[int]) -> list[Checkpoint]:
        return [
            Checkpoint("t", 10**12 + n + skews[n], {"k.in.0": read}, offset=n)
            for n, read in enumerate(offsets)
        ]

    told = task_progress("t", commits(skews), since).advanced
    assert told is task_progress("t", commits([0] * 8), since).advanced
    before, after = offsets[:since], offsets[since:]
    assert told is (bool(after) and max(after) > (before[-1] if before else after[0]))


def test_a_task_without_any_commit_has_none() -> None:
    """Not started yet, or its commits are too old to matter."""
    progress = task_progress("t", [Checkpoint("other", 20)], 15)
    assert (progress.checkpoint_at_ms, progress.advanced) == (None, False)


def test_a_standby_is_refused(committing: Any) -> None:
    """It applies the changelog and commits no input; an unknown processor is named too."""
    with pytest.raises(InvalidInput, match="lag"):
        committing.client().processing("0-0", FIRST)
    with pytest.raises(InvalidInput, match="processors 0, 0-0, 1, 1-0"):
        committing.client().processing("9", FIRST)
