"""A sandbox's job with real Samza containers, its coordinators those of the kill matrix.

The sandbox's own coordinator ends in order; others run with the same arguments in its place.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from samza_dagster.agent.files import read_json
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.coordinator_process import ROLE
from samza_dagster.sandbox.hosts import HOST_MEMORY_MB
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.process import ProcessRecord
from tests.rig.job import kill
from tests.rig.kernel_witness import KernelWitness
from tests.rig.nursery import Born
from tests.rig.running_job import RunningJob


class Container(NamedTuple):
    """One that is alive; `warden` and `pid` are process ids."""

    host: str
    processor: str
    execution_id: str
    warden: int
    pid: int


class SandboxJob(RunningJob):
    """The job of a sandbox that is up.

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
        self.files = sandbox.files
        self.registry = sandbox.registry
        self.actives = actives
        self.standbys = standbys
        self._module = coordinator_module
        self._on(sandbox.hosts)
        # As an outsider: the coordinator's own login is for the coordinator.
        servers = str(sandbox.status()["bootstrap_servers"])
        self.connection = demo_job.connection(servers)
        host = sandbox.hosts[0]
        agent = str(host.agent_directory.relative_to(host.directory))
        self.witness = KernelWitness(host.directory.parent, agent) if watched else None

    def last_words(self) -> str:
        """The ends of the logs of containers that failed, and of those that run."""
        root = self.sandbox.directory / "hosts"
        logs = [*root.glob("*/last-failure/*.log"), *root.glob("*/incarnations/*/container.log")]
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-6:]
        return "\n".join(f"{path}:\n{path.read_text()[-1500:]}" for path in newest)

    def close(self) -> None:
        """Ends the watch of the processes; the sandbox ends what runs."""
        if self.witness is not None:
            self.witness.close()

    def journal(self) -> list[dict[str, Any]]:
        """What the kernel showed."""
        return self.witness.journal() if self.witness is not None else []

    def start_coordinator(self) -> Born:
        """One more, with the sandbox's own arguments; the sandbox knows of it."""
        login = self.files.logins.client_config
        environment = {CLIENT_CONFIG: str(login)} if login.exists() else {}
        started = self._born(self._module, environment)
        self.registry.add(ProcessRecord.of(ROLE, started.pid))
        return started

    def take_over(self) -> None:
        """From the sandbox's own coordinator, which ends in order."""
        for own in self.registry.live(ROLE):
            assert own.stop()
        self.coordinator = self.start_coordinator()

    def end_coordinators(self) -> None:
        """SIGKILL of every one that runs."""
        for record in self.registry.live(ROLE):
            record.send(signal.SIGKILL)
            assert record.wait(10)

    def containers(self, hosts: Iterable[str]) -> list[Container]:
        """Those that live on these hosts, by the wardens' records and the kernel, in their names' order."""
        found: list[Container] = []
        for name in hosts:
            for record in sorted(self.host_directory(name).glob("incarnations/*/warden.json")):
                named: dict[str, Any] = read_json(record) or {}
                spec: dict[str, Any] = read_json(record.with_name("spec.json")) or {}
                pid = (named.get("container") or {}).get("pid")
                if pid and spec and Path(f"/proc/{pid}").exists():
                    execution, warden = record.parent.name, named["warden"]["pid"]
                    found.append(Container(name, spec["processor_id"], execution, warden, pid))
        return found

    def kill_host(self, host: str) -> float:
        """Kill all processes of a host: agent, wardens, containers; return when, in s since the epoch."""
        pids = [pid for each in self.containers([host]) for pid in (each.warden, each.pid)]
        at = time.time()
        self.kill_agent(host)
        kill(*pids)
        return at
