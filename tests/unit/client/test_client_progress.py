"""SUCCEEDED means launched; processing means that input offsets grow in commits after it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.checkpoints import Checkpoint, parse_checkpoint, task_progress
from samza_dagster.errors import InvalidInput
from samza_dagster.model.naming import checkpoint_topic

pytestmark = pytest.mark.unit

FIRST, SECOND = 1_795_264_708_960, 1_795_264_713_970


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


def test_no_commit_since_is_no_progress(committing: Any) -> None:
    """The newest commit is older than the moment asked about."""
    progress = committing.client().processing("0", SECOND)
    assert not progress.processing
    assert progress.tasks[0].checkpoint_at_ms == 1_795_264_713_939


def test_commits_without_new_input_are_no_progress() -> None:
    """A container that only repeats its offsets doesn't process."""
    commits = [Checkpoint("t", at, {"k.in.0": 5}) for at in (10, 20, 30)]
    assert not task_progress("t", commits, 15).advanced


def test_growth_between_two_commits_since_is_progress() -> None:
    """When compaction took the older ones."""
    commits = [Checkpoint("t", 20, {"k.in.0": 5}), Checkpoint("t", 30, {"k.in.0": 6})]
    assert task_progress("t", commits, 15).advanced
    assert not task_progress("t", commits[:1], 15).advanced


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


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"{}"), (b"{}", None), (b"{", b"{}"), (b"{}", b"[]"), (b'{"taskName":"t"}', b"{}")],
)
def test_other_records_are_skipped(key: bytes | None, value: bytes | None) -> None:
    """A checkpoint topic also holds the change log mapping of old versions."""
    assert parse_checkpoint(key, value, 1) is None


KEY = json.dumps({"taskName": "t", "type": "checkpoint-v2"}).encode()


@pytest.mark.parametrize("deep", [b"[" * 50_000, b'{"a":' * 50_000])
def test_a_checkpoint_deeper_than_any_stack_ends_no_look(deep: bytes) -> None:
    """Whoever may write to the topic can write it: it is no checkpoint."""
    assert parse_checkpoint(deep, b"{}", 1) is None
    assert parse_checkpoint(KEY, deep, 1) is None


@pytest.mark.parametrize("offset", ["²", "9" * 5000, 10**400, float("inf"), -1, True, None])
def test_an_offset_that_no_topic_has_costs_itself_alone(offset: Any) -> None:
    """The other partitions of that commit count."""
    body = {"input-offsets": {"k.in.0": "5", "k.in.1": offset}}
    checkpoint = parse_checkpoint(KEY, json.dumps(body).encode(), 1)
    assert checkpoint is not None
    assert checkpoint.input_offsets == {"k.in.0": 5}


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_checkpoint_or_none(key: bytes, value: bytes) -> None:
    """Never an exception, whichever half of the record it is in."""
    parse_checkpoint(key, value, 1)
    parse_checkpoint(KEY, value, 1)
