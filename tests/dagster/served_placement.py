"""The world of `fake_placement` behind a socket: run workers ask it, and an outsider watches.

The world lives in the process of the test, so that what was asked is known whatever becomes of
Dagster's processes. A caller can be held at a gate: the test kills something meanwhile.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import dagster as dg
from fake_placement import BEGIN_MS, STOPPING, FakeClient, World

from samza_dagster.client.responses import terminal
from samza_dagster.client.views import HostView
from samza_dagster.errors import DeadlineExceeded, SamzaDagsterError
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource

DESTINATION = "host-9"
_PEER = struct.Struct("3i")


def wide_world(processors: int) -> World:
    """So many actives without standbys, each on a host of its own, and a host to move to."""
    at = {str(n): f"host-{n + 10}" for n in range(processors)}
    hosts = [*at.values(), DESTINATION]
    return World(
        hosts={h: HostView(h, "alive", free_memory_mb=10_000) for h in hosts},
        at=at,
        now_ms=BEGIN_MS,
    )


class Gate:
    """Holds the caller that comes by; `pid` is whose process it is, by the kernel's word."""

    def __init__(self) -> None:
        self.pid = 0
        self.arrived = threading.Event()
        self._opened = threading.Event()
        self._forgotten = False

    def hold(self, pid: int) -> None:
        """Blocks; raises `EOFError` when what was asked shall never have been heard."""
        self.pid = pid
        self.arrived.set()
        if not self._opened.wait(3_600) or self._forgotten:
            raise EOFError

    def open(self, *, forget: bool = False) -> None:
        """Lets the caller go on, or drops what it asked because its process is dead."""
        self._forgotten = forget
        self._opened.set()


class _Session(FakeClient):
    """What one connection does; the wait is the caller's, one answer at a time."""

    def next_response(self, uuid: str, first: bool) -> PlacementResponse | None:
        if first:
            known = list(self.world.answers.get(uuid, []))
            self._todo = known if uuid in self._wrote else known[-1:]
        return self._todo.pop(0) if self._todo else self.world.go_on(uuid)

    def boundary(self, name: str, given: tuple[Any, ...]) -> tuple[str, str]:
        """Processor and boundary between ops that a call is at; empty when at none."""
        if name == "reserve":
            return given[0], "plan|reserve"
        if name == "commit":
            return self.world.requests[given[0]].processor_id, "reserve|stop"
        if name == "next_response" and given[1]:
            answers = self.world.answers.get(given[0]) or []
            if answers and (answers[-1].status_code, answers[-1].response_message) == STOPPING:
                return answers[-1].processor_id, "stop|move"
        if name == "processing":
            return given[0], "move|verify"
        return "", ""


class PlacementServer:
    """Serves one world on a socket file, a thread for each caller."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path
        self.calls: Counter[tuple[str, str]] = Counter()
        self._gates: dict[tuple[str, str], Gate] = {}
        self._lock = threading.Lock()
        self._listener = Listener(str(path), family="AF_UNIX", backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def gate(self, processor: str, boundary: str) -> Gate:
        """A gate for the next caller at a boundary."""
        self._gates[(processor, boundary)] = made = Gate()
        return made

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        pid, session = _peer(connection), _Session(self.world)
        with connection:
            while True:
                try:
                    name, given, named = connection.recv()
                    connection.send(self._do(session, pid, name, given, named))
                except (EOFError, OSError):
                    return

    def _do(
        self, session: _Session, pid: int, name: str, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[str, Any]:
        with self._lock:
            at = session.boundary(name, given)
            gate = self._gates.pop(at, None)
        if gate is not None:
            gate.hold(pid)
        with self._lock:
            if at[0]:
                self.calls[at] += 1
            try:
                return "value", getattr(session, name)(*given, **named)
            except SamzaDagsterError as error:
                return "error", (type(error), error.asked, error.seen, error.fix)


def _peer(connection: Connection) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        told = same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(told)[0])


class ServedClient:
    """`Placement` over a served world."""

    def __init__(self, path: str) -> None:
        self._connection = Client(path, family="AF_UNIX")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._connection.send((name, given, named))
            what, told = self._connection.recv()
            if what == "error":
                kind, asked, seen, fix = told
                raise kind(asked, seen=seen, fix=fix)
            return told

        return call

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
        until: Callable[[PlacementResponse], bool] = terminal,
    ) -> PlacementResponse:
        first = True
        while True:
            response = self.next_response(uuid, first)
            if response is None:
                raise DeadlineExceeded("the outcome", seen="it waits for its commit")
            first = False
            if on_response is not None:
                on_response(response)
            if until(response):
                return response

    def close(self) -> None:
        self._connection.close()


class ServedSamza(SamzaClientResource):
    """The resource; `bootstrap_servers` is the socket's path."""

    def open_client(self) -> ServedClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ServedClient(self.bootstrap_servers)


def served_definitions(path: str) -> dg.Definitions:
    """The product's own jobs over a served world."""
    return dg.Definitions(
        jobs=placement_jobs("demo/1"),
        resources={
            "samza": ServedSamza(bootstrap_servers=path, job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=30, lag_limit=100),
        },
    )


def requests_of(world: World, processor: str) -> list[PlacementRequest]:
    """What was asked for a processor, each UUID once."""
    return [r for r in world.requests.values() if r.processor_id == processor]
