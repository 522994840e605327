"""Standalone processors as processes, each on a host of its own, over a real ZooKeeper and broker.

What ZooKeeper, the broker's log and an independent consumer say of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from samza_dagster.agent.incarnation import HostedIncarnation, load_all
from samza_dagster.errors import Unreachable
from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connect
from samza_dagster.model import naming
from samza_dagster.sandbox import broker_log, demo_job, load, process
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.hosts import SimulatedHost, stop_hosts
from samza_dagster.sandbox.launch import config_and_template
from samza_dagster.sandbox.load_plan import LoadPlan
from samza_dagster.sandbox.logins import LoginFiles
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.standalone import SESSION_MS, TIMES, ProcessorFiles
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.rig.waiting import until

SESSION_S = SESSION_MS / 1_000


class ProcessorGroup:
    """The demo's job as processors `p1`, `p2`, … on `host-p1`, …; of each id the newest process.

    `is_fenced`: by a broker that has an authorizer.
    """

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        server: ZooKeeperServer,
        *,
        is_fenced: bool = False,
        probe_ms: int = 600_000,
    ) -> None:
        self.broker = broker
        self.server = server
        self.directory = directory
        logins = LoginFiles(directory / "logins")
        config = {
            **demo_job.job_config(
                broker.job_servers,
                logins=logins.create(broker) if is_fenced else None,
            ),
            **TIMES,
            "job.coordinator.zk.connect": server.hosts,
            "samza.dagster.standalone.probe.ms": str(probe_ms),
        }
        self.paths = GroupPaths.of(config)
        self.files = ProcessorFiles(directory, logins)
        self.files.write(*config_and_template(config))
        self.session: ZooKeeper = connect(ZooKeeperAddress(server.hosts))
        self._group = ZooKeeperGroup(self.session, self.paths, lambda: None)
        self.processes: dict[str, ProcessRecord] = {}
        self._started: list[ProcessRecord] = []

    def host(self, processor_id: str) -> SimulatedHost:
        """Where a processor has its records and stores."""
        return SimulatedHost(f"host-{processor_id}", self.directory / processor_id)

    def start(self, processor_id: str, *, zookeeper: str = "") -> ProcessRecord:
        """On its host; `zookeeper` is another address of the server, as of a proxy."""
        host = self.host(processor_id)
        record = self.files.start(
            processor_id, host, zookeeper=zookeeper, on_spawn=self._started.append
        )
        self.processes[processor_id] = record
        return record

    def start_beside(self, processor_id: str, host: str) -> ProcessRecord:
        """A second process of that id, elsewhere."""
        where = SimulatedHost(host, self.directory / host)
        return self.files.start(processor_id, where, on_spawn=self._started.append)

    def view(self) -> GroupView:
        """As ZooKeeper has the group; an empty one while it is away."""
        with suppress(Unreachable):
            return self._group.view(None)
        return GroupView()

    def leader(self) -> str:
        """Its processor id."""
        leader = self.view().leader
        assert leader is not None
        return leader.processor_id

    def status(self) -> dict[str, Any]:
        """What the command says of the group, which the environment names as for every other command."""
        command = [sys.executable, "-m", "samza_dagster.cli.main", "processor", "status", "--json"]
        named = demo_job.environment(self.broker.job_servers, zookeeper=self.server.hosts)
        done = subprocess.run(command, env={**os.environ, **named}, capture_output=True, check=True)
        return json.loads(done.stdout)

    def wait_for(self, *ids: str, within_s: float, after_version: int = 0) -> dict[str, str]:
        """Task → processor, once exactly these run all tasks by an agreed version, and a later one than that."""

        def task_places() -> dict[str, str] | None:
            view = self.view()
            if view.model is None or not after_version < view.agreed == view.version:
                return None
            registered = {member.processor_id for member in view.members}
            if not set(view.model.containers) == registered == set(ids):
                return None
            containers = view.model.containers
            return {name: pid for pid, each in containers.items() for name in each.tasks}

        try:
            return until(f"an agreed version of {ids}", task_places, seconds=within_s)
        except AssertionError as error:
            error.add_note(self.tails())
            raise

    def wait_until_settled(self, *, within_s: float) -> dict[str, str]:
        """Task → processor, once each says that it runs what the agreed version gives it."""

        def task_places() -> dict[str, str] | None:
            view = self.view()
            are_there = all(
                (said := view.running.get(each.sequence)) is not None
                and said.version == view.agreed
                for each in view.members
            )
            if view.model is None or view.agreed != view.version or not are_there:
                return None
            return {t: pid for pid, each in view.model.containers.items() for t in each.tasks}

        return until("all run what they are to", task_places, seconds=within_s)

    def incarnations(self, processor_id: str) -> list[HostedIncarnation]:
        """Those whose containers live, the parked ones not."""
        return [
            each
            for each in load_all(self.host(processor_id).directory)
            if each.read_processes()
            and each.container
            and not (each.parked or each.container.is_dead())
        ]

    def active_processes(self) -> dict[str, int]:
        """Active task → process id of its container, by the containers' records."""
        return {
            directory.rpartition("/")[2].replace("_", " "): each.container.name.pid
            for pid in self.processes
            for each in self.incarnations(pid)
            if each.container and not naming.is_standby(each.processor_id)
            for directory in each.store_directories
        }

    def two_owners(self) -> list[broker_log.Overlap]:
        """Each return of a task's former owner to its changelog, by the broker's own log."""
        topic, data = demo_job.CHANGELOG_TOPIC, self.broker.directory / "data"
        return [
            found
            for number in range(2 * demo_job.TASKS_PER_CONTAINER)
            for found in broker_log.overlaps(topic, number, broker_log.batches(data, topic, number))
        ]

    def tails(self) -> str:
        """The ends of the processors' logs."""
        return "\n".join(process.log_tail(self.files.log_of(pid), 6) for pid in self.processes)

    def stop(self) -> None:
        """Ends every processor that was started here."""
        for record in self._started:
            record.send(signal.SIGCONT)
        process.stop_all(self._started, grace_s=60.0)

    def end(self) -> None:
        """Ends all that was started here, and what killed ones left."""
        self.stop()
        stop_hosts(tuple(map(self.host, self.processes)))
        self.session.stop()
        self.session.close()


@contextmanager
def fenced_group(
    directory: Path, *, has_load: bool = False, probe_ms: int = 600_000
) -> Generator[ProcessorGroup]:
    """One without a processor yet, its servers and its filled input; `has_load`: input goes on coming."""
    with (
        Broker(directory / "broker", authorizer=True) as broker,
        ZooKeeperServer(directory / "zookeeper") as server,
    ):
        servers, plan = broker.bootstrap_servers, LoadPlan.for_state(1.0, actives=2)
        ensure_topics(KafkaCluster(servers), demo_job.streams())
        load.fill(servers, plan)
        group = ProcessorGroup(directory, broker, server, is_fenced=True, probe_ms=probe_ms)
        streams = [load.start(servers, plan, directory)] if has_load else []
        try:
            yield group
        finally:
            process.stop_all(streams)
            group.end()
    assert not any(record.is_group_alive for record in group.processes.values())
