"""Samza's own Java processors and ours in one group: either leads, and no task has two owners."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.coordinator.fencing.principals import KAFKA_FACTORY
from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.model import TaskMode
from samza_dagster.sandbox import demo_job, load, process
from samza_dagster.sandbox.artifacts import class_path
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.group import GroupView
from tests.rig.pace import PACE
from tests.rig.processor_group import ProcessorGroup
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

SETTINGS = {
    "app.runner.class": "org.apache.samza.runtime.LocalApplicationRunner",
    "job.coordinator.factory": "org.apache.samza.zk.ZkJobCoordinatorFactory",
    "task.name.grouper.factory": "org.apache.samza.container.grouper.task.GroupByContainerIdsFactory",
    "job.standbytasks.replication.factor": "1",
    "task.transactional.state.restore.enabled": "false",
}
"""What they need beside the job's config: see `docs/howto/standalone.md`."""
_LOGGED = ("zk", "processor", "container", "storage", "runtime")
_OF_KAFKA = "org.apache.kafka.common.utils.AppInfoParser"
"""It warns, with an exception, of each second client of a JVM that has the name of a first."""


class JavaProcessors:
    """Those of one job's `config`; `directory` has the compiled `main`."""

    def __init__(self, config: Path, directory: Path) -> None:
        self._config = config
        self._java = find_java().program
        self._class_path = f"{class_path('samza')}:{class_path('samza-zookeeper')}:{directory}"
        source = Path(__file__).with_name("JavaProcessor.java")
        compiler = self._java.resolve().with_name("javac")
        subprocess.run([compiler, "-cp", self._class_path, "-d", directory, source], check=True)

    def start(self, processor_id: str, directory: Path, log: Path) -> ProcessRecord:
        """A processor whose stores are below `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        logger = "-Dorg.slf4j.simpleLogger"
        command = [
            *(str(self._java), "-Xmx96m", "-Xms96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"{logger}.showDateTime=true", f"{logger}.dateTimeFormat=HH:mm:ss.SSS"),
            *(f"{logger}.defaultLogLevel=warn", f"{logger}.log.{_OF_KAFKA}=error"),
            *(f"{logger}.log.org.apache.samza.{name}=info" for name in _LOGGED),
            *("-cp", self._class_path, "JavaProcessor", "--config-path", str(self._config)),
        ]
        for key, value in {**SETTINGS, "processor.id": processor_id}.items():
            command += ["--config", f"{key}={value}"]
        return process.spawn(processor_id, command, log=log, directory=directory)


_IN_ITS_STOP = "Commit cleanup did not complete"
"""A container that is stopped while it clears up after a commit warns so, whoever stops it."""


def exceptions(log: Path) -> list[str]:
    """The lines of its log that name an exception or an error, without those of a stack."""
    return [
        line
        for line in log.read_text(errors="replace").splitlines()
        if ("Exception" in line or " ERROR " in line) and _IN_ITS_STOP not in line
    ]


def runs(log: Path, version: int) -> bool:
    """Whether the processor has taken a version up, and the newest container that it began to start runs."""
    text = log.read_text(errors="replace")
    confirmed = text.find(f"new version {version} of the job model got confirmed")
    if confirmed < 0 or text.find("BarrierAction completed", confirmed) < 0:
        return False
    return text.rfind("Starting the container") <= text.rfind("container start notification")


# Samza's own Java processors and ours in one group: either leads, and no task has two owners.

CHANGES = int(os.environ.get("CHANGES", "2"))
"""`make test-beside-java` has 10, of a group of two each."""
IDS = ("p1", "j1", "p2", "j2")[: 2 if CHANGES == 2 else 4]
SESSION_MS = round((3_000 if CHANGES == 2 else 6_000) * PACE)


class MixedGroup(ProcessorGroup):
    """`j1`, `j2`, … are Samza's, on this machine's own host; the others are ours."""

    def __init__(self, directory: Path, broker: Broker, server: ZooKeeperServer) -> None:
        super().__init__(directory, broker, server)
        with self.files.config.open("a") as config:
            config.write(f"job.coordinator.zk.session.timeout.ms={SESSION_MS}\n")
            config.write(f"systems.kafka.samza.factory={KAFKA_FACTORY}\n")
        self._java = JavaProcessors(self.files.config, directory)

    def start(self, processor_id: str, *, zookeeper: str = "") -> ProcessRecord:
        if not is_samzas(processor_id):
            return super().start(processor_id, zookeeper=zookeeper)
        log = self.files.log_of(processor_id)
        self.processes[processor_id] = self._java.start(
            processor_id, self.directory / processor_id, log
        )
        return self.processes[processor_id]

    def wait_until_run(self, *ids: str) -> GroupView:
        """These are registered in this order, have all agreed on a version for them, and run it.

        A version that comes while a container of Samza's starts ends its processor (`StreamProcessor`).
        """

        def running() -> GroupView | None:
            view = self.view()
            in_order = tuple(member.processor_id for member in view.members) == ids
            logs = [self.files.log_of(each) for each in ids if is_samzas(each)]
            return view if in_order and all(runs(log, view.version) for log in logs) else None

        self.wait_for(*ids, within_s=60)
        return until(f"{ids} run what was agreed on", running, seconds=60)

    def end(self) -> None:
        for processor_id, record in self.processes.items():
            if is_samzas(processor_id):
                record.stop(grace_s=0)
        super().end()


def is_samzas(processor_id: str) -> bool:
    return processor_id.startswith("j")


def judged(view: GroupView) -> None:
    """Each task is active once; there are standbys where one of ours leads, and it is said where none does."""
    assert view.model is not None
    assert view.leader is not None
    tasks = [task for each in view.model.containers.values() for task in each.tasks.values()]
    actives = sorted(each.task_name for each in tasks if each.task_mode is TaskMode.ACTIVE)
    assert actives == [f"Partition {number}" for number in range(4)]
    leads = view.leader.holds_standbys
    assert leads != is_samzas(view.leader.processor_id)
    assert (len(tasks) > len(actives)) == (leads and len(view.members) > 1)
    said = [line for line in troubles(group_report(view)) if "leads" in line]
    assert bool(said) != leads


def test_leaders_change_between_samzas_processors_and_ours(tmp_path: Path) -> None:
    """The first to come leads: it is ended, the next one leads, it comes back as the last.

    Ours leave as planned and are killed by turns, Samza's are killed. Under one of ours tasks have standbys,
    under one of Samza's none, which the command says. All inputs are processed, and by the broker's log each
    changelog had one writer after the other.
    """
    with (
        Broker(tmp_path / "broker") as broker,
        ZooKeeperServer(tmp_path / "zookeeper") as zookeeper,
    ):
        servers = broker.bootstrap_servers
        ensure_topics(KafkaCluster(servers), demo_job.streams())
        plan = LoadPlan.for_state(0.2, actives=2, rate=200)
        load.fill(servers, plan)
        group, judge = MixedGroup(tmp_path, broker, zookeeper), Judge(servers)
        stop = threading.Event()
        sender = threading.Thread(
            target=load.steady,
            args=(load.Sender(servers, plan), plan, tmp_path / "position.json", stop),
        )
        sender.start()
        order = list(IDS)
        try:
            for number, each in enumerate(IDS):
                group.start(each)
                judged(group.wait_until_run(*IDS[: number + 1]))
            for change in range(CHANGES):
                leader = order.pop(0)
                is_planned = not is_samzas(leader) and change % 4 == 0
                record = group.processes.pop(leader)
                record.send(signal.SIGTERM if is_planned else signal.SIGKILL)
                assert record.wait(60 * PACE)
                judged(group.wait_until_run(*order))
                if change + 1 < CHANGES:
                    order.append(leader)
                    group.start(leader)
                    judged(group.wait_until_run(*order))
            stop.set()
            sender.join()
            verdict = judge.judge(deadline_s=120 * PACE)
            assert (verdict.missing, verdict.unexplained) == (0, 0)
            assert group.two_owners() == []
            assert [line for log in tmp_path.glob("j*.log") for line in exceptions(log)] == []
        finally:
            stop.set()
            sender.join()
            judge.close()
            group.end()
