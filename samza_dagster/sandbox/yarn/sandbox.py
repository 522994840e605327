"""The part of a sandbox that runs its job under Samza's own Application Master."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from samza_dagster.errors import Refused
from samza_dagster.sandbox import process
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.yarn.cluster import RESOURCE_MANAGER, YarnCluster
from samza_dagster.sandbox.yarn.containers import containers
from samza_dagster.sandbox.yarn.job import YarnJob
from samza_dagster.sandbox.yarn.namespace import HOLDER, RELAY

_RECORD = "yarn"


class YarnSandbox:
    """What `registry` says of it is all that another process needs to look at it or end it."""

    def __init__(self, directory: Path, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    @property
    def hosts(self) -> tuple[SimulatedHost, ...]:
        """One for each NodeManager on record."""
        names = self._registry.read().get(_RECORD, {}).get("hosts", ())
        return tuple(SimulatedHost(name, self._directory / name) for name in names)

    @property
    def roles(self) -> set[str]:
        """The processes without which it is broken."""
        return {HOLDER, RELAY, RESOURCE_MANAGER, *(host.name for host in self.hosts)}

    def start(
        self, hosts: Sequence[str], memory_mb: int, config: Mapping[str, str], phases: Phases
    ) -> None:
        """Starts YARN and submits the job; returns when YARN has taken it.

        `memory_mb` is each host's for containers, MiB. Raises what the parts raise.
        """
        servers = config["systems.kafka.producer.bootstrap.servers"]
        self._registry.update(yarn={"hosts": list(hosts)})
        cluster = YarnCluster(
            self._directory,
            hosts,
            servers=servers,
            memory_mb=memory_mb,
            on_spawn=self._registry.add,
        )
        with phases.phase(f"YARN, {len(hosts)} nodes"):
            cluster.start()
        with phases.phase("submission"):
            application = YarnJob(cluster, config).submit()
        self._registry.update(
            yarn={"hosts": list(hosts), "url": cluster.url, "application": application}
        )

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
