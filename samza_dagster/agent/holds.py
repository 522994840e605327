"""Containers of the cluster's engine (YARN) that hold resources, and become our wardens.

A hold is a process that the engine started in a container of its own. It connects to the agent
of its node, tells the engine's id of that container, and waits. When an incarnation is to run
on these resources, the agent sends the incarnation's directory, and the same process becomes
the warden: so the engine counts what the container uses, and can end it.

Both sides are here. The agent listens on `holds.sock` in its directory, and the kernel says
which process has connected. Each side sends one line of JSON: the hold
`{"version": 1, "hold": "<id>"}`, the agent `{"incarnation": "<directory>"}` or
`{"end": "<why>"}`. The connection stays open until the warden's container runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple

from samza_dagster.agent import procfs
from samza_dagster.agent.holdings import Holdings
from samza_dagster.agent.protocol import VERSION, ProtocolError, check_name, is_understood
from samza_dagster.agent.roster import Roster
from samza_dagster.agent.wakeup import WakeUp
from samza_dagster.agent.warden import Warden

LOG = logging.getLogger("samza_dagster.agent")

SOCKET = "holds.sock"
BACK_WITHIN_S = 10.0
"""A hold that lost its connection is back by then, or its process has ended."""
NAMED_WITHIN_S = 60.0
"""A reservation names a hold by then, or the coordinator knows nothing of it."""
_RECONNECT_S = 0.5
_AGENTLESS_S = 600.0
_ACCEPT_AGAIN_S = 1.0
_REMEMBERED = 10_000
_MAX_HELLO = 1024


@contextlib.contextmanager
def _address(directory: Path) -> Generator[Tuple[str, int], None, None]:
    """Name the socket below an opened directory, whose own path may be too long for a socket."""
    descriptor = os.open(str(directory), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield "/proc/self/fd/{}/{}".format(descriptor, SOCKET), descriptor
    finally:
        os.close(descriptor)


def _line(value: Dict[str, Any]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


def _remember(memory: Dict[str, None], hold: str) -> None:
    """Put it last; forget the first when there are too many."""
    memory.pop(hold, None)
    memory[hold] = None
    if len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]


# The agent's side


class _Connection:
    """One process that has connected; `hold` is None until it has told which one it is."""

    def __init__(self, peer: socket.socket, since: float) -> None:
        peer.setblocking(False)
        self.peer = peer
        self.since = since  # monotonic
        self.hold: Optional[str] = None
        self.process: Optional[procfs.ProcessName] = None
        self._received = b""

    def read(self) -> bool:
        """Take what has arrived; return False once the process has gone. Raises `ProtocolError`."""
        try:
            while True:
                received = self.peer.recv(_MAX_HELLO)
                if not received:
                    return False
                if self.hold is None:
                    self._received += received
                    self._take_hello()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _take_hello(self) -> None:
        line, end, _ = self._received.partition(b"\n")
        if not end and len(line) < _MAX_HELLO:
            return
        try:
            hello: Any = json.loads(line)
            version, hold = hello["version"], hello["hold"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ProtocolError("a line with version and hold is needed") from None
        if not is_understood(version):
            raise ProtocolError(
                "version: {!r} is more than one from ours, {}".format(version, VERSION)
            )
        check_name(hold, "hold")
        credentials = self.peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid: int = struct.unpack("3i", credentials)[0]
        if pid == 0:
            raise ProtocolError("its process can't be seen from here: another pid namespace")
        # The pid is this process's: `read` goes on, and finds out if it has gone meanwhile.
        self.process = procfs.name_of(pid)
        self.hold = hold

    def send(self, value: Dict[str, Any]) -> bool:
        """Send a line; return False when the process has gone."""
        try:
            return self.read() and self.peer.send(_line(value)) > 0
        except (OSError, ProtocolError):
            return False


class Holds:
    """The holds of one host that wait.

    `listen` and `serve` take the agent's lock; all else is called under it. So is
    `on_connected`, when one more hold waits.
    """

    def __init__(
        self,
        directory: Path,
        roster: Roster,
        holdings: Holdings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_connected: Callable[[], None] = lambda: None
        self._directory = directory
        self._roster = roster
        self._holdings = holdings
        self._monotonic = monotonic
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connections: List[_Connection] = []
        self._seen: Dict[str, None] = {}  # have connected, to an earlier agent maybe
        self._named: Dict[str, None] = {}  # were named by a reservation
        self._absent_since: Dict[str, float] = {}
        self._wakeup = WakeUp()

    def listen(self) -> None:
        """Take connections from now on, and expect those that are reserved. Raises `OSError`."""
        with _address(self._directory) as (address, directory):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=directory)  # an earlier agent's
            self._listener.bind(address)
            os.chmod(SOCKET, 0o600, dir_fd=directory)
        self._listener.listen(128)
        self._listener.setblocking(False)
        with self._roster.changed:
            self._note_named()
            self._seen.update(self._named)
            self._roster.on_tell = self._note_change
            self._drop_absent(self._monotonic())  # drops none: their time begins

    def serve(self) -> None:
        """Take connections and end what isn't needed, for the life of the agent."""
        while True:
            with self._roster.changed:
                accepts, pause_s = self.look()
                heard = [each.peer.fileno() for each in self._connections]
                if accepts:
                    heard.append(self._listener.fileno())
                poller = self._wakeup.prepare(heard)
            self._wakeup.sleep(poller, pause_s)

    def look(self) -> Tuple[bool, float]:
        """Take what has arrived, end holds that aren't needed, drop reservations without a hold.

        Returns whether further connections can be taken, and the seconds until the next look.
        """
        accepts = self._accept()
        self._read()
        now = self._monotonic()
        self._drop_absent(now)
        self._end_unneeded(now)
        due = [since + BACK_WITHIN_S for since in self._absent_since.values()]
        due += [each.since + NAMED_WITHIN_S for each in self._connections]
        pause_s = min((each - now for each in due if each > now), default=NAMED_WITHIN_S)
        return accepts, pause_s if accepts else min(pause_s, _ACCEPT_AGAIN_S)

    def hand_over(self, hold: str, directory: Path) -> Optional[Tuple[procfs.ProcessHandle, int]]:
        """Make the hold the warden of an incarnation; return None when it isn't connected.

        Returns its process, and a descriptor that ends once the container runs.
        """
        found = self._find(hold)
        if found is None or found.process is None:
            return None
        if not found.send({"incarnation": str(directory)}):
            return None  # `serve` sees that it has gone
        self._connections.remove(found)
        return procfs.ProcessHandle(found.process), found.peer.detach()

    def _find(self, hold: str) -> Optional[_Connection]:
        return next((each for each in self._connections if each.hold == hold), None)

    def _note_change(self) -> None:
        self._note_named()
        self._wakeup.call()

    def _note_named(self) -> None:
        for reservation in self._holdings.ledger.held:
            if reservation.hold is not None:
                _remember(self._named, reservation.hold)

    def _accept(self) -> bool:
        """Return False when no more can be taken for now."""
        try:
            while True:
                peer, _ = self._listener.accept()
                self._connections.append(_Connection(peer, self._monotonic()))
        except BlockingIOError:
            return True
        except OSError as error:  # no file descriptors left
            LOG.warning("no hold can connect, tried again later: %s", error)
            return False

    def _read(self) -> None:
        for each in tuple(self._connections):
            if each not in self._connections:  # another process has come as the same hold
                continue
            greeted = each.hold is not None
            try:
                lives = each.read()
            except ProtocolError as error:
                LOG.warning("what has connected is no hold: %s", error)
                self._end(each, str(error))
                continue
            if not lives:
                self._close(each)
                if each.hold is not None:
                    LOG.info("hold %s has gone", each.hold)
            elif each.hold is not None and not greeted:
                self._greet(each, each.hold)

    def _greet(self, connection: _Connection, hold: str) -> None:
        for other in tuple(self._connections):
            if other is not connection and other.hold == hold:
                self._end(other, "another process has connected as this hold")
        _remember(self._seen, hold)
        LOG.info("hold %s waits", hold)
        self.on_connected()

    def _drop_absent(self, now: float) -> None:
        parked = {each.hold for each in self._roster.lot.parked.values()}
        absent = {
            unused.hold: unused.request_id
            for unused in self._holdings.ledger.held
            if unused.hold is not None
            and unused.hold in self._seen  # one that never connected may still come
            and unused.execution_id is None
            and unused.hold not in parked
            and self._find(unused.hold) is None
        }
        self._absent_since = {hold: self._absent_since.get(hold, now) for hold in absent}
        for hold, since in self._absent_since.items():
            if now - since >= BACK_WITHIN_S:
                LOG.warning("hold %s has ended, request %s holds nothing", hold, absent[hold])
                self._holdings.drop(absent[hold])

    def _end_unneeded(self, now: float) -> None:
        named = {reservation.hold for reservation in self._holdings.ledger.held}
        for each in tuple(self._connections):
            if each.hold is not None and each.hold in named:
                continue
            if each.hold is not None and each.hold in self._named:
                self._end(each, "its reservation was given back, or its container has ended")
            elif now - each.since >= NAMED_WITHIN_S:
                self._end(each, "no reservation has named it in {:.0f} s".format(NAMED_WITHIN_S))

    def _end(self, connection: _Connection, why: str) -> None:
        LOG.info("hold %s is told to end: %s", connection.hold, why)
        connection.send({"end": why})
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        self._connections.remove(connection)
        connection.peer.close()


# The hold's side


def main(arguments: List[str]) -> int:
    """Wait for an incarnation, then be its warden.

    Exit codes: the container's exit status (128 + signal); 3 or 4 when it never ran, as a
    warden has them; 0 when the agent told the hold to end; 1 when no agent came, or the process
    can't lead a session; 2 for bad usage.
    """
    parser = argparse.ArgumentParser(
        prog="agent --hold",
        description="Holds a container's resources, and becomes the warden of an incarnation. "
        "Other options of the agent are ignored: both may read one file of arguments.",
        fromfile_prefix_chars="@",
        allow_abbrev=False,
    )
    parser.add_argument("--directory", type=Path, required=True, help="the agent's")
    given, _ = parser.parse_known_args(arguments)
    try:
        hold = check_name(os.environ.get("CONTAINER_ID"), "CONTAINER_ID")
    except ProtocolError as error:
        parser.error("{}; the cluster's engine sets it".format(error))
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()  # what a container leaves behind is found by its warden's session
        except PermissionError:
            _say("it leads a process group in another's session: start it by `exec`")
            return 1
    return _hold(given.directory.resolve(), hold)


def _hold(directory: Path, hold: str) -> int:
    while True:
        _say("{} waits for the agent of {}".format(hold, directory))
        reply, connection = _await_reply(directory, hold)
        if connection is None:
            _say("no agent of {} came within {:.0f} s".format(directory, _AGENTLESS_S))
            return 1
        incarnation = reply.get("incarnation")
        if not isinstance(incarnation, str):
            _say("it ends: {}".format(reply.get("end")))
            return 0
        _say("it becomes the warden of {}".format(incarnation))
        warden = Warden(Path(incarnation))
        status = warden.run(connection.detach())
        if warden.stop_asked or not warden.unused:
            return status
        warden.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _await_reply(directory: Path, hold: str) -> Tuple[Dict[str, Any], Optional[socket.socket]]:
    """Return the agent's line and the connection; no connection when no agent came in time."""
    agentless_since = time.monotonic()
    while time.monotonic() - agentless_since < _AGENTLESS_S:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _address(directory) as (address, _):
                connection.connect(address)
            try:
                connection.sendall(_line({"version": VERSION, "hold": hold}))
                reply = _read_reply(connection)
            finally:
                agentless_since = time.monotonic()
            if reply is not None:
                return reply, connection
        except OSError:  # there is none, or it ended: the next one listens at the same place
            pass
        connection.close()
        time.sleep(_RECONNECT_S)
    return {}, None


def _read_reply(connection: socket.socket) -> Optional[Dict[str, Any]]:
    """Return None when the agent ended before it sent one."""
    received = b""
    while not received.endswith(b"\n"):
        more = connection.recv(65536)
        if not more:
            return None
        received += more
    value: Any = json.loads(received)
    return value


def _say(text: str) -> None:
    print("hold: {}".format(text), file=sys.stderr, flush=True)
