"""The newest readiness of standbys on a real broker: one writer's records, any client's tenth of a second."""

from __future__ import annotations

import time
import uuid

import pytest

from samza_dagster.lag import (
    Judgement,
    Pace,
    StandbyStatus,
    newest_readiness,
    published,
)
from samza_dagster.metadata import Connection, KafkaCluster
from samza_dagster.metadata.job_topics import KafkaJobTopics
from samza_dagster.metadata.lag_topic import publish_fleet
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.metadata.topics import topic_config
from samza_dagster.model.naming import lag_topic
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract

STANDBYS, PARTS = 50, 8


def records(apply_per_s: float) -> list[tuple[bytes, bytes | None]]:
    """A job's, of eight store partitions each."""
    pace = Pace(apply_per_s, 100, 10, 11, 60_000)
    paces = {(f"Standby-Partition {n}-0", "orders", n): pace for n in range(PARTS)}
    ready = Judgement(StandbyStatus.READY, "", 0.1)
    return [published(f"{n}-0", ready, paces, 1_000, 60_000) for n in range(STANDBYS)]


def test_what_is_published_last_is_read_in_a_tenth_of_a_second(cluster: KafkaCluster) -> None:
    """The topic is compacted, so that it stays as short as the job has standbys."""
    connection = Connection(cluster.bootstrap_servers, f"job-{uuid.uuid4().hex[:8]}", "1")
    job = connection.job_name, "1"
    name = lag_topic(*job)
    for apply_per_s in (500, 700):
        assert publish_fleet(connection, {job: records(apply_per_s)}) == {}
    assert publish_fleet(connection, {job: [(b"3-0", None)]}) == {}
    config = topic_config(cluster, name, 10)
    assert config is not None
    assert config["cleanup.policy"] == "compact"
    topics = KafkaJobTopics(cluster)
    seconds: list[float] = []
    try:
        for _ in range(4):
            began = time.perf_counter()
            told = [one for one in topics.tail(name) if isinstance(one, TopicRecord)]
            newest = newest_readiness([(one.key or b"", one.value) for one in told], 1_000)
            seconds.append(time.perf_counter() - began)
    finally:
        topics.close()
    print(f"read in {min(seconds):.3f} s at best, the first time in {seconds[0]:.3f} s")
    assert len(newest.standbys) == STANDBYS - 1
    assert newest.apply_per_s("7-0") == 700
    assert min(seconds) < 0.1 * PACE
