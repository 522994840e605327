"""A job on real parts with a stub in each container's place: broker, coordinator, agents.

Starts in seconds, so that a coordinator can be killed at every command. Everything is
stopped by the process ids that were started here.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from tests.rig.nursery import Born, Nursery
from tests.rig.pace import PACE
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
class Job:
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
        self.directory.mkdir(parents=True, exist_ok=True)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.coordinator: subprocess.Popen[bytes] | Born | None = None
        self._coordinators: list[subprocess.Popen[bytes] | Born] = []
        self._nursery: Nursery | None = None
        self._journal: list[dict[str, Any]] = []
        self._journalled: dict[str, int] = {}
        self.connection = Connection(
            bootstrap_servers=self.bootstrap_servers, job_name=self.name, job_id=self.job_id
        )
        (self.directory / "token").write_text("t" * 32)
        (self.directory / "launch.json").write_text(
            json.dumps({"command": [sys.executable, "-I", str(STUB)], "stop_grace_s": 2})
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
        text = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "job.properties").write_text(text)

    @property
    def host_names(self) -> list[str]:
        """`host-1` and so on."""
        return [f"host-{number + 1}" for number in range(self.hosts)]

    def host_directory(self, host: str) -> Path:
        """What the agent of a host keeps."""
        return self.directory / host

    def is_up(self, host: str) -> bool:
        """Its agent runs."""
        return self.agents[host].poll() is None

    @property
    def coordinator_log(self) -> Path:
        """Of all coordinators."""
        return self.directory / "coordinator.log"

    def state_dir(self, host: str) -> Path:
        """Where the containers of a host keep their stores."""
        return self.directory / host / "state"

    def start(self) -> Job:
        """Agents, coordinator, and every processor checked in."""
        for host in self.host_names:
            self.start_agent(host)
        self.start_coordinator()
        self.wait_until_running()
        return self

    def start_agent(self, host: str, *, memory_mb: int | None = None) -> None:
        """The agent of one simulated host; it adopts what runs there."""
        directory = self.directory / host
        self.state_dir(host).mkdir(parents=True, exist_ok=True)
        with (directory / "agent.log").open("ab") as output:
            self.agents[host] = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    str(ROOT / "samza_dagster" / "agent" / "main.py"),
                    *("--host", host, "--directory", str(directory)),
                    *("--state-dir", str(self.state_dir(host))),
                    *("--memory-mb", str(memory_mb or self.memory_mb), "--cores", "8"),
                    *("--coordinator-url-file", str(self.directory / "coordinator.url")),
                    *("--token-file", str(self.directory / "token")),
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def coordinators(self) -> list[subprocess.Popen[bytes] | Born]:
        """All that were started and haven't ended."""
        return [process for process in self._coordinators if process.poll() is None]

    def start_coordinator(self, *options: str) -> subprocess.Popen[bytes] | Born:
        """A coordinator process: the command's, or one of a module of the rig in its place."""
        arguments = [
            *("--config", str(self.directory / "job.properties")),
            *("--launch", str(self.directory / "launch.json")),
            *("--token-file", str(self.directory / "token")),
            *("--url-file", str(self.directory / "coordinator.url")),
            *self.options,
            *options,
        ]
        environment = {**self.environment, "SAMZA_DAGSTER_KILL_FILE": str(self.kill_file)}
        if self.coordinator_module == COMMAND:
            with self.coordinator_log.open("ab") as output:
                self.coordinator = subprocess.Popen(
                    [sys.executable, "-m", COMMAND, "coordinator", "run", *arguments],
                    cwd=ROOT,
                    env={**os.environ, **environment},
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        else:
            self._nursery = self._nursery or Nursery(self.coordinator_module, environment)
            self.coordinator = self._nursery.start(arguments, self.coordinator_log)
        self._coordinators.append(self.coordinator)
        return self.coordinator

    @property
    def kill_file(self) -> Path:
        """What arms `crashing_coordinator`."""
        return self.directory / "kill.json"

    def kill_agent(self, host: str) -> None:
        """SIGKILL, and its death awaited; its containers run on."""
        self.agents[host].kill()
        self.agents[host].wait(timeout=10 * PACE)

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

    def status(self) -> dict[str, Any] | None:
        """`GET /status`, None while no coordinator answers."""
        try:
            url = (self.directory / "coordinator.url").read_text().strip()
            with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=2 * PACE) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def metrics(self) -> str:
        """`GET /metrics` of the coordinator that leads."""
        url = (self.directory / "coordinator.url").read_text().strip()
        with urllib.request.urlopen(f"{url}/metrics", timeout=5 * PACE) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            return answer.read().decode()

    def processors(self) -> dict[str, dict[str, Any]]:
        """Processor id → host, pid, execution id, mode, state."""
        status = self.status()
        return status["processors"] if status else {}

    def wait_until_running(
        self, seconds: float = 40.0, *, extra: int = 0
    ) -> dict[str, dict[str, Any]]:
        """Every processor running with a live pid, and every host registered.

        `extra`: so many standbys more than the deployment plans.
        """

        def settled() -> dict[str, dict[str, Any]] | None:
            found = self.processors()
            wanted = self.actives * (1 + self.standbys) + extra
            running = [
                p
                for p in found.values()
                if p["state"] == "running" and p["pid"] and alive(p["pid"])
            ]
            status = self.status()
            quiet = (
                status is not None
                and not status["actions"]
                and set(status["hosts"]) >= self.agents.keys()
            )
            return found if len(running) == wanted == len(found) and quiet else None

        try:
            return until("every processor running", settled, seconds=seconds)
        except AssertionError as error:
            log = (self.directory / "coordinator.log").read_text()[-3000:]
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

    def client(self) -> PlacementClient:
        """A client of this job."""
        return PlacementClient(self.connection)

    def metadata(self) -> KafkaMetadataStore:
        """The job's coordinator stream, as a stranger may write it."""
        return KafkaMetadataStore(self.bootstrap_servers, self.connection.coordinator_stream_topic)

    def close(self) -> None:
        """Coordinator first, then every host's containers and agent by recorded ids."""
        for coordinator in self._coordinators:  # a frozen one is there, too
            if coordinator.poll() is None:
                coordinator.kill()
                coordinator.wait(timeout=10 * PACE)
        if self._nursery is not None:
            self._nursery.close()
        stops = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    str(ROOT / "samza_dagster" / "agent" / "main.py"),
                    *("--directory", str(self.directory / host), "--stop-all"),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for host in self.agents
        ]
        for stop in stops:
            stop.wait(timeout=30 * PACE)
        for agent in self.agents.values():
            agent.wait(timeout=10 * PACE)
