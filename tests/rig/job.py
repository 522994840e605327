"""A job on real parts with a stub in each container's place: broker, coordinator, agents.

Starts in seconds, so that a coordinator can be killed at every command. Everything is
stopped by the process ids that were started here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.sandbox import process
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.hosts import SimulatedHost, host_names, stop_hosts
from samza_dagster.sandbox.registry import Registry
from tests.rig.nursery import Born
from tests.rig.pace import PACE
from tests.rig.running_job import Processors, RunningJob
from tests.rig.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = "samza_dagster.cli.main"
STUB = Path(__file__).with_name("stub_container.py")


def alive(pid: int) -> bool:
    """The kernel's view: the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def runs(processor: Mapping[str, Any]) -> bool:
    """By the coordinator's word and the kernel's."""
    return processor["state"] == "running" and bool(processor["pid"]) and alive(processor["pid"])


def kill(*pids: int) -> None:
    """SIGKILL of each, and their deaths awaited."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # one may die with the one before
            os.kill(pid, signal.SIGKILL)
    until(f"the death of {pids}", lambda: not [pid for pid in pids if alive(pid)])


def parent_of(pid: int) -> int:
    """By the kernel's word."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@dataclass
class Job(RunningJob):
    """One job; `start` brings it up, `close` leaves nothing behind."""

    directory: Path
    bootstrap_servers: str
    name: str
    hosts: int = 4
    actives: int = 2
    standbys: int = 1
    memory_mb: int = 2048
    input_topic: str = "rig-input"
    lease_ms: int = 30_000
    host_timeout_ms: int = 30_000
    options: tuple[str, ...] = ()
    coordinator_module: str = COMMAND
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    job_id: str = "1"

    def __post_init__(self) -> None:
        self.lease_ms = round(self.lease_ms * PACE)
        self.host_timeout_ms = round(self.host_timeout_ms * PACE)
        self.directory = self.directory.absolute()
        self.files = CoordinatorFiles(self.directory)
        self.registry = Registry("processes", root=self.directory)
        self._on(SimulatedHost(name, self.directory / name) for name in host_names(self.hosts))
        self._coordinators: list[subprocess.Popen[bytes] | Born] = []
        self._journal: list[dict[str, Any]] = []
        self._journalled: dict[str, int] = {}
        self.connection = Connection(
            bootstrap_servers=self.bootstrap_servers, job_name=self.name, job_id=self.job_id
        )
        self.properties = {
            "job.name": self.name,
            "job.id": self.job_id,
            "job.default.system": "kafka",
            "job.coordinator.system": "kafka",
            "systems.kafka.samza.factory": "org.apache.samza.system.kafka.KafkaSystemFactory",
            "systems.kafka.consumer.bootstrap.servers": self.bootstrap_servers,
            "systems.kafka.producer.bootstrap.servers": self.bootstrap_servers,
            "task.inputs": f"kafka.{self.input_topic}",
            "job.container.count": str(self.actives),
            "job.standbytasks.replication.factor": str(self.standbys + 1),
            "job.host-affinity.enabled": "true",
            "cluster-manager.container.memory.mb": "256",
            "cluster-manager.container.request.timeout.ms": str(round(5_000 * PACE)),
            "samza.dagster.max.concurrent.starts": "8",
            "samza.dagster.start.timeout.ms": str(round(60_000 * PACE)),
            "samza.dagster.lease.ms": str(self.lease_ms),
            "samza.dagster.host.timeout.ms": str(self.host_timeout_ms),
            "stores.s.changelog": f"kafka.{self.name}-s",
            **self.settings,
        }
        self.configure()

    def configure(self) -> None:
        """Writes `properties` to the file that the next coordinator reads."""
        launch = LaunchTemplate(command=(sys.executable, "-I", str(STUB)), stop_grace_s=2)
        self.files.write(self.properties, launch)

    def start(self) -> Job:
        """Agents, coordinator, and every processor checked in."""
        for host in self.host_names:
            self.start_agent(host)
        self.start_coordinator()
        self.wait_until_running()
        return self

    @property
    def coordinators(self) -> list[subprocess.Popen[bytes] | Born]:
        """All that were started and haven't ended."""
        return [each for each in self._coordinators if each.poll() is None]

    def start_coordinator(self, *options: str) -> subprocess.Popen[bytes] | Born:
        """A coordinator process: the command's, or one of a module of the rig in its place."""
        if self.coordinator_module == COMMAND:
            with self.coordinator_log.open("ab") as output:
                self.coordinator = subprocess.Popen(
                    [
                        *(sys.executable, "-m", self.coordinator_module, "coordinator", "run"),
                        *(*self.files.arguments, *self.options, *options),
                    ],
                    cwd=ROOT,
                    env={**os.environ, **self.environment},
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        else:
            self.coordinator = self._born(
                self.coordinator_module, self.environment, (*self.options, *options)
            )
        self._coordinators.append(self.coordinator)
        return self.coordinator

    def kill_host(self, host: str) -> None:
        """SIGKILL of all processes of a host: agent, wardens, containers."""
        self.kill_agent(host)
        pids = [p["pid"] for p in self.processors().values() if p["host"] == host and p["pid"]]
        kill(*map(parent_of, pids), *pids)

    def kill_coordinator(self) -> None:
        """SIGKILL, and its death awaited."""
        assert self.coordinator is not None
        self.coordinator.send_signal(signal.SIGKILL)
        self.coordinator.wait(timeout=10 * PACE)

    def metrics(self) -> str:
        """`GET /metrics` of the coordinator that leads."""
        url = (self.directory / "coordinator.url").read_text().strip()
        with urllib.request.urlopen(f"{url}/metrics", timeout=5 * PACE) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            return answer.read().decode()

    def wait_until_running(self, seconds: float = 40.0, *, extra: int = 0) -> Processors:
        """Every processor running with a live pid, and every host registered.

        `extra`: so many standbys more than the deployment plans.
        """

        started = {name for name in self.host_names if self.host_directory(name).is_dir()}

        def settled() -> Processors | None:
            found = self.processors()
            wanted = self.actives * (1 + self.standbys) + extra
            running = [p for p in found.values() if runs(p)]
            status = self.status()
            quiet = status is not None and not status["actions"] and set(status["hosts"]) >= started
            return found if len(running) == wanted == len(found) and quiet else None

        try:
            return until("every processor running", settled, seconds=seconds)
        except AssertionError as error:
            log = self.coordinator_log.read_text()[-3000:]
            raise AssertionError(f"{error}\n{self.status()}\n{log}") from None

    def journal(self) -> list[dict[str, Any]]:
        """What all stub containers of all hosts wrote, in order of time."""
        for host in self.host_names:
            path = self.state_dir(host) / "journal.jsonl"
            if not path.exists():
                continue
            with path.open("rb") as opened:
                opened.seek(self._journalled.get(host, 0))
                whole = opened.read().rpartition(b"\n")[0]
            if whole:
                self._journalled[host] = self._journalled.get(host, 0) + len(whole) + 1
                self._journal += [{**json.loads(line), "host": host} for line in whole.splitlines()]
                self._journal.sort(key=lambda line: line["at"])
        return list(self._journal)

    def metadata(self) -> KafkaMetadataStore:
        """The job's coordinator stream, as a stranger may write it."""
        return KafkaMetadataStore(self.bootstrap_servers, self.connection.coordinator_stream_topic)

    def close(self) -> None:
        """Coordinator first, then every host's containers and agent by recorded ids."""
        for coordinator in self._coordinators:  # a frozen one is there, too
            if coordinator.poll() is None:
                coordinator.kill()
                coordinator.wait(timeout=10 * PACE)
        stop_hosts(tuple(map(self.simulated, self.host_names)))
        process.stop_all(self.registry.live())
