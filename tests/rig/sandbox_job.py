"""A sandbox's job with real Samza containers, its coordinators those of the kill matrix.

The sandbox's own coordinator ends in order; others run with the same arguments in its place.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from samza_dagster.agent.files import read_json
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.connection import CLIENT_CONFIG, Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.coordinator_process import ROLE
from samza_dagster.sandbox.hosts import HOST_MEMORY_MB, SimulatedHost
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.process import ProcessRecord
from tests.rig.job import kill
from tests.rig.kernel_witness import KernelWitness
from tests.rig.nursery import Born, Nursery

Processors = dict[str, dict[str, Any]]


class SandboxJob:
    """The job of a sandbox that is up. `coordinator` is the one that leads, once one was started here.

    Not `watched`: nobody reads the process table, and the journal stays empty.
    """

    memory_mb = HOST_MEMORY_MB

    def __init__(
        self,
        sandbox: Sandbox,
        coordinator_module: str = "",
        *,
        actives: int = 2,
        standbys: int = 1,
        watched: bool = True,
    ) -> None:
        self.sandbox = sandbox
        self.actives = actives
        self.standbys = standbys
        self.coordinator: Any = None
        self._module = coordinator_module
        self._nursery: Nursery | None = None
        self._hosts = {host.name: host for host in sandbox.hosts}
        # As an outsider: the coordinator's own login is for the coordinator.
        servers = str(sandbox.status()["bootstrap_servers"])
        self.connection = Connection(servers, demo_job.JOB_NAME, demo_job.JOB_ID)
        self.witness = KernelWitness(sandbox.directory / "hosts") if watched else None

    def last_words(self) -> str:
        """The ends of the logs of containers that failed, and of those that run."""
        root = self.sandbox.directory / "hosts"
        logs = [*root.glob("*/last-failure/*.log"), *root.glob("*/incarnations/*/container.log")]
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-6:]
        return "\n".join(f"{path}:\n{path.read_text()[-1500:]}" for path in newest)

    def close(self) -> None:
        """Ends the watch of the processes; the sandbox ends what runs."""
        if self._nursery is not None:
            self._nursery.close()
        if self.witness is not None:
            self.witness.close()

    @property
    def host_names(self) -> list[str]:
        """`host-1` and so on."""
        return list(self._hosts)

    @property
    def kill_file(self) -> Path:
        """What arms `crashing_coordinator`."""
        return self.sandbox.files.directory / "kill.json"

    @property
    def coordinator_log(self) -> Path:
        """Of all coordinators."""
        return self.sandbox.files.log

    def host_directory(self, host: str) -> Path:
        """What the agent of a host keeps."""
        return self._hosts[host].directory

    def is_up(self, host: str) -> bool:
        """Its agent runs."""
        return bool(self.sandbox.registry.live(self._hosts[host].role))

    def status(self) -> dict[str, Any] | None:
        """`GET /status`, None while no coordinator answers."""
        try:
            return self.sandbox.files.status(2.0)
        except Unreachable:
            return None

    def processors(self) -> Processors:
        """Processor id → host, pid, execution id, mode, state."""
        status = self.status()
        return status["processors"] if status else {}

    def client(self) -> PlacementClient:
        """A client of this job."""
        return PlacementClient(self.connection)

    def journal(self) -> list[dict[str, Any]]:
        """What the kernel showed."""
        return self.witness.journal() if self.witness is not None else []

    def start_coordinator(self) -> Born:
        """One more, with the sandbox's own arguments; the sandbox knows of it."""
        files = self.sandbox.files
        if self._nursery is None:
            environment = {"SAMZA_DAGSTER_KILL_FILE": str(self.kill_file)}
            if files.logins.client_config.exists():
                environment[CLIENT_CONFIG] = str(files.logins.client_config)
            self._nursery = Nursery(self._module, environment)
        arguments = [
            *("--config", str(files.config), "--launch", str(files.launch)),
            *("--token-file", str(files.token), "--url-file", str(files.url)),
        ]
        started = self._nursery.start(arguments, files.log)
        self.sandbox.registry.add(ProcessRecord.of(ROLE, started.pid))
        return started

    def take_over(self) -> None:
        """From the sandbox's own coordinator, which ends in order."""
        for own in self.sandbox.registry.live(ROLE):
            assert own.stop()
        self.coordinator = self.start_coordinator()

    def end_coordinators(self) -> None:
        """SIGKILL of every one that runs."""
        for record in self.sandbox.registry.live(ROLE):
            record.send(signal.SIGKILL)
            assert record.wait(10)

    def kill_agent(self, host: str) -> None:
        """SIGKILL, and its death awaited; its containers run on."""
        for record in self.sandbox.registry.live(self._hosts[host].role):
            record.send(signal.SIGKILL)
            assert record.wait(10)

    def start_agent(self, host: str, *, memory_mb: int | None = None) -> None:
        """The agent of a host; it adopts what runs there."""
        files, found = self.sandbox.files, self._hosts[host]
        found.start(
            url_file=files.url,
            token_file=files.token,
            memory_mb=memory_mb or self.memory_mb,
            on_spawn=self.sandbox.registry.add,
        )

    def kill_host(self, host: str) -> float:
        """SIGKILL of all processes of a host: agent, wardens, containers; when, in s since the epoch."""
        records = self.host_directory(host).glob("incarnations/*/warden.json")
        named = [read_json(record) or {} for record in records]
        pids = [part["pid"] for each in named for part in (each["warden"], each["container"])]
        at = time.time()
        self.kill_agent(host)
        kill(*pids)
        return at

    def simulated(self, host: str) -> SimulatedHost:
        """A host as the sandbox has it."""
        return self._hosts[host]
