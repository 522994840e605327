"""Standalone processors with real Samza containers, real Kafka and ZooKeeper: one dies, its standbys' processors go on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.sandbox import demo_job, load
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from tests.rig.pace import PACE
from tests.rig.processor_group import ProcessorGroup

pytestmark = pytest.mark.integration

IDS = ("p1", "p2", "p3")


def test_a_killed_processors_tasks_go_to_where_their_standbys_are(tmp_path: Path) -> None:
    """Within session time-out and 6 s, twice that allowed here; nothing is missing; then it comes back."""
    with (
        Broker(tmp_path / "broker") as broker,
        ZooKeeperServer(tmp_path / "zookeeper") as zookeeper,
    ):
        servers = broker.bootstrap_servers
        ensure_topics(KafkaCluster(servers), demo_job.streams())
        plan = LoadPlan.for_state(1.0, actives=2)
        load.fill(servers, plan)
        group, judge = ProcessorGroup(tmp_path, broker, zookeeper), Judge(servers)
        try:
            for pid in IDS:
                group.start(pid)
            before = group.wait_for(*IDS, within_s=60)
            actives = {task for task in before if not task.startswith("Standby-")}
            assert len(actives) == 4
            assert len(before) == 8
            assert judge.judge(deadline_s=120 * PACE).missing == 0
            for task in actives:
                standby = before[f"Standby-{task}-0"]
                assert standby != before[task]

            assert group.status()["troubles"] == []

            died_at = time.monotonic()
            group.processes["p1"].send(signal.SIGKILL)
            after = group.wait_for("p2", "p3", within_s=30)
            agreed_s = time.monotonic() - died_at
            for task in actives:
                warm = {before[task], before[f"Standby-{task}-0"]} - {"p1"}
                assert after[task] in warm, "an active starts where its state is"
            load.fill(servers, LoadPlan(plan.keys, plan.partitions, seed=2))
            verdict = judge.judge(deadline_s=120 * PACE)
            assert (verdict.missing, verdict.unexplained) == (0, 0)
            print(f"agreed {agreed_s:.1f} s after the death")

            group.start("p1")
            again = group.wait_for(*IDS, within_s=60)
            assert {task for task in again if again[task] == "p1"}
        finally:
            judge.close()
            group.end()
    assert not any(record.is_group_alive for record in group.processes.values())
