"""One job on a simulated YARN: the cluster and the coordinator are processes, and end with this one's word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import psutil

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from tests.rig.simulated_yarn import SOCKET
from tests.rig.simulated_yarn.delays import Interval

ROOT = Path(__file__).resolve().parent.parent.parent.parent
RIG = "tests.rig.simulated_yarn"


@dataclass(frozen=True)
class Size:
    """How many containers, each with one standby, on how many nodes.

    `starts` at once are the job's `samza.dagster.max.concurrent.starts`.
    """

    actives: int = 250
    nodes: int = 50
    starts: int = 100
    container_memory_mb: int = 1024
    node_memory_mb: int = 16_384
    node_cores: int = 32

    @property
    def containers(self) -> int:
        """Actives and standbys."""
        return 2 * self.actives


class SimulatedFleet:
    """The processes of one job; `start_coordinator` begins the deployment."""

    def __init__(self, directory: Path, bootstrap_servers: str, name: str, size: Size) -> None:
        self.size = size
        self.connection = Connection(bootstrap_servers=bootstrap_servers, job_name=name, job_id="1")
        self._files = CoordinatorFiles(directory)
        self._socket = directory / "yarn"
        self._children: list[subprocess.Popen[bytes]] = []
        self._properties = {
            "job.name": name,
            "job.id": "1",
            "job.default.system": "kafka",
            "job.coordinator.system": "kafka",
            "systems.kafka.samza.factory": "org.apache.samza.system.kafka.KafkaSystemFactory",
            "systems.kafka.consumer.bootstrap.servers": bootstrap_servers,
            "systems.kafka.producer.bootstrap.servers": bootstrap_servers,
            "task.inputs": f"kafka.{name}-input",
            "job.container.count": str(size.actives),
            "job.standbytasks.replication.factor": "2",
            "job.host-affinity.enabled": "true",
            "cluster-manager.container.memory.mb": str(size.container_memory_mb),
            "samza.dagster.max.concurrent.starts": str(size.starts),
            "stores.s.changelog": f"kafka.{name}-s",
        }

    @property
    def log(self) -> Path:
        """The coordinator's."""
        return self._files.log

    def start_cluster(self) -> None:
        """Nodes without anything on them."""
        self._files.write(self._properties, LaunchTemplate(command=("container",)))
        (self._files.directory / "yarn-site.xml").write_text("<configuration/>")
        input_topic = f"{self.connection.job_name}-input"
        kafka = KafkaCluster(self.connection.bootstrap_servers)
        ensure_topic(kafka, input_topic, partitions=self.size.actives)
        size = self.size
        with (self._socket.parent / "yarn.log").open("ab") as output:
            self.cluster = self._spawn(
                *(RIG, str(self._socket), "--nodes", str(size.nodes)),
                *("--memory-mb", str(size.node_memory_mb), "--cores", str(size.node_cores)),
                output=output,
            )

    def start_coordinator(self) -> psutil.Process:
        """The command's own, but for its `YarnApplication`."""
        with self.log.open("ab") as output:
            started = self._spawn(
                *(f"{RIG}.coordinator", "--config", str(self._files.config)),
                *("--launch", str(self._files.launch), "--cluster", "yarn"),
                *("--hadoop-conf", str(self._files.directory), "--node-directory", "/nowhere"),
                *("--listen", "127.0.0.1:0"),
                output=output,
            )
        return psutil.Process(started.pid)

    def ask(self, name: str, *arguments: object) -> Any:
        """What a method of `SimulatedCluster` returns."""
        with Client(str(self._socket), family="AF_UNIX") as connection:
            connection.send((name, arguments, 0.0))
            done, value = connection.recv()
        if not done:
            raise RuntimeError(value)
        return value

    def running(self) -> dict[str, dict[str, bool]]:
        """See `SimulatedCluster`."""
        return self.ask("running")

    def pending(self, began: float, ended: float) -> list[Interval]:
        """See `SimulatedCluster`."""
        return self.ask("pending", began, ended)

    def is_listening(self) -> bool:
        """The cluster answers."""
        try:
            self.ask("held")
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def close(self) -> None:
        """Kills what was started here; the newest first."""
        for child in reversed(self._children):
            child.kill()
            child.wait(timeout=10)

    def _spawn(self, module: str, *arguments: str, output: Any) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, SOCKET: str(self._socket)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._children.append(child)
        return child


@contextmanager
def simulated_fleet(
    directory: Path, bootstrap_servers: str, name: str, size: Size
) -> Generator[SimulatedFleet]:
    """Leaves no process behind."""
    fleet = SimulatedFleet(directory, bootstrap_servers, name, size)
    try:
        fleet.start_cluster()
        yield fleet
    finally:
        fleet.close()


def shared_hosts(running: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Return the hosts that have two of one group."""
    return [
        host
        for host, processors in running.items()
        if len({each.partition("-")[0] for each in processors}) < len(processors)
    ]
