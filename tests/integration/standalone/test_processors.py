"""Standalone processors with real Samza containers, real Kafka and ZooKeeper: one dies, its standbys' processors go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connect
from samza_dagster.metadata.zookeeper_store import ZooKeeperMetadataStore
from samza_dagster.model import JobModel
from samza_dagster.sandbox import demo_job, load, process, topics
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.launch import container_template
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone import layout
from samza_dagster.standalone.layout import GroupPaths
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

TIMES = {
    "job.coordinator.zk.session.timeout.ms": "6000",
    "job.debounce.time.ms": "1000",
    "job.coordinator.zk.consensus.timeout.ms": "20000",
}
IDS = ("p1", "p2", "p3")


class Group:
    """Processors as processes, each on a location of its own, and what ZooKeeper says of them."""

    def __init__(self, directory: Path, servers: str, zookeeper: str) -> None:
        config = {**demo_job.job_config(servers), **TIMES}
        self.paths = GroupPaths.of(config)
        self._directory = directory
        self._zookeeper = zookeeper
        self._config = directory / "job.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        self._launch = directory / "launch.json"
        container_template().write(self._launch)
        self.session: ZooKeeper = connect(ZooKeeperAddress(zookeeper))
        self._models = ZooKeeperMetadataStore(self.session, self.paths.models.rpartition("/")[0])
        self.processes: dict[str, ProcessRecord] = {}

    def start(self, processor_id: str) -> None:
        own = self._directory / processor_id
        command = [
            *(sys.executable, "-m", "samza_dagster.cli.main", "processor", "run"),
            *("--config", str(self._config), "--launch", str(self._launch)),
            *("--zookeeper", self._zookeeper, "--processor-id", processor_id),
            *("--location", "env:LOCATION", "--directory", str(own)),
        ]
        command = ["/usr/bin/env", f"LOCATION=host-{processor_id}", *command]
        self.processes[processor_id] = process.spawn(
            processor_id, command, log=self._directory / f"{processor_id}.log"
        )

    def agreed(self) -> JobModel | None:
        """The newest version, when all have agreed on it."""
        if self.session.exists(self.paths.agreed_version) is None:
            return None
        newest = layout.version_of(self.session.get(self.paths.version)[0])
        agreed = layout.version_of(self.session.get(self.paths.agreed_version)[0])
        stored = self._models.get("jobModels", str(agreed)) if newest and newest == agreed else None
        return JobModel.from_json(stored) if stored is not None else None

    def status(self) -> dict[str, Any]:
        """What the command says of the group."""
        command = [
            *(sys.executable, "-m", "samza_dagster.cli.main", "processor", "status", "--json"),
            *("--config", str(self._config), "--zookeeper", self._zookeeper),
        ]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def wait_for(self, *ids: str, within_s: float) -> dict[str, str]:
        """Task → processor, once exactly these run all tasks by an agreed version."""

        def task_places() -> dict[str, str] | None:
            model = self.agreed()
            if model is None or set(model.containers) != set(ids):
                return None
            return {name: pid for pid, each in model.containers.items() for name in each.tasks}

        try:
            return until(f"an agreed version of {ids}", task_places, seconds=within_s)
        except AssertionError as error:
            error.add_note(self.tails())
            raise

    def tails(self) -> str:
        return "\n".join(
            process.log_tail(self._directory / f"{pid}.log", 6) for pid in self.processes
        )

    def end(self) -> None:
        for record in self.processes.values():
            record.send(signal.SIGTERM)
        for record in self.processes.values():
            record.stop(grace_s=60.0)
        self.session.stop()
        self.session.close()


def test_a_killed_processors_tasks_go_to_where_their_standbys_are(tmp_path: Path) -> None:
    """Within session time-out and 6 s, twice that allowed here; nothing is missing; then it comes back."""
    with (
        Broker(tmp_path / "broker") as broker,
        ZooKeeperServer(tmp_path / "zookeeper") as zookeeper,
    ):
        servers = broker.bootstrap_servers
        topics.create_topics(servers, demo_job.topics())
        plan = LoadPlan.for_state(1.0, actives=2)
        load.fill(servers, plan)
        group, judge = Group(tmp_path, servers, zookeeper.hosts), Judge(servers)
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
    assert all(not record.is_group_alive for record in group.processes.values())
