"""Clients that librdkafka leaves without any broker, for good, are replaced by new ones."""

from __future__ import annotations

import uuid
from collections.abc import Generator

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from tests.rig.broker_list import LOST_FOR_GOOD, BrokerList

pytestmark = pytest.mark.contract


@pytest.fixture
def brokers(bootstrap_servers: str) -> Generator[BrokerList]:
    with BrokerList(bootstrap_servers) as brokers:
        yield brokers


def test_a_client_that_heard_of_no_broker_is_lost_for_good(
    brokers: BrokerList, bootstrap_servers: str
) -> None:
    """What the other tests rest on: without help it stays so, with all brokers there."""
    from confluent_kafka import KafkaException

    topic = f"lost-{uuid.uuid4().hex[:12]}"
    ensure_topic(KafkaCluster(bootstrap_servers), topic)
    reader = KafkaCluster(brokers.servers, LOST_FOR_GOOD).reader(committed_only=False)
    try:
        assert reader.list_topics(topic, timeout=10).brokers
        with brokers.empty():
            assert not reader.list_topics(topic, timeout=10).brokers
        with pytest.raises(KafkaException, match="transport failure"):
            reader.list_topics(topic, timeout=5)
    finally:
        reader.close()
