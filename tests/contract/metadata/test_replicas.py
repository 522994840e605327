"""How many brokers keep a topic: as many as are wanted, as far as there are any."""

from __future__ import annotations

import json
import logging
import uuid

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.topics import topic_config
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.fixture
def cluster(shared_brokers: Brokers) -> KafkaCluster:
    """Three brokers that give a topic one replica where nobody asks for more, as Kafka is shipped."""
    return KafkaCluster(shared_brokers.bootstrap_servers)


def replicas(cluster: KafkaCluster, topic: str) -> list[int]:
    """The brokers of its first partition, once the broker that is asked knows of it."""

    def known() -> list[int]:
        with cluster.admin() as admin:
            first = admin.list_topics(topic, timeout=10).topics[topic].partitions.get(0)
        return [] if first is None else first.replicas

    return until(f"{topic} has a partition", known)


def test_a_topic_is_kept_by_three_brokers_and_a_write_waits_for_two(cluster: KafkaCluster) -> None:
    topic = f"kept-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic, replicas=3)
    assert sorted(replicas(cluster, topic)) == [1, 2, 3]
    config = topic_config(cluster, topic, 10)
    assert config is not None
    assert (config["min.insync.replicas"], config["cleanup.policy"]) == ("2", "compact")


def test_more_replicas_than_brokers_are_as_many_as_there_are(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"five-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic, replicas=5)
    assert len(replicas(cluster, topic)) == 3
    assert f"topic {topic} has 3 replicas where 5 are wanted" in caplog.text


def test_an_existing_topic_with_fewer_is_named_with_what_mends_it(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"single-{uuid.uuid4().hex[:12]}"
    ensure_topic(cluster, topic)
    (only,) = replicas(cluster, topic)
    caplog.set_level(logging.WARNING)
    assert not ensure_topic(cluster, topic, replicas=3)
    assert f"topic {topic} has 1 replicas where 3 are wanted" in caplog.text
    (planned,) = json.loads(caplog.text[caplog.text.index("{") : caplog.text.rindex("}") + 1])[
        "partitions"
    ]
    assert planned["topic"] == topic
    assert (planned["replicas"][0], sorted(planned["replicas"])) == (only, [1, 2, 3])
