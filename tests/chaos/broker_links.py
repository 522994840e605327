"""Links of a job's own clients to their brokers, held back one way or both.

Each broker's listener for them tells one name, `localhost`, and a port of its own. To the
coordinator the name is 127.0.0.1; to a JVM it is what its host's hosts file says, an address of
that host alone. So each party has a proxy of its own to each broker on every connection,
whenever it is opened and to whomever it logs in as.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from samza_dagster.agent import hosts_file
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from tests.rig.proxy import Address, Proxy

BROKER_LINK = "broker link of "
"""With the party it is what a fault of its links claims."""
_NAME, _LOOPBACK = "localhost", "127.0.0.1"
_ATTEMPTS = 20


class BrokerLinks:
    """Of the coordinators, together, and of the containers of each host.

    `behind` says by node id where a broker's listener for them is, or raises `OSError` before
    there is one. Their hosts files are kept in `directory`.
    """

    def __init__(
        self, directory: Path, hosts: Sequence[str], behind: Mapping[int, Callable[[], Address]]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        addresses = {COORDINATOR: _LOOPBACK}
        for number, host in enumerate(hosts, 1):
            addresses[host] = f"127.0.1.{number}"
            file = directory / f"{host}.hosts"
            hosts_file.write(file, host)
            own = file.read_text().replace(_LOOPBACK, addresses[host], 1)
            file.write_text(own)
        self.hosts_file = str(directory / "{host}.hosts")
        """What JVMs have to resolve names by."""
        self._proxies: dict[tuple[str, int], Proxy] = {}
        told: list[str] = []
        for node_id, listener_of in behind.items():
            listeners = _listeners(addresses.values())
            told.append(f"{_NAME}:{listeners[0].getsockname()[1]}")
            for party, listener in zip(addresses, listeners, strict=True):
                self._proxies[party, node_id] = Proxy(listener, listener_of)
        self.addresses = ",".join(told)
        """What each broker has to tell its clients, separated by commas."""

    def cut(self, party: str, ways: Iterable[str], node_id: int | None = None) -> None:
        """Nothing arrives these ways, on any of its connections to that broker; to all when None."""
        for way in ways:
            for proxy in self._of(party, node_id):
                proxy.hold(way)

    def mend(self, party: str) -> None:
        """What was held arrives, and all that comes."""
        for proxy in self._of(party):
            proxy.heal()

    def heal(self) -> None:
        """Every link."""
        for proxy in self._proxies.values():
            proxy.heal()

    def ports(self, party: str, node_id: int) -> set[int]:
        """Where that broker sees the party's connections come from."""
        return {link.port for proxy in self._of(party, node_id) for link in proxy.live()}

    def _of(self, party: str, node_id: int | None = None) -> list[Proxy]:
        return [
            proxy
            for (name, number), proxy in self._proxies.items()
            if name == party and node_id in (None, number)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
