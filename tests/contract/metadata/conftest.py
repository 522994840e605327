"""A cluster and a fresh topic for the tests of the metadata room."""

from __future__ import annotations

import uuid
from collections.abc import Generator

import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connected
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from tests.rig.broker_list import BrokerList


@pytest.fixture(scope="session")
def cluster(bootstrap_servers: str) -> KafkaCluster:
    return KafkaCluster(bootstrap_servers)


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """A fresh compacted topic with one partition."""
    name = f"metadata-{uuid.uuid4().hex[:12]}"
    assert ensure_topic(cluster, name)
    return name


@pytest.fixture
def brokers(bootstrap_servers: str) -> Generator[BrokerList]:
    """The level's broker, which can be told to name no brokers."""
    with BrokerList(bootstrap_servers) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Generator[ZooKeeper]:
    """A session with a real ZooKeeper."""
    with (
        ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server,
        connected(ZooKeeperAddress(server.hosts)) as session,
    ):
        yield session
