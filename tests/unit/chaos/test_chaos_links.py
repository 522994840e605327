"""What is cut holds what goes that way, and nothing else; what was held arrives late."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.broker_links import COORDINATOR, BrokerLinks
from tests.rig.proxy import REPLIES, WORDS, Address

pytestmark = pytest.mark.unit

WAYS = [(WORDS, REPLIES), (REPLIES,), (WORDS,)]
HELD_BACK_S = 0.2
"""For so long nothing is heard: bytes on this machine take far less."""
HOSTS, NODES = ("host-1", "host-2"), (1, 2, 3)
ALL_LINKS = {(party, node_id) for party in (COORDINATOR, *HOSTS) for node_id in NODES}


def listening() -> socket.socket:
    """A server's listener."""
    found = socket.create_server(("127.0.0.1", 0))
    found.settimeout(10)
    return found


def connected(to: Address, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """The client's end, the server's end."""
    client = socket.create_connection(to, timeout=10)
    server, _ = listener.accept()
    server.settimeout(10)
    return client, server


def is_silent(end: socket.socket) -> bool:
    """Nothing arrives there."""
    end.settimeout(HELD_BACK_S)
    try:
        return not end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)


class Brokers:
    """Brokers that listen, and links to them."""

    def __init__(self, directory: Path) -> None:
        self.listeners = {node_id: listening() for node_id in NODES}
        self.links = BrokerLinks(
            directory, HOSTS, {n: each.getsockname for n, each in self.listeners.items()}
        )

    def resolved(self, party: str, node_id: int = 1) -> Address:
        """As the party's own resolver reads what the broker tells everybody."""
        name, port = self.links.addresses.split(",")[node_id - 1].split(":")
        if party == COORDINATOR:
            return socket.gethostbyname(name), int(port)
        lines = Path(self.links.hosts_file.replace("{host}", party)).read_text().splitlines()
        (address,) = [line.split()[0] for line in lines if name in line.split()[1:]]
        return address, int(port)

    def connect(self, party: str, node_id: int = 1) -> tuple[socket.socket, socket.socket]:
        """The client's end, the broker's end."""
        return connected(self.resolved(party, node_id), self.listeners[node_id])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Closed at the end."""
    found = Brokers(tmp_path / "links")
    with found.links:
        yield found
    for listener in found.listeners.values():
        listener.close()


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("party", [COORDINATOR, "host-2"])
def test_a_link_of_the_broker_is_cut_the_way_that_the_fault_says_and_mended(
    brokers: Brokers, party: str, ways: tuple[str, ...]
) -> None:
    """Connections from before the cut and new ones; what was held arrives late."""
    before = brokers.connect(party)
    brokers.links.cut(party, ways)
    for client, broker in (before, brokers.connect(party)):
        with client, broker:
            client.sendall(b"words")
            broker.sendall(b"replies")
            assert (is_silent(broker), is_silent(client)) == (WORDS in ways, REPLIES in ways)
            brokers.links.mend(party)
            if WORDS in ways:
                assert broker.recv(100) == b"words"
            if REPLIES in ways:
                assert client.recv(100) == b"replies"
            brokers.links.cut(party, ways)


@pytest.mark.parametrize(
    ("node_id", "held"),
    [(None, {("host-1", node_id) for node_id in NODES}), (2, {("host-1", 2)})],
    ids=["all brokers", "one broker"],
)
def test_what_is_cut_is_held_and_all_other_links_flow(
    brokers: Brokers, node_id: int | None, held: set[tuple[str, int]]
) -> None:
    """Each party has a link of its own to each broker."""
    assert len({brokers.resolved(*link) for link in ALL_LINKS}) == len(ALL_LINKS)
    brokers.links.cut("host-1", (WORDS, REPLIES), node_id)
    for link in ALL_LINKS:
        client, broker = brokers.connect(*link)
        with client, broker:
            client.sendall(b"words")
            if link in held:
                assert is_silent(broker)
            else:
                assert broker.recv(100) == b"words"
