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
"""Of a log: a broker on a full disk says so well before its last line."""


class Brokers:
    """`count` brokers below `directory`; one alone lives in `directory` itself.

    `nodes[i]` has node id `i + 1` and is started, ended and started again by itself: it
    keeps its ports, and gets the cluster's id also where its data directory was emptied.
    `job_address` has one address for each, separated by commas; else see `Broker`.
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
        self.nodes: tuple[Broker, ...] = self._seated()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all, separated by commas."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def sasl_servers(self) -> str:
        """Addresses of all for clients that log in; with an authorizer alone."""
        return ",".join(node.sasl_servers for node in self.nodes)

    @property
    def job_servers(self) -> str:
        """Where the job's coordinator and containers find them."""
        return ",".join(node.job_servers for node in self.nodes)

    def start(self) -> Self:
        """Starts all at once and waits until each answers and knows all the others.

        The first start looks for other ports than those that were taken meanwhile. Raises
        as `Broker.start` does; none is left running then.
        """
        start_all(self.nodes, None if self._started else self._anew)
        self._started = True
        return self

    def need(self) -> None:
        """Raises `ActionFailed`, with what its log says, when one has ended by itself."""
        for node in self.nodes:
            if node.process.is_alive:
                continue
            asked = f"keep the {node.role} running"
            if _FULL in process.log_tail(node.log, _LINES):
                fix = "free some room there, or point SAMZA_DAGSTER_HOME at another disk"
                raise ActionFailed(asked, seen=f"{_FULL}: {node.directory}", fix=fix)
            raise ActionFailed(asked, seen=process.log_tail(node.log, 3), fix=f"see {node.log}")

    def close(self, grace_s: float = 20.0) -> None:
        """Ends all at once and confirms that they are gone; killed after `grace_s`."""
        deadline = time.monotonic() + grace_s
        if grace_s > 0:
            for node in self.nodes:
                node.tell_to_end()
        for node in self.nodes:
            node.close(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _anew(self) -> tuple[Broker, ...]:
        self.nodes = self._seated()
        return self.nodes

    def _seated(self) -> tuple[Broker, ...]:
        """As many that were never started, each with ports that were free a moment ago."""
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
    """Where the brokers below `directory` live, by what one or several have left there."""
    several = sorted(path.parent for path in directory.glob("[0-9]*/server.properties"))
    return (*several, directory)
