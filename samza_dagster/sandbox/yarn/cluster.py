"""ResourceManager and NodeManagers, each NodeManager on a simulated host of its own."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from samza_dagster.agent import procfs
from samza_dagster.errors import ActionFailed, DeadlineExceeded, Refused, Unreachable
from samza_dagster.metadata.resource_manager import Cluster, ResourceManager
from samza_dagster.sandbox import demo_job, process
from samza_dagster.sandbox.artifacts import class_path
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.process import ProcessRecord, log_tail
from samza_dagster.sandbox.properties import filled_in
from samza_dagster.sandbox.registry import wait_until
from samza_dagster.sandbox.yarn.namespace import Namespace
from samza_dagster.sandbox.yarn.processes import NODE_DIRECTORY, java_processes

RESOURCE_MANAGER = "resource-manager"
_ADDRESS = "127.0.1.{}"
_WEB_PORT = 8088
_START_S = 90.0
NODE_MEMORY_MB = 2048
LOST_AFTER_S = 20.0
"""A NodeManager is lost after this silence; YARN's own default is ten minutes."""
_PACKAGE = "org.apache.hadoop.yarn.server"
_RESOURCE_MANAGER = f"{_PACKAGE}.resourcemanager.ResourceManager"
_NODE_MANAGER = f"{_PACKAGE}.nodemanager.NodeManager"
_SCHEDULER = f"{_PACKAGE}.resourcemanager.scheduler.capacity.CapacityScheduler"
_HOST_INIT = Path(__file__).with_name("host_init.py")
_DEATH_S = 10.0
JVM_OPTIONS = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "-Djava.net.preferIPv4Stack=true",
)
_LOG4J = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


class YarnCluster:
    """`nodes` NodeManagers below `directory`, and the ResourceManager.

    `servers` (`host:port,…`) are brokers outside that its containers reach at the same address.
    `both_sides` are addresses in its network with the same address outside. `settings` override
    its `yarn-site`.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[str],
        *,
        servers: str,
        both_sides: Sequence[str] = (),
        memory_mb: int = NODE_MEMORY_MB,
        settings: Mapping[str, str] | None = None,
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self.nodes = {name: _ADDRESS.format(n) for n, name in enumerate(nodes, 1)}
        self._memory_mb = memory_mb
        self._settings = settings or {}
        self._on_spawn = on_spawn
        self._address = _ADDRESS.format(100)
        self.namespace = Namespace(
            self.directory / "namespace",
            servers=servers,
            inside=(f"{self._address}:{_WEB_PORT}",),
            both_sides=both_sides,
            on_spawn=on_spawn,
        )
        self._running: dict[str, ProcessRecord] = {}

    @property
    def url(self) -> str:
        """Return the ResourceManager's URL from outside."""
        return f"http://{self.namespace.outside[0]}"

    @property
    def configuration(self) -> Path:
        """Return `HADOOP_CONF_DIR` for clients of the ResourceManager."""
        return self.directory / "conf"

    @property
    def hosts_file(self) -> Path:
        """Return the file of all hosts' names, for JVMs in the namespace (`jdk.net.hosts.file`)."""
        return self.directory / "hosts"

    def start(self) -> None:
        """Start the cluster; return when the ResourceManager has heard of every node.

        Raises `DeadlineExceeded`, `ActionFailed` with the end of a log, `MissingPrerequisite`.
        """
        self._write()
        self.namespace.start()
        self._spawn_resource_manager()
        for name in self.nodes:
            self.start_node(name)
        self._wait(f"start YARN with {len(self.nodes)} nodes", self._all_run)

    @property
    def programs(self) -> Path:
        """Return the `PATH` entry for commands inside: `yarn application …`, a new submission."""
        return self.directory / "bin"

    def program(self, name: str, command: Sequence[str], more: str = '"$@"') -> None:
        """Write a script that runs `command` followed by the script's own arguments."""
        self.programs.mkdir(parents=True, exist_ok=True)
        script = self.programs / name
        script.write_text(f"#!/bin/sh\nexec {shlex.join(command)} {more}\n")
        script.chmod(0o755)

    def start_node(self, name: str) -> None:
        """Start a host and its NodeManager, also after its loss."""
        command = self._java(self.directory / name / "conf", _NODE_MANAGER, heap_mb=220)
        self._spawn(name, (sys.executable, "-I", str(_HOST_INIT), *command))

    def kill_node_manager(self, name: str) -> None:
        """Kill a NodeManager alone, without its containers. Raise `Refused` where none runs."""
        self._kill(name, _NODE_MANAGER)

    def start_node_manager(self, name: str) -> None:
        """Start a NodeManager again on its host; return when its process is there."""
        (first,) = (s for s in procfs.all_processes() if s.ppid == self._running[name].pid)
        os.kill(first.pid, signal.SIGUSR1)
        self._wait(
            f"start the NodeManager of {name}", lambda: bool(self._pids(name, _NODE_MANAGER))
        )

    def kill_resource_manager(self) -> None:
        """Kill the ResourceManager alone; nodes run on. Raise `Refused` where none runs."""
        self._kill(RESOURCE_MANAGER, _RESOURCE_MANAGER)

    def start_resource_manager(self) -> None:
        """Start the ResourceManager again; return when it answers."""
        self._spawn_resource_manager()
        self._wait("start the ResourceManager", self._is_answering)

    def state(self) -> Cluster:
        """Return the ResourceManager's report on its nodes and the job; raise `Unreachable`."""
        return ResourceManager([self.url]).cluster(demo_job.JOB_NAME, demo_job.JOB_ID)

    def _all_run(self) -> bool:
        for name, record in self._running.items():
            if not record.is_alive:
                raise ActionFailed(f"start {name} of YARN", seen=log_tail(self._log(name)))
        states = self._states()
        return all(states.get(name) == "RUNNING" for name in self.nodes)

    def _is_answering(self) -> bool:
        try:
            self.state()
        except Unreachable:
            return False
        return True

    def _wait(self, asked: str, condition: Callable[[], bool]) -> None:
        if not wait_until(condition, time.monotonic() + _START_S):
            seen = self._states() or log_tail(self._log(RESOURCE_MANAGER))
            raise DeadlineExceeded(asked, seen=f"{seen}", fix=f"see {self.directory}")

    def _pids(self, name: str, main_class: str) -> list[int]:
        here = str(self.directory / name)
        return [pid for pid, its in java_processes(main_class) if its.get(NODE_DIRECTORY) == here]

    def _kill(self, name: str, main_class: str) -> None:
        pids = self._pids(name, main_class)
        if not pids:
            raise Refused(f"kill the {main_class.rpartition('.')[2]} of {name}", seen="none runs")
        for pid in pids:
            record = ProcessRecord.of(name, pid)
            record.send(signal.SIGKILL)
            record.wait(_DEATH_S)

    def _states(self) -> dict[str, str]:
        try:
            return {host: node.state for host, node in self.state().nodes.items()}
        except Unreachable:
            return {}

    def _java(self, conf: Path, main_class: str, *, heap_mb: int) -> tuple[str, ...]:
        return (
            str(find_java().program), f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *JVM_OPTIONS,
            f"-Djdk.net.hosts.file={self.hosts_file}", "-cp", f"{conf}:{class_path('yarn')}", main_class,
        )  # fmt: skip

    def _spawn_resource_manager(self) -> None:
        command = self._java(self.configuration, _RESOURCE_MANAGER, heap_mb=256)
        self._spawn(RESOURCE_MANAGER, command)

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        self._running[name] = process.spawn(
            name,
            self.namespace.command(command, host=name),
            log=self._log(name),
            environment={
                **os.environ,
                "HADOOP_CONF_DIR": str(self.configuration),
                NODE_DIRECTORY: str(self.directory / name),
            },
            on_spawn=self._on_spawn,
        )

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _write(self) -> None:
        # Processes in the namespace outside any host have the machine's own name.
        machine = {"localhost": "127.0.0.1", os.uname().nodename: "127.0.0.1"}
        names = {**machine, **self.nodes, RESOURCE_MANAGER: self._address}
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{address} {name}\n" for name, address in names.items())
        self.hosts_file.write_text("".join(lines))
        _write_configuration(self.configuration, self._all_sites())
        for name in self.nodes:
            own = self._all_sites()
            own["yarn-site"] |= {**self._node_site(name), **self._settings}
            _write_configuration(self.directory / name / "conf", own)

    def _all_sites(self) -> dict[str, dict[str, str]]:
        queue = "yarn.scheduler.capacity.root"
        return {
            "core-site": {
                "fs.defaultFS": "file:///",
                "hadoop.tmp.dir": str(self.directory / "tmp"),
            },
            "capacity-scheduler": {
                f"{queue}.queues": "default",
                f"{queue}.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
                "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
            },
            "yarn-site": {
                "yarn.resourcemanager.hostname": RESOURCE_MANAGER,
                "yarn.resourcemanager.scheduler.class": _SCHEDULER,
                "yarn.resourcemanager.am.max-attempts": "5",
                # For a restarted ResourceManager; YARN's own default is half a minute.
                "yarn.resourcemanager.connect.retry-interval.ms": "1000",
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
                "yarn.nm.liveness-monitor.expiry-interval-ms": str(round(LOST_AFTER_S * 1000)),
                "yarn.am.liveness-monitor.expiry-interval-ms": str(round(LOST_AFTER_S * 1000)),
                "yarn.scheduler.minimum-allocation-mb": "128",
                **self._settings,
            },
        }

    def _node_site(self, name: str) -> dict[str, str]:
        return filled_in(
            "nodemanager.properties",
            name=name,
            directory=self.directory / name,
            memory_mb=self._memory_mb,
            node_directory=NODE_DIRECTORY,
        )


def _write_configuration(directory: Path, sites: Mapping[str, Mapping[str, str]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j.properties").write_text(_LOG4J)
    for name, settings in sites.items():
        properties = "".join(
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        (directory / f"{name}.xml").write_text(f"<configuration>\n{properties}</configuration>\n")
