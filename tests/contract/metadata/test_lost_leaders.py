"""A leader that is gone while another leads: who asks of many partitions hears of all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import (
    elect_preferred,
    frozen,
    leaders,
    others,
    wait_for_all_in_sync,
)
from tests.rig.waiting import until

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]


@pytest.fixture
def topic(shared_brokers: Brokers) -> Iterator[str]:
    """Of three partitions, of which each broker leads one."""
    name = f"led-{uuid.uuid4().hex[:12]}"
    servers = shared_brokers.bootstrap_servers
    ensure_topic(KafkaCluster(servers), name, partitions=3, replicas=3)

    def led() -> bool:
        elect_preferred(shared_brokers, name)
        return set(leaders(servers, name).values()) == {1, 2, 3}

    until("each leads a partition", led)
    yield name
    wait_for_all_in_sync(shared_brokers, name)


def test_the_ends_of_what_a_frozen_broker_led_are_told_by_who_leads_since(
    shared_brokers: Brokers, topic: str
) -> None:
    """The client knows it as a leader and is connected to it, as a suspended machine leaves it."""
    broker = shared_brokers.nodes[1]
    left = others(shared_brokers, broker)
    with closing(KafkaJobTopics(KafkaCluster(shared_brokers.bootstrap_servers))) as topics:
        assert set(topics.offset_ranges([topic]).values()) == {OffsetRange(0, 0)}
        with frozen(broker):
            until(
                "others lead",
                lambda: broker.node_id not in leaders(left, topic).values(),
                seconds=60,
            )
            found = topics.offset_ranges([topic])
            assert found == {(topic, n): OffsetRange(0, 0) for n in range(3)}
