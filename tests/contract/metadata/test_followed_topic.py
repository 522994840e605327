"""Looking into a topic now and then, on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.topics import retained
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract

BEGIN = 1_795_264_000_000


class Writer:
    """Writes numbers to partitions at given times."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})

    def write(self, number: int, *, partition: int = 0, at_ms: int = BEGIN) -> None:
        self._producer.produce(
            self.topic, value=str(number).encode(), partition=partition, timestamp=at_ms
        )
        assert self._producer.flush(10) == 0


@pytest.fixture
def name() -> str:
    return f"followed-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def followed(cluster: KafkaCluster, name: str) -> Iterator[FollowedTopic]:
    topic = FollowedTopic(cluster, name)
    yield topic
    topic.close()


def numbers(topic: FollowedTopic) -> list[int]:
    return sorted(int(record.value or b"-1") for record in topic.new_records())


def until_there(topic: FollowedTopic, wanted: list[int]) -> None:
    """What was acknowledged arrives; how soon is the broker's affair."""
    seen: list[int] = []
    deadline = time.monotonic() + 10 * PACE
    while len(seen) < len(wanted) and time.monotonic() < deadline:
        seen += numbers(topic)
    assert sorted(seen) == wanted


@pytest.mark.parametrize("ahead_ms", [-150_000, 0, 150_000])
def test_what_came_after_the_first_look_is_seen_whatever_time_it_bears(
    bootstrap_servers: str, cluster: KafkaCluster, name: str, followed: FollowedTopic, ahead_ms: int
) -> None:
    """In every partition, the empty one, too; nothing from before, though its time is later."""
    ensure_topic(cluster, name, partitions=3, config=retained(-1))
    writer = Writer(bootstrap_servers, name)
    now_ms = time.time_ns() // 1_000_000
    writer.write(1, at_ms=now_ms + ahead_ms)
    writer.write(2, partition=1, at_ms=now_ms)
    assert numbers(followed) == []
    for partition in range(3):
        writer.write(10 + partition, partition=partition, at_ms=now_ms - ahead_ms)
    until_there(followed, [10, 11, 12])


def test_a_topic_that_comes_later_is_found(
    bootstrap_servers: str, cluster: KafkaCluster, name: str, followed: FollowedTopic
) -> None:
    """And isn't created by looking for it."""
    assert numbers(followed) == []
    assert not followed.found
    assert ensure_topic(cluster, name, config=retained(-1))
    Writer(bootstrap_servers, name).write(1)
    until_there(followed, [1])
    assert followed.found
