"""Links of a job's own clients to their broker, held back one way or both.

The broker's listener for them tells one name, `localhost`. To the coordinator that is
127.0.0.1; to a JVM it is what its host's hosts file says, an address of that host alone. So
each party has a proxy of its own on every connection, whenever it is opened and to whomever
it logs in as.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from samza_dagster.agent import hosts_file
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from tests.rig.proxy import Address, Proxy

_NAME, _LOOPBACK = "localhost", "127.0.0.1"
_ATTEMPTS = 20


class BrokerLinks:
    """Of the coordinators, together, and of the containers of each host.

    `behind` says where the broker's listener for them is, or raises `OSError` before there is
    one. Their hosts files are kept in `directory`.
    """

    def __init__(
        self, directory: Path, hosts: Sequence[str], behind: Callable[[], Address]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        addresses = {COORDINATOR: _LOOPBACK}
        for number, host in enumerate(hosts, 1):
            addresses[host] = f"127.0.1.{number}"
            file = directory / f"{host}.hosts"
            hosts_file.write(file, host)
            own = file.read_text().replace(_LOOPBACK, addresses[host], 1)
            file.write_text(own)
        listeners = _listeners(addresses.values())
        self.address = f"{_NAME}:{listeners[0].getsockname()[1]}"
        """What the broker has to tell its clients."""
        self.hosts_file = str(directory / "{host}.hosts")
        """What JVMs have to resolve names by."""
        self._proxies = {
            party: Proxy(listener, behind)
            for party, listener in zip(addresses, listeners, strict=True)
        }

    def cut(self, party: str, ways: Iterable[str]) -> None:
        """Nothing arrives these ways, on any of its connections."""
        for way in ways:
            self._proxies[party].hold(way)

    def mend(self, party: str) -> None:
        """What was held arrives, and all that comes."""
        self._proxies[party].heal()

    def heal(self) -> None:
        """Every link."""
        for party in self._proxies:
            self.mend(party)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.heal()
        for proxy in self._proxies.values():
            proxy.close()


def _listeners(addresses: Iterable[str]) -> list[socket.socket]:
    """One at each address, all on the same port."""
    first, *others = addresses
    for attempt in range(_ATTEMPTS):
        found = [socket.create_server((first, 0))]
        port = found[0].getsockname()[1]
        try:
            for address in others:
                found.append(socket.create_server((address, port)))
        except OSError:
            for each in found:
                each.close()
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return found
    raise AssertionError("unreachable")
