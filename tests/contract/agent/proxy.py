"""A network between agents and their coordinator that holds bytes back, one way at a time.

What is held isn't lost: it arrives when it is let go, as a TCP segment that is sent again does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

WORDS, REPLIES = "words", "replies"
"""From the agents to the coordinator, and back."""


class Link:
    """One connection of an agent, and what is held of it."""

    def __init__(self, proxy: Proxy, agent: socket.socket, coordinator: socket.socket) -> None:
        self._proxy = proxy
        self.held: set[str] = set(proxy.held)
        self.kept = {WORDS: b"", REPLIES: b""}
        self.ended = False
        self._ends = (agent, coordinator)
        for way, source, target in ((WORDS, agent, coordinator), (REPLIES, coordinator, agent)):
            threading.Thread(target=self._pump, args=(way, source, target), daemon=True).start()

    def _pump(self, way: str, source: socket.socket, target: socket.socket) -> None:
        changed = self._proxy.changed
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                with changed:
                    if self._proxy.delays(way, data):
                        self.held.add(way)
                    self.kept[way] += data
                    changed.wait_for(lambda: self.ended or way not in self.held)
                    self.kept[way] = b""
                if self.ended:
                    return
                target.sendall(data)
        self.cut()

    def cut(self) -> None:
        """Both ends see it closed; what is held of it is lost."""
        with self._proxy.changed:
            self.ended = True
            self._proxy.changed.notify_all()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        """What is held arrives now."""
        with self._proxy.changed:
            self.held.clear()
            self._proxy.changed.notify_all()


class Proxy:
    """Listens where `url_file` says from now on; each new connection leads to where `behind` does."""

    def __init__(self, url_file: Path, behind: Path) -> None:
        self.changed = threading.Condition()
        self.held: set[str] = set()
        self._delayed: tuple[str, bytes] | None = None
        self.links: list[Link] = []
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0))
        url_file.write_text(f"http://127.0.0.1:{self._listener.getsockname()[1]}\n")
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            url = urlsplit(self._behind.read_text().strip())
            try:
                coordinator = socket.create_connection((url.hostname or "", url.port or 0))
            except OSError:
                agent.close()
                continue
            with self.changed:
                self.links.append(Link(self, agent, coordinator))

    def hold(self, way: str) -> None:
        """On every connection, also on those to come."""
        with self.changed:
            self.held.add(way)
            for link in self.links:
                link.held.add(way)

    def delay(self, way: str, what: bytes) -> None:
        """Holds up the connection on which this comes next, from there on."""
        with self.changed:
            self._delayed = (way, what)

    def delays(self, way: str, data: bytes) -> bool:
        """Whether that is in these bytes."""
        return self._delayed is not None and self._delayed[0] == way and self._delayed[1] in data

    def heal(self) -> None:
        """Everything flows, what was held first."""
        self.open()
        for link in self.links:
            link.let_go()

    def open(self) -> None:
        """New connections flow; what is held of others stays so."""
        with self.changed:
            self.held.clear()
            self._delayed = None

    def live(self, of: Callable[[Link], bool] = lambda _: True) -> list[Link]:
        """The connections that haven't ended."""
        with self.changed:
            return [link for link in self.links if not link.ended and of(link)]

    def close(self) -> None:
        """Ends every connection."""
        self._listener.close()
        for link in self.live():
            link.cut()
