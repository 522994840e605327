"""Worlds behind a socket: run workers ask them, and an outsider watches, holds and kills.

They live in the process of the test, so that what was asked is known whatever becomes of
Dagster's processes. A caller that comes to its row's gate is held there, or its process killed.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from served_client import OP_ENDED, RETURNED

from samza_dagster.client import PlacementClient
from samza_dagster.errors import SamzaDagsterError
from tests.rig.bounce_world import BounceWorld
from tests.rig.stepped_job import SteppedJob

AnyWorld = SteppedJob | BounceWorld
_PEER = struct.Struct("3i")


@dataclass(frozen=True)
class Point:
    """Where a row's gate stands: `after <op>`, or a call, as `place 0`, the first one of a row.

    `heard`: the call has had its effect, and its caller is never told.
    """

    what: str
    heard: bool = False

    def __str__(self) -> str:
        """For a test's name."""
        if self.is_boundary:
            return self.what
        return f"when {self.what} is heard" if self.heard else f"before {self.what}"

    @property
    def is_boundary(self) -> bool:
        """Between two ops."""
        return self.what.startswith("after ")


class Gate:
    """Holds the caller that comes to its point."""

    def __init__(self, point: Point, *, kills: bool = False, goes_on: bool = False) -> None:
        """`kills`: by SIGKILL, at once; `goes_on`: the coordinator then ends what it was asked."""
        self.point = point
        self.kills = kills
        self.goes_on = goes_on
        self.command_line = ""
        self.arrived = threading.Event()
        self._opened = threading.Event()

    def hold(self, pid: int) -> None:
        """Blocks; raises `EOFError` when the caller's process is dead. `pid` is by the kernel's word."""
        self.command_line = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        if self.kills:
            os.kill(pid, signal.SIGKILL)
        self.arrived.set()
        if self.kills or not self._opened.wait(3_600):
            raise EOFError

    def open(self) -> None:
        """Lets the caller go on."""
        self._opened.set()


@dataclass(frozen=True)
class _Caller:
    """A process that has connected for its row; `pid` by the kernel's word."""

    connection: Connection
    row: str
    client: PlacementClient
    pid: int


class PlacementServer:
    """Serves the worlds of the rows on a socket file, a thread for each caller.

    `calls` counts what was called: (row, `after <op>`) and (row, `<call> <processor>`).
    `faults` are what no caller should ever have met.
    """

    def __init__(self, worlds: Mapping[str, AnyWorld], path: Path) -> None:
        self.worlds = worlds
        self.path = path
        self.calls: Counter[tuple[str, str]] = Counter()
        self.gates: dict[str, Gate] = {}
        self.faults: list[str] = []
        self._lock = threading.Lock()
        self._listener = Listener(str(path), family="AF_UNIX", backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

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
        pid = _peer(connection)
        with connection:
            try:
                row = connection.recv()
                caller = _Caller(connection, row, self.worlds[row].client(), pid)
                while True:
                    self._answer(caller, connection.recv())
            except (EOFError, OSError):
                return

    def _answer(self, caller: _Caller, asked: tuple[Any, ...]) -> None:
        name, given, named, back = asked
        named |= {key: self._calling(caller, key) for key in back}
        caller.connection.send(self._do(caller, name, given, named))

    def _calling(self, caller: _Caller, key: str) -> Callable[..., Any]:
        """What the caller has given by that name: it is called in its own process, which may ask meanwhile."""

        def call(*given: Any) -> Any:
            self._lock.release()
            try:
                caller.connection.send(("call", (key, given)))
                while (told := caller.connection.recv())[0] != RETURNED:
                    self._answer(caller, told)
                return told[1]
            finally:
                self._lock.acquire()

        return call

    def _do(
        self, caller: _Caller, name: str, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[str, Any]:
        row, world = caller.row, self.worlds[caller.row]
        with self._lock:
            what = _told(world, name, given)
            self.calls[row, what] += 1
            gate = self.gates.get(row)
            if gate is not None and (gate.point.what != what or self.calls[row, what] != 1):
                gate = None
        if gate is not None and not gate.point.heard:
            self._hold(gate, world, caller.pid)
        answer = self._effect(caller, name, given, named)
        if gate is not None and gate.point.heard:
            self._hold(gate, world, caller.pid)
        return answer

    def _hold(self, gate: Gate, world: AnyWorld, pid: int) -> None:
        try:
            gate.hold(pid)
        finally:
            if gate.goes_on and isinstance(
                world, SteppedJob
            ):  # the other kind goes on with the clock
                with self._lock:
                    _go_on_alone(world)

    def _effect(
        self, caller: _Caller, name: str, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[str, Any]:
        if name == OP_ENDED:
            return "value", None
        world = self.worlds[caller.row]
        with self._lock:
            if isinstance(world, BounceWorld):
                world.now_ms = time.time_ns() // 1_000_000
            try:
                return "value", getattr(caller.client, name)(*given, **named)
            except SamzaDagsterError as error:
                return "error", (type(error), error.asked, error.seen, error.fix)
            except (EOFError, OSError):  # its process is dead
                raise
            except Exception as error:
                self.faults.append(f"{caller.row}: {name} {given}: {error!r}")
                raise EOFError from error


def _told(world: AnyWorld, name: str, given: tuple[Any, ...]) -> str:
    """A call and whom it is about."""
    if name == OP_ENDED:
        return f"after {given[0]}"
    about = given[0] if given else ""
    if about not in world.requests:
        return f"{name} {about}".strip()
    request = world.requests[about]
    processor = request.processor_id if isinstance(world, SteppedJob) else request.processor
    return f"{name} {processor}"


def _go_on_alone(world: SteppedJob) -> None:
    """The coordinator needs nobody to wait for it: only a commit does it wait for."""
    for uuid in world.requests:
        while not (world.answers.get(uuid) and world.answers[uuid][-1].status_code.is_terminal):
            if world.go_on(uuid) is None:
                break


def _peer(connection: Connection) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        told = same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(told)[0])
