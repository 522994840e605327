"""A broker that tells its clients, for a while, that the cluster has no brokers.

So a broker answers that its controller has fenced, as one that was frozen for longer than
its session: topics it has, brokers none. librdkafka since 2.10 then lets go of every broker
it knows, the bootstrap servers too. With `metadata.recovery.strategy` `none` it never finds one
again; with its default, `rebootstrap`, that happens too, now and then (librdkafka's
issue 5301). `LOST_FOR_GOOD` has it happen always.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from tests.rig.waiting import until

LOST_FOR_GOOD = {
    "metadata.recovery.strategy": "none",
    "topic.metadata.refresh.interval.ms": "200",
}
"""Settings of a client that asks for the brokers all the time, and can't come back by itself."""
_METADATA = 3
_FLEXIBLE = 9
"""The first version of Metadata whose answer has lengths as varints."""
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")


class BrokerList:
    """Stands before a broker (`servers`: its plaintext `host:port`) that tells clients its address."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(":")
        self._behind = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._own = ("127.0.0.1", int(self._listener.getsockname()[1]))
        self._empty = threading.Event()
        self._told = threading.Event()
        self._links: set[socket.socket] = set()
        self._asking: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def servers(self) -> str:
        """What clients have to connect to."""
        return f"{self._own[0]}:{self._own[1]}"

    @contextmanager
    def empty(self) -> Generator[threading.Event]:
        """Whoever asks for topics meanwhile hears of no broker; the event is set once somebody has.

        An answer without topics, too, does no harm: librdkafka asks again.
        """
        self._told.clear()
        self._empty.set()
        try:
            yield self._told
        finally:
            self._empty.clear()

    def lose(self) -> None:
        """Returns when a client that asks for its topic now and then has let go of its broker."""
        with self.empty():
            until("a client heard of no broker", self._told.is_set)
            until("it let go of its own", lambda: not self._asking & self._links)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else who accepts keeps it open
        self._listener.close()
        for client in list(self._links):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        until("every link has ended", lambda: not self._links)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._behind)
                asked: dict[int, tuple[int, int]] = {}
                self._links.add(client)
                threading.Thread(
                    target=self._ask, args=(client, server, asked), daemon=True
                ).start()
                threading.Thread(
                    target=self._link, args=(client, server, asked), daemon=True
                ).start()

    def _link(
        self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        self._answer(client, server, asked)
        self._links.discard(client)

    def _ask(
        self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with _both_end(client, server):
            while True:
                request = _frame(client)
                kind, version, number = _REQUEST.unpack_from(request)
                asked[number] = (kind, version)
                server.sendall(_LENGTH.pack(len(request)) + request)

    def _answer(
        self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with _both_end(client, server):
            while True:
                answer = _frame(server)
                kind, version = asked.pop(_LENGTH.unpack_from(answer)[0])
                answer = answer.replace(_address(self._behind), _address(self._own))
                if kind == _METADATA and self._empty.is_set():
                    assert version >= _FLEXIBLE, f"Metadata version {version}"
                    answer, of_topics = _without_brokers(answer)
                    if of_topics:
                        self._asking.add(client)
                        self._told.set()
                client.sendall(_LENGTH.pack(len(answer)) + answer)


@contextmanager
def _both_end(*ends: socket.socket) -> Generator[None]:
    """Who sees one of them end ends the other."""
    with contextlib.suppress(OSError):
        yield
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_read(source, _LENGTH.size))
    return _read(source, length)


def _read(source: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        data = source.recv(length - len(found))
        if not data:
            raise ConnectionResetError
        found += data
    return found


def _address(address: tuple[str, int]) -> bytes:
    return address[0].encode() + _LENGTH.pack(address[1])


def _without_brokers(answer: bytes) -> tuple[bytes, bool]:
    """Of an answer of one broker all that tells of it is cut out; whether it has topics."""
    at = _LENGTH.size + 1 + _LENGTH.size  # number, no tags, throttle
    assert answer[at] == 2, "one broker was expected"
    host = at + 1 + _LENGTH.size
    rack = host + answer[host] + _LENGTH.size
    cluster = rack + max(answer[rack], 1) + 1
    topics = cluster + max(answer[cluster], 1) + _LENGTH.size
    return answer[:at] + b"\x01" + answer[cluster:], answer[topics] > 1
