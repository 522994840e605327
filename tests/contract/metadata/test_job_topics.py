"""The tail of a topic of several partitions: up to where each ended, and no further."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange

pytestmark = pytest.mark.contract


@pytest.fixture
def topics(cluster: KafkaCluster) -> Iterator[KafkaJobTopics]:
    made = KafkaJobTopics(cluster)
    yield made
    made.close()


def test_a_tail_is_what_was_committed_since_in_every_partition(
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

    def tail(since_ms: int) -> list[bytes]:
        return sorted(r.value or b"" for r in topics.tail(topic, since_ms))

    assert tail(0) == [b"0/1", b"0/2", b"1/1", b"1/2"]
    assert tail(now_ms - 30_000) == [b"0/2", b"1/2"]
    assert tail(now_ms + 3_600_000) == []
    assert topics.offset_ranges({topic})[topic, 3] == OffsetRange(0, 0)
    assert list(topics.tail(f"no-{topic}", 0)) == []
    producer.abort_transaction(10)
