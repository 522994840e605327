"""Samza's own Java processors and ours in one group: either leads, and no task has two owners."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.chaos.broker_log import batches, overlaps

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.model import TaskMode
from samza_dagster.sandbox import demo_job, load, process, topics
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.launch import container_template
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.report import group_report, troubles
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.rig.java_processor import JavaProcessors, exceptions, runs
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

CHANGES = int(os.environ.get("CHANGES", "2"))
"""`make test-beside-java` has 10, of a group of two each."""
IDS = ("p1", "j1", "p2", "j2")[: 2 if CHANGES == 2 else 4]
SESSION_MS = round(2_000 * PACE)
AGREED_WITHIN_S = 60 * PACE


class MixedGroup:
    """Processors of the demo job: `j1`, `j2`, … are Samza's, `p1`, `p2`, … ours, each at a location of its own."""

    def __init__(self, directory: Path, servers: str, zookeeper: str) -> None:
        config = {
            **demo_job.job_config(servers),
            "job.coordinator.zk.connect": zookeeper,
            "job.coordinator.zk.session.timeout.ms": str(SESSION_MS),
            "job.debounce.time.ms": "1000",
            "job.coordinator.zk.consensus.timeout.ms": str(round(20_000 * PACE)),
        }
        self._directory = directory
        self._config = directory / "job.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        self._launch = directory / "launch.json"
        container_template().write(self._launch)
        self._java = JavaProcessors(self._config, directory)
        self._session = connect(ZooKeeperAddress(zookeeper))
        self._group = ZooKeeperGroup(self._session, GroupPaths.of(config), lambda: None)
        self._running: dict[str, ProcessRecord] = {}

    def start(self, processor_id: str) -> None:
        own, log = self._directory / processor_id, self._log(processor_id)
        if processor_id.startswith("j"):
            record = self._java.start(processor_id, own, log)
        else:
            command = [
                *("/usr/bin/env", f"LOCATION=host-{processor_id}", sys.executable),
                *("-m", "samza_dagster.cli.main", "processor", "run"),
                *("--config", str(self._config), "--launch", str(self._launch)),
                *("--processor-id", processor_id, "--location", "env:LOCATION"),
                *("--directory", str(own)),
            ]
            record = process.spawn(processor_id, command, log=log)
        self._running[processor_id] = record

    def end(self, processor_id: str, how: signal.Signals) -> None:
        record = self._running.pop(processor_id)
        record.send(how)
        assert record.wait(60 * PACE)

    def wait_for(self, *ids: str) -> GroupView:
        """Until these are registered in this order, and all have agreed on a version for them and run it.

        A version that comes while a container of Samza's starts ends its processor (`StreamProcessor`).
        """

        def agreed() -> GroupView | None:
            with suppress(Unreachable):
                view = self._group.view(None)
                registered = tuple(member.processor_id for member in view.members)
                if view.model is None or view.version != view.agreed or registered != ids:
                    return None
                is_run = all(
                    runs(self._log(each), view.version) for each in ids if each.startswith("j")
                )
                return view if is_run and set(view.model.containers) == set(ids) else None
            return None

        try:
            return until(f"an agreed version of {ids}", agreed, seconds=AGREED_WITHIN_S)
        except AssertionError as error:
            for processor_id in self._running:
                error.add_note(process.log_tail(self._log(processor_id), 6))
            raise

    def exceptions(self) -> list[str]:
        """Of all of Samza's own."""
        logs = sorted(self._directory.glob("j*.log"))
        return [line for log in logs for line in exceptions(log)]

    def close(self) -> None:
        for processor_id, record in list(self._running.items()):
            record.send(signal.SIGKILL if processor_id.startswith("j") else signal.SIGTERM)
        for record in self._running.values():
            record.stop(grace_s=60.0)
        self._session.stop()
        self._session.close()

    def _log(self, processor_id: str) -> Path:
        return self._directory / f"{processor_id}.log"


def judged(view: GroupView) -> None:
    """Each task is active once; there are standbys where one of ours leads, and it is said where none does."""
    assert view.model is not None
    assert view.leader is not None
    tasks = [task for each in view.model.containers.values() for task in each.tasks.values()]
    actives = sorted(each.task_name for each in tasks if each.task_mode is TaskMode.ACTIVE)
    assert actives == [f"Partition {number}" for number in range(4)]
    leads = view.leader.holds_standbys
    assert leads == view.leader.processor_id.startswith("p")
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
        topics.create_topics(servers, demo_job.topics())
        plan = LoadPlan.for_state(0.2, actives=2, rate=200)
        load.fill(servers, plan)
        group, judge, stop = (
            MixedGroup(tmp_path, servers, zookeeper.hosts),
            Judge(servers),
            threading.Event(),
        )
        sender = threading.Thread(
            target=load.steady,
            args=(load.Sender(servers, plan), plan, tmp_path / "position.json", stop),
        )
        sender.start()
        order = list(IDS)
        try:
            for number, each in enumerate(IDS):
                group.start(each)
                judged(group.wait_for(*IDS[: number + 1]))
            for change in range(CHANGES):
                leader = order.pop(0)
                is_planned = leader.startswith("p") and change % 4 == 0
                group.end(leader, signal.SIGTERM if is_planned else signal.SIGKILL)
                judged(group.wait_for(*order))
                if change + 1 < CHANGES:
                    order.append(leader)
                    group.start(leader)
                    judged(group.wait_for(*order))
            stop.set()
            sender.join()
            verdict = judge.judge(deadline_s=120 * PACE)
            assert (verdict.missing, verdict.unexplained) == (0, 0)
            assert group.exceptions() == []
        finally:
            stop.set()
            sender.join()
            judge.close()
            group.close()
        data, topic = broker.directory / "data", demo_job.CHANGELOG_TOPIC
        logs = {number: batches(data, topic, number) for number in range(4)}
    assert all(len({each.producer_id for each in log}) > CHANGES / 2 for log in logs.values())
    assert [each for number, log in logs.items() for each in overlaps(topic, number, log)] == []
