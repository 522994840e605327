"""What doctor says of a job's topics at three brokers, and that its commands mend it."""

from __future__ import annotations

import uuid

import pytest

from samza_dagster.coordinator.diagnosis import topic_findings
from samza_dagster.coordinator.fencing.examination import Condition
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.replicas import ENOUGH, IN_SYNC, WAITED_FOR
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model import naming
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import others, wait_for_all_in_sync, wait_until_named
from tests.rig.kafka_tools import run

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]


@pytest.fixture
def config(shared_brokers: Brokers) -> dict[str, str]:
    """Of a job whose topics were made before anybody asked for replicas: the brokers gave one."""
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    cluster = KafkaCluster(shared_brokers.bootstrap_servers)
    config = {
        "job.name": name,
        "job.default.system": "kafka",
        "stores.s.changelog": f"kafka.{name}-s",
        "stores.s.changelog.replication.factor": "3",
    }
    ensure_topic(cluster, naming.coordinator_stream_topic(name, "1"))
    ensure_topic(cluster, naming.state_topic(name, "1"))
    ensure_topic(cluster, f"{name}-s", partitions=2)
    return config


def not_well(config: dict[str, str], servers: str) -> list[Condition]:
    return [each for each in topic_findings(config, KafkaCluster(servers), None) if not each.ok]


def test_what_doctor_says_of_topics_mends_them(
    shared_brokers: Brokers, config: dict[str, str]
) -> None:
    """First their replicas; then, when these are in sync, that a write waits for two."""
    servers = shared_brokers.bootstrap_servers
    told: list[set[str]] = []
    while found := not_well(config, servers):
        told.append({each.check for each in found})
        assert len(told) < 3, found
        assert len(found) == 3
        for each in found:
            run(each.fix)
    assert told == [{ENOUGH}, {WAITED_FOR}]


def test_a_broker_that_is_away_is_named_by_doctor_until_it_is_back_in_sync(
    shared_brokers: Brokers, config: dict[str, str]
) -> None:
    servers = shared_brokers.bootstrap_servers
    stream = naming.coordinator_stream_topic(config["job.name"], "1")
    for _ in range(2):
        for each in not_well(config, servers):
            run(each.fix)
    wait_for_all_in_sync(shared_brokers, stream)
    broker = shared_brokers.nodes[1]
    left = others(shared_brokers, broker)
    broker.close(grace_s=0.0)
    try:
        wait_until_named(left, broker.node_id, named=False)
        found = not_well(config, left)
        assert {each.check for each in found} == {IN_SYNC}
        assert {each.fix for each in found} == {"start broker 2"}
        assert any(stream in each.seen for each in found)
    finally:
        broker.start()
    wait_for_all_in_sync(shared_brokers, stream, f"{config['job.name']}-s")
