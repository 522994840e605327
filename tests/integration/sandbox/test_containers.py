"""Real Samza containers from our launch template: they restore, process, commit, follow.

One broker, one active, one standby; each test goes on where the one before ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job, kafka_client, process
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.demo.restore import restored_records
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.launch import config_and_template
from samza_dagster.sandbox.load import fill
from samza_dagster.sandbox.load_plan import LoadPlan, Part
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.readiness import near_copies
from samza_dagster.sandbox.warm_up import JobModelServer, ensure_container_archive
from tests.rig.pace import PACE
from tests.rig.replacement import offsets
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

PLAN = LoadPlan(keys=2000, partitions=2)


@dataclass
class Rig:
    """One broker, one coordinator's stand-in for the JobModel, hosts as directories."""

    servers: str
    directory: Path
    server: JobModelServer

    running: list[ProcessRecord] = field(default_factory=list[ProcessRecord])
    starts: int = 0

    def start(self, processor_id: str, host: str) -> tuple[ProcessRecord, Path]:
        """A container on a host; its process and its log."""
        self.starts += 1
        home = self.directory / host
        home.mkdir(exist_ok=True)
        (home / "tmp").mkdir(exist_ok=True)
        (home / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
        _, template = config_and_template({})
        log = self.directory / f"{self.starts}-{processor_id}.log"
        record = process.spawn(
            processor_id,
            [
                part.replace("{agent_dir}", str(home)).replace("{work_dir}", str(home))
                for part in template.command
            ],
            log=log,
            environment={
                "PATH": os.environ["PATH"],
                "SAMZA_CONTAINER_ID": processor_id,
                "SAMZA_COORDINATOR_URL": self.server.url,
                "EXECUTION_ENV_CONTAINER_ID": f"test-{self.starts}",
                "LOGGED_STORE_BASE_DIR": str(home / "state"),
            },
            directory=home,
        )
        self.running.append(record)
        return record, log

    def send(self, epoch: int, parts: range, keys: int = PLAN.keys) -> None:
        """Sends these parts of an epoch for the first `keys` keys."""
        producer = kafka_client.producer(self.servers)
        for key in range(keys):
            for part in parts:
                producer.produce(
                    demo_job.INPUT_TOPIC,
                    key=PLAN.key_text(key),
                    value=Part(key, epoch, part).value,
                    partition=PLAN.partition_of(key),
                )
        assert producer.flush(30) == 0

    def near_copies(self, bound: int = 0) -> tuple[int, ...]:
        """Per partition, hosts whose store lacks at most `bound` records."""
        states = (each / "state" for each in self.directory.glob("host-*"))
        return near_copies(states, self.changelog_ends(), bound)

    def changelog_ends(self) -> tuple[int, ...]:
        """Per partition; each part of a key that is processed moves one."""
        return offsets(self.servers, demo_job.CHANGELOG_TOPIC)


@pytest.fixture(scope="module")
def rig(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    demo_job.make_all(broker.bootstrap_servers, actives=1)
    server = JobModelServer(demo_job.job_model(broker.bootstrap_servers, actives=1, standbys=1))
    ensure_container_archive(tmp_path_factory.mktemp("warm-up"))
    made = Rig(broker.bootstrap_servers, tmp_path_factory.mktemp("hosts"), server)
    yield made
    process.stop_all(made.running)
    server.close()


@pytest.fixture(scope="module")
def judge(rig: Rig) -> Iterator[Judge]:
    made = Judge(rig.servers)
    yield made
    made.close()


def restored(log: Path) -> int:
    """Records that the restore of both tasks read, from the container's own log."""
    return sum(until("both told", lambda: both(log)).values())


def both(log: Path) -> dict[int, int] | None:
    found = restored_records(log.read_text())
    return found if len(found) == 2 else None


def test_an_active_processes_the_fill_and_commits_it(rig: Rig, judge: Judge) -> None:
    """Every key's epoch 0 comes out exactly once; the store's offset is the changelog's end."""
    fill(rig.servers, PLAN)
    rig.start("0", "host-1")
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good
    assert (verdict.completed, verdict.duplicates) == (2000, 0)
    until("the active commits its offset", lambda: rig.near_copies() == (1, 1), seconds=60)


def test_a_standby_applies_the_changelog_on_its_own_host(rig: Rig) -> None:
    """And follows what comes later."""
    rig.start("0-0", "host-2")
    until("the standby applies the fill", lambda: rig.near_copies() == (2, 2), seconds=60)
    before = sum(rig.changelog_ends())
    rig.send(1, range(1))  # half of epoch 1: state that a successor must have
    until("all of it is state", lambda: sum(rig.changelog_ends()) >= before + PLAN.keys, seconds=60)
    until("the standby follows", lambda: rig.near_copies() == (2, 2), seconds=60)


def test_a_successor_on_the_standbys_host_restores_next_to_nothing_and_loses_nothing(
    rig: Rig, judge: Judge
) -> None:
    """SIGKILL the active, stop the standby, start the active on its host: a failover by hand."""
    active, standby = rig.running
    active.send(signal.SIGKILL)
    assert active.wait(5)
    assert standby.stop()
    rig.send(1, range(1, PLAN.parts))
    _, log = rig.start("0", "host-2")
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict
    assert verdict.completed == 4000
    assert restored(log) == 0


def test_a_successor_on_a_cold_host_restores_all_of_it(rig: Rig, judge: Judge) -> None:
    """What the standby spares: every live key is read from the changelog."""
    assert rig.running[-1].stop()
    _, log = rig.start("0", "host-3")
    rig.send(2, range(PLAN.parts), keys=10)
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict
    assert restored(log) >= PLAN.keys
