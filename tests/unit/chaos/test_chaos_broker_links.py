"""Links to the brokers: each party has its own to each, and one that is cut holds what goes that way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.broker_links import COORDINATOR, BrokerLinks
from tests.rig.broker_cluster import unread_at
from tests.rig.proxy import REPLIES, WORDS, Address
from tests.rig.waiting import until
from tests.unit.chaos.test_chaos_links import is_silent

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2")


NODES = (1, 2, 3)


class Ends:
    """Brokers that listen, and links to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.listeners = {node_id: socket.create_server(("127.0.0.1", 0)) for node_id in NODES}
        for listener in self.listeners.values():
            listener.settimeout(10)
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
        client = socket.create_connection(self.resolved(party, node_id), timeout=10)
        broker, _ = self.listeners[node_id].accept()
        broker.settimeout(10)
        return client, broker


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """Closed at the end."""
    found = Ends(tmp_path / "links")
    with found.links:
        yield found
    for listener in found.listeners.values():
        listener.close()


@pytest.mark.parametrize("ways", [(WORDS, REPLIES), (REPLIES,), (WORDS,)])
@pytest.mark.parametrize("party", [COORDINATOR, "host-2"])
def test_a_link_of_the_broker_is_cut_the_way_that_the_fault_says_and_mended(
    ends: Ends, party: str, ways: tuple[str, ...]
) -> None:
    """Connections from before the cut and new ones; what was held arrives late."""
    before = ends.connect(party)
    ends.links.cut(party, ways)
    for client, broker in (before, ends.connect(party)):
        with client, broker:
            client.sendall(b"words")
            broker.sendall(b"replies")
            assert (is_silent(broker), is_silent(client)) == (WORDS in ways, REPLIES in ways)
            ends.links.mend(party)
            if WORDS in ways:
                assert broker.recv(100) == b"words"
            if REPLIES in ways:
                assert client.recv(100) == b"replies"
            ends.links.cut(party, ways)


ALL_LINKS = {(party, node_id) for party in (COORDINATOR, *HOSTS) for node_id in NODES}


@pytest.mark.parametrize(
    ("node_id", "held"),
    [(None, {("host-1", node_id) for node_id in NODES}), (2, {("host-1", 2)})],
    ids=["all brokers", "one broker"],
)
def test_what_is_cut_is_held_and_all_other_links_flow(
    ends: Ends, node_id: int | None, held: set[tuple[str, int]]
) -> None:
    """Each party has a link of its own to each broker."""
    assert len({ends.resolved(*link) for link in ALL_LINKS}) == len(ALL_LINKS)
    ends.links.cut("host-1", (WORDS, REPLIES), node_id)
    for link in ALL_LINKS:
        client, broker = ends.connect(*link)
        with client, broker:
            client.sendall(b"words")
            if link in held:
                assert is_silent(broker)
            else:
                assert broker.recv(100) == b"words"


def test_a_broker_knows_a_partys_connections_by_their_ports(ends: Ends) -> None:
    """What it hasn't read of one party is told from what others sent."""
    client, broker = ends.connect(COORDINATOR, 2)
    other, of_other = ends.connect("host-1", 2)
    with client, broker, other, of_other:
        assert ends.links.ports(COORDINATOR, 2) == {broker.getpeername()[1]}
        assert not ends.links.ports(COORDINATOR, 1)
        port = ends.listeners[2].getsockname()[1]
        other.sendall(b"a word")
        until("it waits", lambda: unread_at(port) == len(b"a word"))
        assert unread_at(port, ends.links.ports(COORDINATOR, 2)) == 0
        client.sendall(b"words")
        until("it waits", lambda: unread_at(port, ends.links.ports(COORDINATOR, 2)) == 5)


def test_the_end_of_a_connection_is_held_as_its_bytes_are(ends: Ends) -> None:
    """A broker that dies behind a cut is silent: no word of it arrives."""
    client, broker = ends.connect("host-1")
    ends.links.cut("host-1", (REPLIES,))
    with client:
        broker.close()
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(10)
        ends.links.heal()
        assert not client.recv(100)


def test_a_host_reports_its_name_as_by_its_agents_file(ends: Ends, tmp_path: Path) -> None:
    """The address of `localhost` alone is another one."""
    from samza_dagster.agent import hosts_file

    hosts_file.write(tmp_path / "hosts", "host-1")
    own = Path(ends.links.hosts_file.replace("{host}", "host-1")).read_text()
    assert own == (tmp_path / "hosts").read_text().replace("127.0.0.1 ", "127.0.1.1 ", 1)
