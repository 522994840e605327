"""The tail of a topic of several partitions: up to where each ended, and no further."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord

pytestmark = pytest.mark.contract


@pytest.fixture
def topics(cluster: KafkaCluster) -> Iterator[KafkaJobTopics]:
    made = KafkaJobTopics(cluster)
    yield made
    made.close()


def test_a_tail_is_what_was_committed_last_in_every_partition(
    cluster: KafkaCluster, topics: KafkaJobTopics
) -> None:
    """An open transaction holds nobody up, also in a partition that has nothing else."""
    topic = f"tail-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic, partitions=4)
    producer = cluster.producer(transactional_id=topic)
    producer.init_transactions(10)
    now_ms = time.time_ns() // 1_000_000
    producer.begin_transaction()
    for partition in (0, 1):
        for number, ago_ms in ((1, 60_000), (2, 0)):
            told = f"{partition}/{number}".encode()
            at_ms = now_ms - ago_ms
            producer.produce(topic, key=b"key", value=told, partition=partition, timestamp=at_ms)
    producer.commit_transaction(10)
    producer.begin_transaction()
    for partition in (0, 2):
        producer.produce(topic, key=b"key", value=b"open", partition=partition)
    producer.flush(10)

    def tail(last_ms: int | None, offset: int | None = None) -> list[bytes]:
        return sorted(r.value or b"" for r in topics.tail(topic, last_ms, offset=offset))

    assert tail(None) == [b"0/1", b"0/2", b"1/1", b"1/2"]
    assert tail(30_000) == [b"0/2", b"1/2"]
    assert tail(30_000, offset=0) == tail(None)
    assert tail(30_000, offset=9) == [b"0/2", b"1/2"]
    assert [r.offset for r in topics.tail(topic) if (r.value or b"")[:1] == b"1"] == [0, 1]
    assert topics.offset_ranges({topic})[topic, 3] == OffsetRange(0, 0)
    assert list(topics.tail(f"no-{topic}", 30_000)) == []
    producer.abort_transaction(10)


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_the_last_are_told_by_the_times_of_each_partition_itself(
    cluster: KafkaCluster, topics: KafkaJobTopics, skew_ms: int
) -> None:
    """Whoever writes to it may have another clock than the reader and than other writers."""
    topic = f"tail-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic, partitions=2, config={})
    producer = cluster.producer()
    now_ms = time.time_ns() // 1_000_000
    for partition, ahead_ms in ((0, 0), (1, skew_ms)):
        for ago_ms in (60_000, 0):
            told, at_ms = f"{partition}/{ago_ms}".encode(), now_ms + ahead_ms - ago_ms
            producer.produce(topic, key=b"key", value=told, partition=partition, timestamp=at_ms)
    producer.flush(10)
    assert sorted(r.value or b"" for r in topics.tail(topic, 30_000)) == [b"0/0", b"1/0"]


@pytest.mark.parametrize("by", ["LogAppendTime", "CreateTime"])
def test_a_record_says_whose_clock_dates_it(
    cluster: KafkaCluster, topics: KafkaJobTopics, by: str
) -> None:
    """The broker's, or its producer's; and where it stands."""
    topic = f"dated-{uuid.uuid4().hex[:12]}"
    ensure_topic(
        cluster, topic, partitions=2, config={"message.timestamp.type": by, "retention.ms": "-1"}
    )
    producer = cluster.producer()
    producer.produce(topic, key=b"key", value=b"old", partition=1, timestamp=1_000)
    producer.flush(10)
    (record,) = topics.tail(topic)
    assert isinstance(record, TopicRecord)
    assert (record.partition, record.offset) == (1, 0)
    assert record.by_broker is (by == "LogAppendTime")
    assert (record.timestamp_ms == 1_000) is (by == "CreateTime")


def test_where_a_partition_stood_at_a_time_is_told_by_its_records(
    cluster: KafkaCluster, topics: KafkaJobTopics
) -> None:
    """For several times of one partition too; nothing where no record is as new, or no partition is there."""
    topic = f"times-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic, partitions=2, config={})
    producer = cluster.producer()
    now_ms = time.time_ns() // 1_000_000
    for number in range(3):
        at_ms = now_ms - 3_000 + number * 1_000
        producer.produce(topic, key=b"key", value=b"x", partition=1, timestamp=at_ms)
    producer.flush(10)
    asked = {(topic, 1, now_ms - ago_ms) for ago_ms in (2_500, 2_000, 0)}
    found = topics.offsets_since(
        {*asked, (topic, 0, now_ms - 9_000), (topic, 7, 0), (topic, 1, -1)}
    )
    told = {(at[1], now_ms - at[2]): offset for at, offset in found.items() if at[2] > 0}
    assert told == {(1, 2_500): 1, (1, 2_000): 1}
    assert found[topic, 1, -1] == 0
