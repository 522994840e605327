"""Whoever keeps a client that librdkafka left without brokers goes on with a new one."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange
from samza_dagster.metadata.topics import retained
from tests.rig.broker_list import LOST_FOR_GOOD, BrokerList
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Three partitions, of which 2 stays empty."""
    name = f"lost-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, name, partitions=3, config=retained(-1))
    return name


class Clock:
    """The monotonic clock, `ahead_s` later."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


def write(cluster: KafkaCluster, topic: str, *numbers: int) -> None:
    """Each number to the partition of its tens."""
    producer = cluster.producer()
    for number in numbers:
        producer.produce(topic, value=str(number).encode(), partition=number // 10)
    assert producer.flush(10) == 0


def seen_until(look: Callable[[], list[int]], last: int) -> list[int]:
    seen: list[int] = []
    deadline = time.monotonic() + 20 * PACE
    while last not in seen and time.monotonic() < deadline:
        seen += look()
    return seen


def test_a_followed_topic_goes_on_where_it_was(
    brokers: BrokerList, cluster: KafkaCluster, topic: str
) -> None:
    """Without it, nothing came for ever. Partition 2 gives its first record after the loss."""
    clock = Clock()
    followed = FollowedTopic(KafkaCluster(brokers.servers, LOST_FOR_GOOD), topic, monotonic=clock)

    def numbers() -> list[int]:
        return [int(record.value or b"-1") for record in followed.new_records()]

    with closing(followed):
        assert numbers() == []
        write(cluster, topic, 1, 2)
        assert seen_until(numbers, 2) == [1, 2]
        write(cluster, topic, 11)
        assert seen_until(numbers, 11) == [11]
        write(cluster, topic, 3)
        assert seen_until(numbers, 3) == [3]
        brokers.lose()
        write(cluster, topic, 4, 12, 21)
        assert numbers() == []
        clock.ahead_s += 10
        with pytest.raises(Unreachable, match=topic):
            followed.new_records()
        write(cluster, topic, 5)
        assert sorted(seen_until(numbers, 5)) == [4, 5, 12, 21]
        assert numbers() == []


def test_a_silence_that_the_brokers_explain_changes_nothing(
    brokers: BrokerList, cluster: KafkaCluster, topic: str
) -> None:
    """The client is kept; one that hears of no broker then is given up at once."""
    clock = Clock()
    followed = FollowedTopic(KafkaCluster(brokers.servers, LOST_FOR_GOOD), topic, monotonic=clock)
    with closing(followed):
        assert followed.new_records() == []
        consumer = followed._consumer
        clock.ahead_s += 10
        assert followed.new_records() == []
        assert followed._consumer is consumer
        clock.ahead_s += 10
        with brokers.empty(), pytest.raises(Unreachable, match=topic):
            followed.new_records()
        write(cluster, topic, 1)
        deadline = time.monotonic() + 20 * PACE
        values: list[bytes | None] = []
        while not values and time.monotonic() < deadline:
            values += [record.value for record in followed.new_records()]
        assert values == [b"1"]


def test_the_ends_of_topics_are_told_by_a_new_client_in_the_same_call(
    brokers: BrokerList, cluster: KafkaCluster, topic: str
) -> None:
    """The admin client was kept before for as long as its user lived."""
    from confluent_kafka import KafkaException

    write(cluster, topic, 1)
    there = {
        (topic, 0): OffsetRange(0, 1),
        (topic, 1): OffsetRange(0, 0),
        (topic, 2): OffsetRange(0, 0),
    }
    with closing(KafkaJobTopics(KafkaCluster(brokers.servers, LOST_FOR_GOOD))) as topics:
        assert topics.offset_ranges({topic}) == there
        with brokers.empty() as told:
            with topics._admin.use() as admin, suppress(KafkaException):
                assert not admin.list_topics(topic, timeout=10).brokers
            assert told.is_set()
        assert topics.offset_ranges({topic}) == there
        assert [record.value for record in topics.tail(topic)] == [b"1"]
