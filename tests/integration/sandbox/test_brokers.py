"""Three brokers: one cluster that goes on without one of them."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from samza_dagster.metadata import ensure_topic
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.brokers import Brokers
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.broker_cluster import in_sync
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

pytestmark = pytest.mark.integration


@pytest.mark.realfault
def test_what_three_brokers_keep_is_there_while_any_one_is_away_and_comes_back_empty(
    tmp_path: Path,
) -> None:
    """Also Kafka's own topics, of transactions and of groups."""
    with Brokers(tmp_path, 3) as brokers:
        assert [node.node_id for node in brokers.nodes] == [1, 2, 3]
        assert len(brokers.bootstrap_servers.split(",")) == 3
        servers = brokers.bootstrap_servers
        cluster = KafkaCluster(servers)
        assert ensure_topic(cluster, "kept", replicas=3, config={})
        producer = kafka_client.producer(brokers.bootstrap_servers, {"transactional.id": "x"})
        producer.init_transactions(30)

        def commit(value: bytes) -> None:
            producer.begin_transaction()
            producer.produce("kept", value)
            producer.commit_transaction(60)

        commit(b"0")
        for node in brokers.nodes:
            address = node.bootstrap_servers
            node.process.send(signal.SIGKILL)
            assert node.process.wait(10)
            commit(str(node.node_id).encode())
            node.close()
            shutil.rmtree(node.directory / "data")
            node.start()
            assert node.bootstrap_servers == address
            until("all replicas in sync", lambda: in_sync(servers, "kept")[0] == {1, 2, 3})
        judge = Connection(brokers.bootstrap_servers, "any")
        assert records_of(judge, "kept") == [(None, each) for each in (b"0", b"1", b"2", b"3")]
        producer.close()


def test_the_remains_of_three_brokers_are_found_and_ended(tmp_path: Path) -> None:
    """From the sandbox's record alone: each process is on it by a name of its own."""
    box = Sandbox("killed", root=tmp_path)
    brokers = Brokers(box.directory / "broker", 3, on_spawn=box.registry.add).start()
    roles = [each.role for each in box.registry.live()]
    assert roles == ["broker-1", "broker-2", "broker-3"]
    assert Sandbox("killed", root=tmp_path).down() == 3
    assert not any(node.process.is_alive for node in brokers.nodes)
    assert box.status()["state"] == "down"
    assert not list(box.directory.glob("broker/*/data"))
