"""The end of a topic is told whoever leads it, also to a client that knew another leader."""

from __future__ import annotations

import uuid

import pytest

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import leader_of, leaders, others, wait_for_all_in_sync
from tests.rig.waiting import until

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]
DEADLINE_S = 7.0
"""What a client of a job allows."""


def test_an_end_is_told_though_its_leader_died_since_the_last_question(
    shared_brokers: Brokers,
) -> None:
    """Another broker leads by then: one deadline is enough for the first question after that."""
    brokers, topic = shared_brokers, f"end-{uuid.uuid4()}"
    cluster = KafkaCluster(brokers.bootstrap_servers)
    ensure_topic(cluster, topic, replicas=3)
    wait_for_all_in_sync(brokers, topic)
    end = TopicEnd(cluster, topic)
    try:
        assert end.offset(DEADLINE_S) == 0
        dead = leader_of(brokers, topic)
        dead.close(grace_s=0.0)
        try:
            until(
                "another leads",
                lambda: not {dead.node_id, -1} & {*leaders(others(brokers, dead), topic).values()},
            )
            assert end.offset(DEADLINE_S) == 0
        finally:
            dead.start()
    finally:
        end.close()
