"""Logins and rules are changed whichever broker died since the last change."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from samza_dagster.metadata.authorizer import ALLOW, AclRule, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import others, wait_until_named

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]


class _Cluster(KafkaCluster):
    """Shows the clients that were made of it."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.made: list[AdminClient] = []

    def admin(self) -> AdminClient:
        self.made.append(super().admin())
        return self.made[-1]


def test_rules_are_changed_though_the_broker_that_a_client_asks_died_since(
    shared_brokers: Brokers,
) -> None:
    """Its controller has fenced it by then, so that the others name it no more: one call is enough."""
    brokers, cluster = shared_brokers, _Cluster(shared_brokers.bootstrap_servers)
    authorizer, who = Authorizer(cluster), f"User:{uuid.uuid4()}"
    try:
        authorizer.require()
        (client,) = cluster.made
        asked = client.list_topics(timeout=10).controller_id
        dead = brokers.nodes[asked - 1]
        dead.close(grace_s=0.0)
        try:
            wait_until_named(others(brokers, dead), asked, named=False)
            authorizer.add_rules([AclRule(who, ALLOW, "READ", "TOPIC", "any")])
            authorizer.remove_rules_of([who])
        finally:
            dead.start()
    finally:
        authorizer.close()
