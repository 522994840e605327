"""Runs the containers of a sandbox's job with our coordinator; `yarn.runner` does so on YARN.

Other processes need only the sandbox's record to inspect or end it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from samza_dagster.errors import ActionFailed, SamzaDagsterError, Unreachable
from samza_dagster.sandbox import process
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.hosts import SimulatedHost, hosts_of, stop_hosts
from samza_dagster.sandbox.launch import config_and_template
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry


class OwnRunner:
    """Our own coordinator, and an agent for each host."""

    jars: tuple[str, ...] = ()

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.files = CoordinatorFiles(registry.directory / "coordinator")

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """Return the hosts, one for each agent."""
        return hosts_of(self._registry)

    @property
    def roles(self) -> set[str]:
        """Return the roles of the coordinator and the agents."""
        return {COORDINATOR, *(host.role for host in self.hosts)}

    def start(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> None:
        """Start the agents, then the coordinator; `settings` override `config`."""
        # Returns before the containers run.
        with phases.phase("hosts and coordinator"):
            self.files.write(*config_and_template({**config, **settings}))
            for host in self.hosts:
                host.start(
                    url_file=self.files.url,
                    token_file=self.files.token,
                    memory_mb=memory_mb,
                    on_spawn=self._registry.add,
                )
            self.files.start(on_spawn=self._registry.add)

    def processors(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the running processors from the coordinator's status, by id.

        Each has `state`, `host`, `execution_id`, `mode` and `pid`. Raises `Unreachable` while the
        status is unknown, `ActionFailed` when a part has died.
        """
        # A coordinator that ended because the broker didn't answer is started again, as an init
        # system would.
        coordinators = [r for r in self._registry.processes() if r.role == COORDINATOR]
        for record in coordinators[-1:]:
            if process.exit_status(record) == Unreachable.exit_code:
                self.files.start(on_spawn=self._registry.add)
            elif not record.is_alive:
                raise ActionFailed(
                    "start the coordinator",
                    seen=process.log_tail(self.files.log, 4),
                    fix=f"see {self.files.log}",
                )
        return self.files.status().get("processors", {})

    def facts(self, live: Collection[str]) -> dict[str, Any]:
        """Return its part of a sandbox's status; `live` are the roles of the running processes."""
        hosts = {h.name: {"state": "alive" if h.role in live else "lost"} for h in self.hosts}
        facts: dict[str, Any] = {
            "coordinator_url": self.files.coordinator_url() if COORDINATOR in live else None,
            "hosts": hosts,
        }
        with contextlib.suppress(SamzaDagsterError):
            answer = self.files.status()
            facts["deployment_id"] = answer.get("deployment_id")
            facts["hosts"] = {**hosts, **answer.get("hosts", {})}
            facts["processors"] = answer.get("processors", {})
        return facts

    def container_log(self, host: SimulatedHost, execution_id: str) -> str:
        """Return the log of an incarnation that its agent still keeps."""
        return read_log(host.agent_directory / "incarnations" / execution_id / "container.log")

    def stop(self) -> None:
        """Stop the coordinator before the containers, which it would start again."""
        process.stop_all([r for r in self._registry.live() if r.role == COORDINATOR])
        stop_hosts(self.hosts)
        (self.files.url).unlink(missing_ok=True)


def read_log(file: Path) -> str:
    """Return a log's text, empty when there is no such file."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
