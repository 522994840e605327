"""Judge and load go on after librdkafka left their clients without any broker, for good."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load import Sender, fill, position, steady
from samza_dagster.sandbox.load_plan import LoadPlan
from tests.integration.sandbox.conftest import put_out
from tests.rig.broker_list import LOST_FOR_GOOD, BrokerList
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

PLAN = LoadPlan(keys=400, partitions=4, rate=200.0, spread_s=0.1)


@pytest.fixture(scope="module")
def servers(broker: Broker) -> str:
    ensure_topics(KafkaCluster(broker.bootstrap_servers), demo_job.streams())
    fill(broker.bootstrap_servers, PLAN)
    return broker.bootstrap_servers


@pytest.fixture
def brokers(servers: str) -> Generator[BrokerList]:
    with BrokerList(servers) as brokers:
        yield brokers


@pytest.mark.realfault
def test_a_judge_goes_on_after_its_client_was_lost(brokers: BrokerList, servers: str) -> None:
    """Once between two judgements, once within one; it reads on from where it stood."""
    put_out(servers, PLAN, range(200))
    with contextlib.closing(Judge(brokers.servers, settings=LOST_FOR_GOOD)) as judge:
        assert judge.judge(deadline_s=2 * PACE).missing == 200
        with brokers.empty(), pytest.raises(Unreachable):
            judge.judge(deadline_s=0)
        put_out(servers, PLAN, range(200, 400))
        verdict = judge.judge(deadline_s=30 * PACE)
        assert verdict.is_good
        with ThreadPoolExecutor() as pool:
            with brokers.empty() as told:
                judged = pool.submit(judge.judge, deadline_s=60 * PACE)
                assert told.wait(20 * PACE)
            verdict = judged.result()
        assert verdict.is_good
        assert (verdict.inputs, verdict.outputs, verdict.duplicates) == (800, 400, 0)


@pytest.mark.realfault
def test_a_load_goes_on_after_its_producer_was_lost(
    brokers: BrokerList, servers: str, tmp_path: Path
) -> None:
    """What it had sent to nobody arrives, too."""
    often = {**LOST_FOR_GOOD, "topic.metadata.refresh.interval.ms": 100}
    file, stop = tmp_path / "load.json", threading.Event()
    sender = Sender(brokers.servers, PLAN, silent_s=2 * PACE, settings=often)
    with ThreadPoolExecutor() as pool, contextlib.closing(sender):
        sent = pool.submit(steady, sender, PLAN, file, stop)
        try:
            until("the load runs", lambda: position(file) > 0)
            with brokers.empty() as told:
                assert told.wait(20 * PACE)
            at = position(file)
            until("the load goes on", lambda: position(file) > at + 500)
        finally:
            stop.set()
        visits = sent.result()
    with contextlib.closing(Judge(servers)) as judge:
        # Each key's epoch 0, and an epoch of each visit but the last whose parts aren't all due.
        assert judge.judge(deadline_s=2).completed == 400 + visits - PLAN.lag
