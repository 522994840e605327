"""A cluster of brokers on this machine, each broker and controller in one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from samza_dagster.errors import ActionFailed
from samza_dagster.sandbox import process
from samza_dagster.sandbox.broker import Broker, Seat, ports_of_one, short_uuid, start_all
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord

_FULL = "No space left on device"
_LINES = 200
"""Lines of a log to search: a broker on a full disk logs that well before its last line."""


class Brokers:
    """`count` brokers below `directory`; a single one has `directory` itself.

    `nodes[i]` has node id `i + 1`. Each node starts and ends by itself: it keeps its ports, and
    gets the cluster's id also after its data directory was emptied. `job_address` has an address
    for each node, separated by commas; for the rest see `Broker`.
    """

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        *,
        authorizer: bool = False,
        job_address: str = "",
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._count = count
        self._authorizer = authorizer
        self._job_addresses = job_address.split(",") if job_address else [""] * count

        def broker(name: str, seat: Seat | None, job_address: str) -> Broker:
            return Broker(
                self.directory / name,
                seat=seat,
                authorizer=authorizer,
                job_address=job_address,
                on_spawn=on_spawn,
            )

        self._broker = broker
        self._started = False
        self.nodes: tuple[Broker, ...] = self._new_nodes()

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all nodes, separated by commas."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def sasl_servers(self) -> str:
        """Return the addresses for clients that log in; with an authorizer alone."""
        return ",".join(node.sasl_servers for node in self.nodes)

    @property
    def job_servers(self) -> str:
        """Return the addresses for the job's coordinator and containers."""
        return ",".join(node.job_servers for node in self.nodes)

    def start(self) -> Self:
        """Start all nodes at once and wait until each answers and knows all others.

        The first start replaces ports that were taken meanwhile. Raises as `Broker.start` does;
        no node is left running then.
        """
        start_all(self.nodes, None if self._started else self._anew)
        self._started = True
        return self

    def require_running(self) -> None:
        """Raise `ActionFailed`, with the end of its log, when a node has ended by itself."""
        for node in self.nodes:
            if node.process.is_alive:
                continue
            asked = f"keep the {node.role} running"
            if _FULL in process.log_tail(node.log, _LINES):
                fix = "free some room there, or point SAMZA_DAGSTER_HOME at another disk"
                raise ActionFailed(asked, seen=f"{_FULL}: {node.directory}", fix=fix)
            raise ActionFailed(asked, seen=process.log_tail(node.log, 3), fix=f"see {node.log}")

    def close(self, grace_s: float = 20.0) -> None:
        """End all nodes at once and confirm their end; kill them after `grace_s`."""
        deadline = time.monotonic() + grace_s
        if grace_s > 0:
            for node in self.nodes:
                node.terminate()
        for node in self.nodes:
            node.close(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _anew(self) -> tuple[Broker, ...]:
        self.nodes = self._new_nodes()
        return self.nodes

    def _new_nodes(self) -> tuple[Broker, ...]:
        """Return nodes that were never started, each with ports that were free a moment ago."""
        each = ports_of_one(authorizer=self._authorizer, job_address=self._job_addresses[0])
        if self._count == 1:
            return (self._broker("", None, self._job_addresses[0]),)
        free = free_ports(each * self._count)
        ports = [free[at : at + each] for at in range(0, len(free), each)]
        voters = ",".join(f"{id_}@{LOOPBACK}:{own[1]}" for id_, own in enumerate(ports, 1))
        cluster_id = short_uuid()
        return tuple(
            self._broker(str(id_), Seat(id_, self._count, own, voters, cluster_id), address)
            for id_, (own, address) in enumerate(zip(ports, self._job_addresses, strict=True), 1)
        )


def directories(directory: Path) -> tuple[Path, ...]:
    """Return the directories of the brokers below `directory`, by their files."""
    several = sorted(path.parent for path in directory.glob("[0-9]*/server.properties"))
    return (*several, directory)
