"""`docs/howto/your-first-job.md`, run as it is written: an empty directory, brokers without a topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.agent.incarnation import load_all
from samza_dagster.metadata.job_topics import KafkaJobTopics, OffsetRange
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from tests.rig.kafka_tools import put_on_path
from tests.rig.pace import PACE
from tests.rig.pages import follow, script, with_one_deployment

pytestmark = pytest.mark.firstjob

WORDS = 1000
LIMIT_S = 300 * PACE


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The user's own. No container of it outlives a page that failed."""
    own = tmp_path / "own"
    own.mkdir()
    yield own
    for records in (*own.glob("agents/*"), *own.glob("processors/*")):
        for incarnation in load_all(records):
            if incarnation.read_processes() and incarnation.warden is not None:
                incarnation.warden.send(9)


def processed(servers: str) -> int:
    """Words in the store's changelog."""
    topics = KafkaJobTopics(KafkaCluster(servers))
    try:
        ranges = topics.offset_ranges(["hello-mystore"]).values()
    finally:
        topics.close()
    return sum(each.end for each in ranges if isinstance(each, OffsetRange))


def test_a_new_job_runs_with_our_coordinator(empty: Broker, directory: Path) -> None:
    servers = empty.bootstrap_servers
    page = script(with_one_deployment("With our coordinator"), {"localhost:9092": servers})
    said = follow(page, directory, put_on_path(directory.parent / "tools"), LIMIT_S)
    assert "hello-mystore (4 partitions, compact)" in said
    assert "SUCCEEDED" in said
    assert processed(servers) >= WORDS  # Samza promises each word at least once, after a move too


def test_a_new_job_runs_as_standalone_processors(empty: Broker, directory: Path) -> None:
    servers = empty.bootstrap_servers
    with ZooKeeperServer(directory.parent / "zookeeper") as zookeeper:
        instead = {"localhost:9092": servers, "localhost:2181": zookeeper.hosts}
        page = script(with_one_deployment("Standalone processors"), instead)
        said = follow(page, directory, put_on_path(directory.parent / "tools"), LIMIT_S)
    assert "SUCCEEDED" in said
    assert processed(servers) >= WORDS
