"""A network in front of a server that holds bytes back, one way at a time.

What is held isn't lost: it arrives when it is let go, as a TCP segment that is sent again does.
So does an end of what is held: it is seen when the way is free.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

WORDS, REPLIES = "words", "replies"
"""From those who connect (agents, Kafka's clients) to the server, and back."""
Address = tuple[str, int]


class Link:
    """One connection, and what is held of it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self.held: set[str] = set(proxy.held)
        self.kept = {WORDS: b"", REPLIES: b""}
        self.ended = False
        self.port: int = server.getsockname()[1]
        """Where the server sees it come from."""
        self._ends = (client, server)
        self._pumps = 2
        for way, source, target in ((WORDS, client, server), (REPLIES, server, client)):
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
                    break
                target.sendall(data)
        with changed:
            changed.wait_for(lambda: self.ended or way not in self.held)
        self.cut()
        with changed:
            self._pumps -= 1
            if self._pumps == 0:
                for end in self._ends:
                    end.close()

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
    """Takes connections at `listener`, which it owns; each new one leads to where `behind` says.

    An `OSError` of `behind` is as a server that isn't there.
    """

    def __init__(self, listener: socket.socket, behind: Callable[[], Address]) -> None:
        self.changed = threading.Condition()
        self.held: set[str] = set()
        self._delayed: tuple[str, bytes] | None = None
        self.links: list[Link] = []
        self._behind = behind
        self._listener = listener
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def of_urls(cls, url_file: Path, behind: Path) -> Proxy:
        """Listens where `url_file` says from now on; leads to the URL in the file `behind`."""

        def address() -> Address:
            url = urlsplit(behind.read_text().strip())
            return url.hostname or "", url.port or 0

        listener = socket.create_server(("127.0.0.1", 0))
        url_file.write_text(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        return cls(listener, address)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._behind())
            except OSError:
                client.close()
                continue
            for end in (client, server):  # each sends small requests and waits for the answer
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.changed:
                self.links = [link for link in self.links if not link.ended]
                self.links.append(Link(self, client, server))

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
        for link in self.live():
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
        """Takes no more connections, and ends every one."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else who accepts keeps it open
        self._listener.close()
        for link in self.live():
            link.cut()
