"""The judge on real topics, with every fault put there by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load import fill
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.topics import create_topics
from tests.rig.pace import PACE

pytestmark = pytest.mark.integration

PLAN = LoadPlan(keys=400, partitions=4)


@pytest.fixture(scope="module")
def servers(broker: Broker) -> str:
    create_topics(broker.bootstrap_servers, demo_job.topics())
    assert fill(broker.bootstrap_servers, PLAN) == 800
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def judge(servers: str) -> Iterator[Judge]:
    made = Judge(servers)
    yield made
    made.close()


def _put_out(servers: str, keys: range, epoch: int = 0) -> None:
    producer = kafka_client.producer(servers)
    for key in keys:
        producer.produce(
            demo_job.OUTPUT_TOPIC,
            key=PLAN.key_text(key),
            value=str(epoch),
            partition=PLAN.partition_of(key),
        )
    assert producer.flush(30) == 0


def test_a_lost_completion_is_found_and_named(servers: str, judge: Judge) -> None:
    """The job put out all but two of what its inputs complete."""
    _put_out(servers, range(398))
    verdict = judge.judge(deadline_s=2)
    assert not verdict.is_good
    assert (verdict.completed, verdict.outputs, verdict.missing) == (400, 398, 2)
    assert "partition 2 key 00000398." in verdict.missing_examples[0]


def test_it_is_good_once_the_late_ones_come(servers: str, judge: Judge) -> None:
    """Read on from where it stood."""
    _put_out(servers, range(398, 400))
    verdict = judge.judge(deadline_s=10 * PACE)
    assert verdict.is_good
    assert verdict.inputs == 800


def test_a_repeated_completion_is_a_duplicate_not_a_fault(servers: str, judge: Judge) -> None:
    """At-least-once processing repeats what it hadn't committed."""
    _put_out(servers, range(5))
    verdict = judge.judge(deadline_s=10 * PACE)
    assert verdict.is_good
    assert verdict.duplicates == 5


def test_a_completion_without_its_parts_is_made_up(servers: str, judge: Judge) -> None:
    """Epoch 7 was never sent."""
    _put_out(servers, range(1), epoch=7)
    verdict = judge.judge(deadline_s=2)
    assert verdict.unexplained == 1
    assert not verdict.is_good
