"""A task without a changelog tells its downtime by its commits."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from samza_dagster.client.access import JobAccess
from samza_dagster.coordinator.shadow.work import Downtime, TopicWork
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.naming import checkpoint_topic
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.unit


class Commits:
    """A checkpoint topic: task and time of each commit, and what can't be read of it."""

    def __init__(self, *commits: tuple[str, int], unread: bool = False) -> None:
        self.commits = commits
        self.unread = unread

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        assert topic == checkpoint_topic("job", "1")
        yield TopicRecord(b"no key of a checkpoint", b"{}", 105_500)
        for task, at_ms in self.commits:
            key = json.dumps({"taskName": task, "type": "checkpoint-v2"}).encode()
            yield TopicRecord(key, b"{}", at_ms)
        if self.unread:
            yield Unreachable(f"read topic {topic}", seen="it has no leader")

    def work(self) -> TopicWork:
        access = JobAccess(MemoryMetadataStore(), "job", topics=self)  # type: ignore[arg-type]
        return TopicWork(access, KafkaCluster("localhost:1"))


def test_the_last_commit_before_and_the_first_one_after_of_each_task() -> None:
    commits = Commits(
        *(("P 0", 90_000), ("P 0", 100_000), ("P 0", 109_000), ("P 0", 114_000)),
        *(("P 2", 101_000), ("P 2", 112_000), ("P 9", 105_000)),
    )
    found = commits.work().around({"P 0": (), "P 2": ()}, 105_000)
    assert found == Downtime("commits", 101_000, 112_000, 11.0)


def test_a_task_that_has_not_committed_since_does_not_work_yet() -> None:
    commits = Commits(("P 0", 100_000), ("P 0", 109_000), ("P 2", 101_000))
    found = commits.work().around({"P 0": (), "P 2": ()}, 105_000)
    assert found == Downtime("commits", 101_000, None, None)


def test_commits_that_cannot_be_read_tell_nothing() -> None:
    with pytest.raises(Unreachable):
        Commits(("P 0", 100_000), unread=True).work().around({"P 0": ()}, 105_000)
