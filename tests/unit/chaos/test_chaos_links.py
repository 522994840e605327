"""What an agent that lives and its coordinator send each other is held, by the way that is cut."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.cut_links import HELD, CutLinks
from tests.chaos.schedule import KINDS
from tests.rig.proxy import REPLIES, WORDS

pytestmark = pytest.mark.unit

HELD_BACK_S = 0.2
"""For so long nothing is heard: bytes on this machine take far less."""


class Ends:
    """A coordinator that listens, and the URL file of one agent."""

    def __init__(self, directory: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}\n"
        named = directory / "coordinator.url"
        named.write_text(self.url)
        host = directory / "host-1"
        host.mkdir()
        self.links = CutLinks(named, {"host-1": host})
        self.file = self.links.url_file("host-1")

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """As an agent reads the file: its end, the coordinator's end."""
        url = urlsplit(self.file.read_text().strip())
        agent = socket.create_connection((url.hostname or "", url.port or 0), timeout=10)
        coordinator, _ = self.listener.accept()
        coordinator.settimeout(10)
        return agent, coordinator


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """Closed at the end."""
    found = Ends(tmp_path)
    yield found
    found.links.close()
    found.listener.close()


def is_silent(end: socket.socket) -> bool:
    """Nothing arrives there."""
    end.settimeout(HELD_BACK_S)
    try:
        return not end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)


@pytest.mark.parametrize("ways", [(WORDS, REPLIES), (REPLIES,), (WORDS,)])
def test_a_living_agents_link_is_cut_the_way_that_the_fault_says_and_mended(
    ends: Ends, ways: tuple[str, ...]
) -> None:
    """One way alone, or both; what was held arrives late, and nothing is held after it."""
    ends.links.cut("host-1", ways)
    assert ends.file.read_text() != ends.url
    agent, coordinator = ends.connect()
    with agent, coordinator:
        agent.sendall(b"words")
        coordinator.sendall(b"replies")
        words_held, replies_held = is_silent(coordinator), is_silent(agent)
        ends.links.mend("host-1")
        if words_held:
            assert coordinator.recv(100) == b"words"
        if replies_held:
            assert agent.recv(100) == b"replies"
    assert (words_held, replies_held) == (WORDS in ways, REPLIES in ways)
    assert ends.file.read_text() == ends.url


def test_a_link_that_is_not_cut_leads_to_whoever_the_coordinators_file_names(ends: Ends) -> None:
    """Also when another one leads meanwhile; a second cut is as the first."""
    assert ends.file.read_text() == ends.url
    for _ in range(2):
        ends.links.cut("host-1", (WORDS, REPLIES))
        ends.links.heal()
    named = ends.file.resolve()
    named.write_text("http://127.0.0.1:1\n")
    assert ends.file.read_text() == "http://127.0.0.1:1\n"


def test_each_link_of_agents_coordinator_and_containers_is_cut_both_ways_and_either_way() -> None:
    """By the kinds that a schedule draws; what is held is what their names say."""
    assert set(HELD) == {
        kind for kind in KINDS if kind.startswith(("cut off ", "deafen ", "mute "))
    }
    assert HELD["cut off container"] == ("container", (WORDS, REPLIES))
    assert HELD["deafen coordinator"] == ("coordinator", (REPLIES,))
    assert HELD["mute agent"] == ("agent", (WORDS,))
