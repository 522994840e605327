"""Runs a sandbox's job on a real YARN, under Samza's Application Master or our coordinator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster.agent.files import read_json
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import Refused
from samza_dagster.placement.state import Fencing
from samza_dagster.sandbox import demo_job, process
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.hosts import HOST_CORES, SimulatedHost
from samza_dagster.sandbox.launch import config_and_template
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.runner import OwnRunner, read_log
from samza_dagster.sandbox.yarn.cluster import RESOURCE_MANAGER, YarnCluster
from samza_dagster.sandbox.yarn.job import YarnJob
from samza_dagster.sandbox.yarn.namespace import HOLDER, RELAY, entering
from samza_dagster.sandbox.yarn.processes import containers, pids_of_executions

_RECORD = "yarn"
AGENT_MEMORY_MB = 256
"""Each node's memory beside its containers'."""
_STATE_STORE = "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"


class YarnHost(SimulatedHost):
    """A host with its first process on record under its name."""

    @property
    def role(self) -> str:
        """Return the role of the host's first process; its agent, if any, is YARN's container."""
        return self.name

    @property
    def agent_directory(self) -> Path:
        """Return the directory of the demo job's agent; Samza's own Application Master has none."""
        return self.directory / "agent" / f"{demo_job.JOB_NAME}-{demo_job.JOB_ID}"


class YarnNodes:
    """A real YARN, by its record: a ResourceManager, and a NodeManager on each host."""

    def __init__(self, registry: Registry) -> None:
        self.directory = registry.directory / "yarn"
        self.cluster: YarnCluster | None = None
        """Set when this process brought the cluster up."""
        self._registry = registry

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """Return the hosts, one for each NodeManager."""
        names = self._registry.read().get("hosts", ())
        return tuple(YarnHost(name, self.directory / name) for name in names)

    @property
    def roles(self) -> set[str]:
        """Return the roles without which YARN is broken."""
        return {HOLDER, RELAY, RESOURCE_MANAGER, *(host.role for host in self.hosts)}

    @property
    def record(self) -> dict[str, str]:
        """Return the facts on record since YARN was brought up."""
        return self._registry.read().get(_RECORD, {})

    def resource_manager(self, live: Collection[str]) -> str | None:
        """Return its web address, while its role is among the running ones."""
        return self.record.get("url") if RESOURCE_MANAGER in live else None

    def bring_up(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> YarnCluster:
        """Start YARN for a job of this config; YARN gets the `settings` that begin with `yarn.`."""
        # An address that is the same inside and outside is kept free for a coordinator of ours.
        hosts, address = [host.name for host in self.hosts], f"{LOOPBACK}:{free_ports(1)[0]}"
        cluster = self.cluster = YarnCluster(
            self.directory,
            hosts,
            servers=config["systems.kafka.producer.bootstrap.servers"],
            both_sides=(address,),
            memory_mb=memory_mb,
            settings={key: value for key, value in settings.items() if key.startswith("yarn.")},
            on_spawn=self._registry.add,
        )
        with phases.phase(f"YARN, {len(hosts)} nodes"):
            cluster.start()
        self._registry.update(
            yarn={
                "url": cluster.url,
                "coordinator": address,
                "configuration": str(cluster.configuration),
                "hosts_file": str(cluster.hosts_file),
            }
        )
        return cluster

    def note(self, **facts: str) -> None:
        """Add facts to its record."""
        self._registry.update(yarn={**self.record, **facts})

    def inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs `command` in its network; raise `Refused` when it's down."""
        live = self._registry.live(HOLDER)
        if not live:
            raise Refused(
                "enter the network of a YARN that runs", seen="it doesn't", fix="sandbox up"
            )
        return entering(live[-1].pid, command)

    def lose(self, host: str) -> None:
        """End a host at once, with all its processes; raise `Refused` for one that doesn't run."""
        live = self._registry.live(host)
        if not live:
            raise Refused("lose a host that runs", seen=f"{host} doesn't", fix="another host")
        process.stop_all(live, grace_s=0.0)

    def stop(self) -> None:
        """End its processes on record; the containers end with their hosts."""
        mine = [record for record in self._registry.live() if record.role in self.roles]
        # `unshare` ignores SIGTERM, and each host's processes are killed at its end.
        process.stop_all(mine, grace_s=0.0)


class YarnRunner(YarnNodes):
    """Samza's own Application Master on a YARN."""

    jars: tuple[str, ...] = ("yarn", "samza-yarn")

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.files = _Files(registry.directory / "coordinator", self)
        """The files of our coordinator, for a take-over of the job."""

    def start(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> None:
        """Start YARN and submit the job; return when YARN has accepted it."""
        cluster = self.bring_up(config, settings, memory_mb + AGENT_MEMORY_MB, phases)
        unfenced = {"samza.dagster.fencing": Fencing.LEASE.value}
        plain = {key: value for key, value in settings.items() if not key.startswith("yarn.")}
        self.files.write_for(cluster, {**config, **plain, **unfenced})
        with phases.phase("submission"):
            self.note(application=YarnJob(cluster, config, settings).submit())

    def processors(self) -> dict[str, dict[str, Any]]:
        """Return the running containers by processor id, from the kernel's process table."""
        return containers(self.directory)

    def facts(self, live: Collection[str]) -> dict[str, Any]:
        """Return its part of a sandbox's status; `live` are the roles of the running processes."""
        url, application = self.resource_manager(live), self.record.get("application")
        return {
            "resource_manager": url,
            "application": application,
            "coordinator_url": f"{url}/proxy/{application}/" if url and application else None,
            "hosts": {
                host.name: {"state": "alive" if host.role in live else "lost"}
                for host in self.hosts
            },
            "processors": self.processors(),
        }

    def container_log(self, host: SimulatedHost, execution_id: str) -> str:
        """Return all logs that YARN keeps of a container of that node."""
        logs = sorted(host.directory.glob(f"logs/*/{execution_id}/*"))
        return "".join(read_log(log) for log in logs)


class OwnYarnRunner(OwnRunner):
    """Our own coordinator on a YARN: agents and containers are YARN's containers."""

    jars: tuple[str, ...] = ("yarn",)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.nodes = YarnNodes(registry)
        self.files = _Files(self.files.directory, self.nodes)

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """Return the hosts, one for each NodeManager."""
        return self.nodes.hosts

    @property
    def roles(self) -> set[str]:
        """Return the roles of the coordinator and YARN."""
        return {COORDINATOR, *self.nodes.roles}

    def start(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> None:
        """Start YARN, then the coordinator; `settings` override `config`."""
        # Returns before the containers run.
        own = {**yarn_settings(self.nodes.directory), **settings}
        cluster = self.nodes.bring_up(config, own, memory_mb + AGENT_MEMORY_MB, phases)
        with phases.phase("coordinator"):
            self.files.write_for(cluster, {**config, **settings})
            self.files.start(on_spawn=self._registry.add)

    def facts(self, live: Collection[str]) -> dict[str, Any]:
        """Return the facts of our coordinator, and the ResourceManager's address."""
        return {**super().facts(live), "resource_manager": self.nodes.resource_manager(live)}

    def lose(self, host: str) -> None:
        """End a host at once, with all its processes; raise `Refused` for one that doesn't run."""
        self.nodes.lose(host)

    def stop(self) -> None:
        """Stop the coordinator, then YARN; agents and containers end with their hosts."""
        process.stop_all(self._registry.live(COORDINATOR))
        self.nodes.stop()


def yarn_settings(directory: Path) -> dict[str, str]:
    """Return the `yarn-site` settings of a YARN below `directory` for our coordinator."""
    return {
        # Otherwise YARN ends the application with all containers while the coordinator is away.
        "yarn.am.liveness-monitor.expiry-interval-ms": "600000",
        # A restarted ResourceManager then knows applications and containers.
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": _STATE_STORE,
        "yarn.resourcemanager.fs.state-store.uri": (directory.absolute() / "rm-state").as_uri(),
        # One core for the agent.
        "yarn.nodemanager.resource.cpu-vcores": str(HOST_CORES + 1),
    }


class _Files(CoordinatorFiles):
    """The files of a coordinator in the network of a YARN.

    The coordinator makes the agents' token itself and keeps it in the job's session, below the
    same directory.
    """

    def __init__(self, directory: Path, nodes: YarnNodes) -> None:
        super().__init__(directory)
        self._nodes = nodes

    def write(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        """Write config and template."""
        self.write_job(config, launch)

    def write_for(self, cluster: YarnCluster, config: Mapping[str, str]) -> None:
        """Write config and template for containers on this YARN."""
        # A host has loopback addresses alone, and its name is in the cluster's hosts file.
        self.write_job(*config_and_template(config, hosts_file=str(cluster.hosts_file)))

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `samza-dagster coordinator run`."""
        record, host = self._nodes.record, self._nodes.directory / "{host}"
        return [
            *("--config", str(self.config), "--launch", str(self.launch)),
            *("--cluster", "yarn", "--hadoop-conf", record["configuration"]),
            *("--listen", record["coordinator"]),
            *("--node-directory", str(host / "agent")),
            *("--node-state-directory", str(host / "state")),
            *("--node-python", sys.executable),
            *("--session-directory", self.directory.absolute().as_uri()),
        ]

    @property
    def flags(self) -> dict[str, str]:
        """Return the arguments as variables, for a coordinator that a person starts."""
        words = iter(self.arguments)
        pairs = {
            flag[2:].replace("-", "_").upper(): value
            for flag, value in zip(words, words, strict=True)
        }
        config = pairs.pop("CONFIG")
        return {
            "SAMZA_DAGSTER_CONFIG": config,
            **{f"SAMZA_DAGSTER_COORDINATOR_{flag}": value for flag, value in pairs.items()},
        }

    def run(self, command: Sequence[str]) -> int:
        """Run `command` in the cluster's network as a coordinator; return its exit status."""
        programs = self._nodes.directory / "bin"
        path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment = {**self.environment, **self.flags, "PATH": path}
        return subprocess.run(self._nodes.inside(command), env=environment, check=False).returncode

    @property
    def command(self) -> list[str]:
        """Return the command that runs the coordinator in the cluster's network."""
        return [*self._nodes.inside(super().command)]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment, with the cluster's hosts file for the JVM that talks to YARN."""
        hosts = f"-Djdk.net.hosts.file={self._nodes.record['hosts_file']}"
        return {**super().environment, "JAVA_TOOL_OPTIONS": hosts}

    def coordinator_url(self) -> str | None:
        """Return the URL, the same for every leader."""
        address = self._nodes.record.get("coordinator")
        return f"http://{address}" if address else None

    def status(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Return the leader's status with process ids as seen outside of the hosts."""
        # Agents report the ids on their hosts.
        answer = super().status(timeout_s)
        pids = pids_of_executions(self._nodes.directory)
        processors: Mapping[str, Mapping[str, Any]] = answer.get("processors", {})
        of_here = {
            processor_id: {**each, "pid": pids.get(each.get("execution_id") or "")}
            for processor_id, each in processors.items()
        }
        return {**answer, "processors": of_here}

    def read_token(self) -> str:
        """Return the token in the job's session; raise `OSError` without one.

        Raises `ValueError` for a session of another form.
        """
        for file in self.directory.glob("*.session"):
            session: dict[str, Any] = read_json(file) or {}
            return str(session["agents_token"])
        raise FileNotFoundError(f"no session in {self.directory}")
