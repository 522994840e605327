"""The part of a sandbox that runs its job under Samza's own Application Master."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from samza_dagster.agent.procfs import stat_of
from samza_dagster.errors import Refused
from samza_dagster.model import naming
from samza_dagster.sandbox import process
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.launch import MAIN_CLASS
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.runner import read_log
from samza_dagster.sandbox.yarn.cluster import NODE_DIRECTORY, RESOURCE_MANAGER, YarnCluster
from samza_dagster.sandbox.yarn.job import YarnJob
from samza_dagster.sandbox.yarn.namespace import HOLDER, RELAY

_RECORD = "yarn"


class YarnRunner:
    """A real YARN: a ResourceManager, and a NodeManager for each host."""

    jars: tuple[str, ...] = ("yarn", "samza-yarn")

    def __init__(self, registry: Registry) -> None:
        self._directory = registry.directory / "yarn"
        self._registry = registry

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """One for each NodeManager."""
        names = self._registry.read().get("hosts", ())
        return tuple(SimulatedHost(name, self._directory / name) for name in names)

    @property
    def roles(self) -> set[str]:
        """The processes without which it is broken."""
        return {HOLDER, RELAY, RESOURCE_MANAGER, *(host.name for host in self.hosts)}

    def start(
        self,
        config: Mapping[str, str],
        settings: Mapping[str, str],
        memory_mb: int,
        phases: Phases,
    ) -> None:
        """Starts YARN and submits the job; returns when YARN has taken it."""
        hosts = [host.name for host in self.hosts]
        cluster = YarnCluster(
            self._directory,
            hosts,
            servers=config["systems.kafka.producer.bootstrap.servers"],
            memory_mb=memory_mb,
            settings={key: value for key, value in settings.items() if key.startswith("yarn.")},
            on_spawn=self._registry.add,
        )
        with phases.phase(f"YARN, {len(hosts)} nodes"):
            cluster.start()
        with phases.phase("submission"):
            application = YarnJob(cluster, config, settings).submit()
        self._registry.update(yarn={"url": cluster.url, "application": application})

    def processors(self) -> dict[str, dict[str, Any]]:
        """Containers that run, by processor id, as the kernel sees their processes."""
        return containers(self._directory)

    def facts(self, live: Collection[str]) -> dict[str, Any]:
        """Its part of a sandbox's status; `live` are the roles of the processes that run."""
        record = self._registry.read().get(_RECORD, {})
        url = record.get("url") if RESOURCE_MANAGER in live else None
        application = record.get("application")
        return {
            "resource_manager": url,
            "application": application,
            "coordinator_url": f"{url}/proxy/{application}/" if url and application else None,
            "hosts": {
                host.name: {"state": "alive" if host.name in live else "lost"}
                for host in self.hosts
            },
            "processors": self.processors(),
        }

    def container_log(self, host: SimulatedHost, execution_id: str) -> str:
        """All that YARN keeps of a container of that node."""
        logs = sorted(host.directory.glob(f"logs/*/{execution_id}/*"))
        return "".join(read_log(log) for log in logs)

    def lose(self, host: str) -> None:
        """Ends a host at once, with all that runs on it; raises `Refused` for one that doesn't run."""
        live = self._registry.live(host)
        if not live:
            raise Refused("lose a host that runs", seen=f"{host} doesn't", fix="another host")
        process.stop_all(live, grace_s=0.0)

    def stop(self) -> None:
        """Ends what is on record of it; the containers end with their hosts."""
        mine = [record for record in self._registry.live() if record.role in self.roles]
        # `unshare` heeds no SIGTERM, and each host's processes are killed as it ends.
        process.stop_all(mine, grace_s=0.0)


def containers(directory: Path, proc: Path = Path("/proc")) -> dict[str, dict[str, Any]]:
    """Processor id → host, pid, execution id, mode and state, of the YARN below `directory`.

    Where two processes have one id, the one that was started last; a second owner shows in
    `pids`, which has all.
    """
    found: dict[str, dict[str, Any]] = {}
    for pid, environment in sorted(
        java_processes(MAIN_CLASS, proc), key=lambda each: _started(each[0])
    ):
        host = Path(environment.get(NODE_DIRECTORY, "/"))
        processor_id = environment.get("SAMZA_CONTAINER_ID", "")
        if host.parent != directory or not processor_id:
            continue
        earlier = found.get(processor_id, {}).get("pids", [])
        found[processor_id] = {
            "state": "running",
            "host": host.name,
            "pid": pid,
            "pids": [*earlier, pid],
            "execution_id": environment.get("CONTAINER_ID", ""),
            "mode": "Standby" if naming.is_standby(processor_id) else "Active",
        }
    return found


def _started(pid: int) -> int:
    seen = stat_of(pid)
    return 0 if seen is None else seen.start_ticks


def java_processes(
    main_class: str, proc: Path = Path("/proc")
) -> Iterator[tuple[int, dict[str, str]]]:
    """Process id and environment of each JVM that runs this class."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if main_class.encode() not in words or not words[0].endswith(b"java"):
                continue
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        pairs = (each.decode(errors="replace").partition("=") for each in environment.split(b"\0"))
        yield int(entry.name), {key: value for key, _, value in pairs if key}
