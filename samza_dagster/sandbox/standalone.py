"""Runs a sandbox's job as standalone processors over a real ZooKeeper."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from samza_dagster.agent.incarnation import load_all
from samza_dagster.client.group_report import group_report
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import ActionFailed, Refused, SamzaDagsterError
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.sandbox import process
from samza_dagster.sandbox.hosts import SimulatedHost, hosts_of, stop_hosts
from samza_dagster.sandbox.launch import config_and_template
from samza_dagster.sandbox.logins import LoginFiles
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import RUNNING
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.runner import read_log
from samza_dagster.sandbox.zookeeper import ZOOKEEPER, ZooKeeperServer
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup

SESSION_MS = 6_000
TIMES = {
    "job.coordinator.zk.session.timeout.ms": str(SESSION_MS),
    "job.debounce.time.ms": "1000",
    "job.coordinator.zk.consensus.timeout.ms": "20000",
}
"""The times of a group on one machine; Samza's own defaults are 30, 20 and 40 s."""
STOP_S = 60.0


class ProcessorFiles:
    """The files with which all processors of a group start, below one directory.

    `logins` are their logins at a broker with an authorizer.
    """

    def __init__(self, directory: Path, logins: LoginFiles) -> None:
        self.directory = directory
        self.logins = logins
        self.config = directory / "job.properties"
        self.launch = directory / "launch.json"

    def write(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        """Write config, which names ZooKeeper, and template."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text("".join(f"{key}={value}\n" for key, value in sorted(config.items())))
        launch.write(self.launch)

    def start(
        self,
        processor_id: str,
        host: SimulatedHost,
        *,
        zookeeper: str = "",
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> ProcessRecord:
        """Start a processor on a host; the host's directory has its records and stores.

        `zookeeper` overrides the config's address.
        """
        command = [
            *(sys.executable, "-m", "samza_dagster.cli.main", "processor", "run"),
            *("--config", str(self.config), "--launch", str(self.launch)),
            *("--processor-id", processor_id, "--location", "env:LOCATION"),
            *("--directory", str(host.directory)),
            *(("--zookeeper", zookeeper) if zookeeper else ()),
        ]
        environment = {**os.environ, "LOCATION": host.name, **host.environment}
        if self.logins.client_config.exists():
            environment[CLIENT_CONFIG] = str(self.logins.client_config)
        return process.spawn(
            role_of(processor_id),
            command,
            log=self.log_of(processor_id),
            environment=environment,
            on_spawn=on_spawn,
        )

    def log_of(self, processor_id: str) -> Path:
        """Return the file of a processor's output."""
        return self.directory / f"{processor_id}.log"


class StandaloneRunner:
    """A ZooKeeper, and on each host a processor, `p1` on `host-1`."""

    jars: tuple[str, ...] = ()

    def __init__(self, registry: Registry, logins: LoginFiles) -> None:
        self._registry = registry
        self.files = ProcessorFiles(registry.directory / "processors", logins)

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """Return the hosts, one for each processor."""
        return hosts_of(self._registry)

    @property
    def roles(self) -> set[str]:
        """Return the roles of ZooKeeper and the processors."""
        return {ZOOKEEPER, *(role_of(processor_on(host.name)) for host in self.hosts)}

    def start(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> None:
        """Start ZooKeeper, then the processors; `settings` override `config`."""
        # Returns before the group has agreed.
        with phases.phase("ZooKeeper"):
            server = ZooKeeperServer(
                self._registry.directory / ZOOKEEPER, on_spawn=self._registry.add
            ).start()
            self._registry.update(zookeeper=server.hosts)
        with phases.phase("processors"):
            where = {"job.coordinator.zk.connect": server.hosts}
            whole = {**config, **TIMES, **settings, **where}
            self._registry.update(group=GroupPaths.of(whole).root)
            self.files.write(*config_and_template(whole))
            for host in self.hosts:
                self.files.start(processor_on(host.name), host, on_spawn=self._registry.add)

    def processors(self) -> dict[str, dict[str, Any]]:
        """Return the processors of the group from ZooKeeper, by id.

        Each has `state`, `host`, `leads`, `active_tasks`, `standby_tasks` and `pid`. Its state is
        `running` once it has joined the agreed version, `lost` once its process has ended. Raises
        `Unreachable` without ZooKeeper, `ActionFailed` when a processor has ended before the
        sandbox was up.
        """
        record = self._registry.read()
        alive = {each.role: each.pid for each in self._registry.live()}
        if record.get("state") == "starting":
            self._require(alive)
        session = connect(ZooKeeperAddress(record.get("zookeeper", "")))
        try:
            paths = GroupPaths(record.get("group", ""))
            report = group_report(ZooKeeperGroup(session, paths, lambda: None).view(None))
        finally:
            session.stop()
            session.close()
        is_agreed = 0 < report["version"] == report["agreed"]

        def state_of(row: Mapping[str, Any]) -> str:
            if role_of(row["processor_id"]) not in alive:
                return "lost"
            return RUNNING if is_agreed and row["has_joined"] else "waiting"

        return {
            row["processor_id"]: {
                "state": state_of(row),
                "host": row["location"],
                "pid": alive.get(role_of(row["processor_id"])),
                **{name: row[name] for name in ("leads", "active_tasks", "standby_tasks")},
            }
            for row in report["processors"]
        }

    def facts(self, live: Collection[str]) -> dict[str, Any]:
        """Return its part of a sandbox's status; `live` are the roles of the running processes."""
        facts: dict[str, Any] = {
            "zookeeper": self._registry.read().get("zookeeper") if ZOOKEEPER in live else None,
            "hosts": {
                host.name: {
                    "state": "alive" if role_of(processor_on(host.name)) in live else "lost"
                }
                for host in self.hosts
            },
        }
        if facts["zookeeper"]:
            with contextlib.suppress(SamzaDagsterError):
                facts["processors"] = self.processors()
        return facts

    def container_log(self, host: SimulatedHost, execution_id: str) -> str:
        """Return the log of an incarnation that its processor still keeps."""
        return read_log(host.directory / "incarnations" / execution_id / "container.log")

    def lose(self, host: str) -> None:
        """Kill a host's processor and all its containers; raise `Refused` when it doesn't run."""
        live = self._registry.live(role_of(processor_on(host)))
        if not live:
            raise Refused("lose a host that runs", seen=f"{host} doesn't", fix="another host")
        for record in live:
            record.send(signal.SIGKILL)
        (simulated,) = (each for each in self.hosts if each.name == host)
        for incarnation in load_all(simulated.directory):
            if incarnation.read_processes() and incarnation.warden is not None:
                incarnation.warden.send(signal.SIGKILL)  # its container dies with it

    def stop(self) -> None:
        """Stop the processors, their containers and the remains of killed ones; keep ZooKeeper."""
        mine = self.roles - {ZOOKEEPER}
        process.stop_all([r for r in self._registry.live() if r.role in mine], grace_s=STOP_S)
        stop_hosts(self.hosts)

    def _require(self, alive: Collection[str]) -> None:
        for record in self._registry.processes():
            if record.role in self.roles - set(alive):
                processor_id = record.role.rpartition(" ")[2]
                log = self.files.log_of(processor_id)
                raise ActionFailed(
                    f"start the {record.role}", seen=process.log_tail(log, 4), fix=f"see {log}"
                )


def processor_on(host: str) -> str:
    """Return the id of the processor on a host of the sandbox."""
    return f"p{host.rpartition('-')[2]}"


def role_of(processor_id: str) -> str:
    """Return the role of a processor in the record."""
    return f"processor {processor_id}"
