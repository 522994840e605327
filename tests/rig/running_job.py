"""A job that runs: a test starts, kills and looks at its coordinators and agents.

All by the sandbox's own functions, and by the process ids on its record.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.registry import Registry
from tests.rig.nursery import Born
from tests.rig.pace import PACE

Processors = dict[str, dict[str, Any]]
KILL_FILE = "SAMZA_DAGSTER_KILL_FILE"


class RunningJob:
    """Stubs stand in its containers' place (`Job`), or they are a sandbox's (`SandboxJob`).

    `coordinator` is the one that leads, once one was started here.
    """

    connection: Connection
    files: CoordinatorFiles
    registry: Registry
    coordinator: Any = None
    actives: int
    standbys: int
    memory_mb: int
    _simulated: Mapping[str, SimulatedHost]

    def _on(self, hosts: Iterable[SimulatedHost]) -> None:
        self._simulated = {host.name: host for host in hosts}

    @property
    def host_names(self) -> list[str]:
        """`host-1` and so on."""
        return list(self._simulated)

    def simulated(self, host: str) -> SimulatedHost:
        """A host as the sandbox has it."""
        return self._simulated[host]

    def host_directory(self, host: str) -> Path:
        """What the agent of a host keeps."""
        return self._simulated[host].agent_directory

    def state_dir(self, host: str) -> Path:
        """Where the containers of a host keep their stores."""
        return self._simulated[host].state_directory

    @property
    def kill_file(self) -> Path:
        """What arms `crashing_coordinator`."""
        return self.files.directory / "kill.json"

    @property
    def coordinator_log(self) -> Path:
        """Of all coordinators."""
        return self.files.log

    def agent(self, host: str) -> tuple[ProcessRecord, ...]:
        """The process of a host's agent, if it runs."""
        return self.registry.live(self._simulated[host].role)

    def is_up(self, host: str) -> bool:
        """Its agent runs."""
        return bool(self.agent(host))

    def start_agent(self, host: str, *, memory_mb: int | None = None) -> None:
        """The agent of a host; it adopts what runs there."""
        self.state_dir(host).mkdir(parents=True, exist_ok=True)
        self._simulated[host].start(
            url_file=self.files.url,
            token_file=self.files.token,
            memory_mb=memory_mb or self.memory_mb,
            on_spawn=self.registry.add,
        )

    def kill_agent(self, host: str) -> None:
        """SIGKILL, and its death awaited; its containers run on."""
        for record in self.agent(host):
            record.send(signal.SIGKILL)
            assert record.wait(10 * PACE)

    def start_coordinator(self) -> Any:
        """One more; it leads, or waits beside the one that does."""
        raise NotImplementedError

    def _born(
        self, module: str, environment: Mapping[str, str], options: Sequence[str] = ()
    ) -> Born:
        """A coordinator of the rig's own module, forked from a process that has imported it."""
        arguments = [*self.files.arguments, *options]
        killed_by = {KILL_FILE: str(self.kill_file)}
        return Born(module, arguments, {**environment, **killed_by}, self.files.log)

    def status(self) -> dict[str, Any] | None:
        """`GET /status`, None while no coordinator answers."""
        try:
            return self.files.status(2.0 * PACE)
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
        """Each start of a container as an outsider saw it (`what`: `started`), and each `VIOLATION`."""
        raise NotImplementedError
