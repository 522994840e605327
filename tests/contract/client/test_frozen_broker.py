"""A broker that is frozen, and not dead: what is asked ends in time, and says whom it didn't hear."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import ANSWER_S, KafkaJobTopics
from samza_dagster.metadata.topics import retained
from samza_dagster.model.naming import checkpoint_topic
from tests.rig.leaderless import FIRST, SECOND, TwoBrokers, two_brokers
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]

LOST = 3
"""The partition of the changelog that the frozen broker leads."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with two_brokers(tmp_path_factory.mktemp("brokers")) as both:
        both.create("log-frozen", [FIRST, FIRST, FIRST, SECOND])
        both.create("half", [FIRST, SECOND], retained(3_600_000))
        for topic in ("__samza_coordinator_frozen_1", checkpoint_topic("frozen", "1")):
            both.create(topic, [FIRST])
        both.create("metrics-frozen", [FIRST], retained(3_600_000))
        yield both


def test_what_is_asked_of_a_frozen_broker_ends_in_time_and_the_rest_is_told(
    brokers: TwoBrokers, job_named: Callable[[str, str], Any]
) -> None:
    """At once each question waits for one answer alone, not for one a partition.

    Any broker may be asked what there is: so nothing at all may be known, and it says so, until
    the controller has missed the frozen one. Then only what that one led is unknown.
    """
    job = job_named(brokers.servers, "frozen")
    for partition in range(4):
        job.produce(job.changelog, [(b"k", b"v")] * 10, partition)
    topics = KafkaJobTopics(brokers.cluster)
    assert len(topics.offset_ranges({job.changelog})) == 4
    with brokers.second_frozen():
        began = time.monotonic()
        with suppress(Unreachable):
            list(topics.tail("half", 60_000))
        with suppress(Unreachable):
            topics.offset_ranges({job.changelog})
        assert time.monotonic() - began < 7 * ANSWER_S * PACE
        began = time.monotonic()
        code, _ = job.cli("lag")
        assert code == 4
        assert time.monotonic() - began < 7 * ANSWER_S * PACE

        def rows() -> list[dict[str, Any]]:
            return job.cli("lag")[1].get("replicas", [])

        until("what the other broker leads is told", lambda: len(rows()) == 8, seconds=60)
        for row in rows():
            is_lost = row["partition"] == LOST
            assert (f"{job.changelog}-{LOST}" in (row["reason"] or "")) == is_lost, row
            assert (row["end_offset"] is None) == is_lost, row
    topics.close()
