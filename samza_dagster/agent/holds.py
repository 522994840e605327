"""Containers of the cluster's engine (YARN) that hold resources, and become our wardens.

A hold is a process that the engine started in a container of its own. It connects to the agent
of its node, reports the engine's id of that container, and waits. When an incarnation is to run
on these resources, the agent sends the incarnation's directory, and the same process becomes
the warden: so the engine counts what the container uses, and can end it.

Both sides are here. Each sends one line of JSON: the hold `{"version": 1, "hold": "<id>"}`, the
agent `{"incarnation": "<directory>"}` or `{"end": "<why>"}`. The connection stays open until the
warden's container runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Set, Tuple

from samza_dagster.agent import procfs
from samza_dagster.agent.files import read_json
from samza_dagster.agent.holdings import Holdings
from samza_dagster.agent.protocol import VERSION, ProtocolError, check_name, is_understood
from samza_dagster.agent.roster import Roster
from samza_dagster.agent.warden import Warden

LOG = logging.getLogger("samza_dagster.agent")

SOCKET = "holds.sock"
BACK_WITHIN_S = 10.0
"""A hold that lost its connection is back by then, or its process has ended."""
NAMED_WITHIN_S = 60.0
"""A reservation names a hold by then, or the coordinator knows nothing of it."""
_RECONNECT_S = 0.5
_AGENTLESS_S = 600.0


@contextlib.contextmanager
def _address(directory: Path) -> Generator[Tuple[str, int], None, None]:
    """Name the socket below an opened directory: the full path may be too long for a socket."""
    descriptor = os.open(str(directory), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield "/proc/self/fd/{}/{}".format(descriptor, SOCKET), descriptor
    finally:
        os.close(descriptor)


def _line(value: Dict[str, Any]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


# The agent's side


class _Waiting(NamedTuple):
    """The process of a hold; `since` is monotonic."""

    process: procfs.ProcessName
    peer: socket.socket
    since: float


class Holds:
    """The holds of one host that wait.

    `listen` and `serve` take the agent's lock; all else is called under it. `on_change` is called
    without it, when a hold has connected or gone, or has started its container.
    """

    def __init__(
        self,
        directory: Path,
        roster: Roster,
        holdings: Holdings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._directory = directory
        self._roster = roster
        self._holdings = holdings
        self._monotonic = monotonic
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._waiting: Dict[str, _Waiting] = {}
        self._seen: Set[str] = set()  # have connected, to an earlier agent maybe
        self._named: Set[str] = set()  # were named by a reservation
        self._absent_since: Dict[str, float] = {}

    def listen(self) -> None:
        """Take connections from now on, and expect those that are reserved. Raises `OSError`."""
        with _address(self._directory) as (address, directory):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=directory)  # an earlier agent's
            self._listener.bind(address)
            os.chmod(SOCKET, 0o600, dir_fd=directory)
        self._listener.listen(128)
        with self._roster.changed:
            self._named = {each.hold for each in self._holdings.ledger.held if each.hold}
            self._seen = set(self._named)
            self.look()  # drops none: their time begins

    def serve(self) -> None:
        """Take connections, for the life of the agent."""
        while True:
            peer, _ = self._listener.accept()
            threading.Thread(target=self._attend, args=(peer,), daemon=True).start()

    def expect(self, hold: str) -> None:
        """Note that a reservation names it."""
        self._named.add(hold)

    def hand_over(self, hold: str, directory: Path) -> Optional[procfs.ProcessHandle]:
        """Make the hold the warden of an incarnation; return None when it isn't there."""
        found = self._waiting.get(hold)
        if found is None:
            return None
        try:
            found.peer.sendall(_line({"incarnation": str(directory)}))
        except OSError:
            return None  # its thread sees that it has gone
        del self._waiting[hold]
        return procfs.ProcessHandle(found.process)

    def look(self) -> None:
        """Drop unused reservations that no hold has joined, and end unneeded holds."""
        now, held = self._monotonic(), self._holdings.ledger.held
        parked = {each.hold for each in self._roster.lot.parked.values()}
        absent = {
            unused.hold: unused.request_id
            for unused in held
            if unused.hold in self._seen  # one that never connected may still come
            and unused.hold not in self._waiting
            and unused.hold not in parked
            and unused.execution_id is None
        }
        self._absent_since = {hold: self._absent_since.get(hold, now) for hold in absent}
        for hold, since in self._absent_since.items():
            if now - since >= BACK_WITHIN_S:
                LOG.warning("hold %s has ended, request %s holds nothing", hold, absent[hold])
                self._holdings.drop(absent[hold])
        for hold in set(self._waiting) - {each.hold for each in held}:
            if hold in self._named:
                self._end(hold, "its reservation was given back, or its container has ended")
            elif now - self._waiting[hold].since >= NAMED_WITHIN_S:
                self._end(hold, "no reservation has named it in {:.0f} s".format(NAMED_WITHIN_S))

    def _attend(self, peer: socket.socket) -> None:
        """Take what one process says, and wait until it goes or has become a warden."""
        with peer, contextlib.suppress(OSError):
            peer.settimeout(NAMED_WITHIN_S)
            try:
                hold, process = _read_hello(peer)
            except ProtocolError as error:
                LOG.warning("what has connected is no hold: %s", error)
                peer.sendall(_line({"end": str(error)}))
                return
            peer.settimeout(None)
            waiting = _Waiting(process, peer, self._monotonic())
            with self._roster.changed:
                if hold in self._waiting:
                    self._end(hold, "another process has connected as this hold")
                self._waiting[hold] = waiting
                self._seen.add(hold)
                LOG.info("hold %s waits", hold)
            self.on_change()
            with contextlib.suppress(OSError):
                peer.recv(1)
            with self._roster.changed:
                if self._waiting.get(hold) is waiting:
                    del self._waiting[hold]
                    LOG.info("hold %s has gone", hold)
            self.on_change()

    def _end(self, hold: str, why: str) -> None:
        LOG.info("hold %s is told to end: %s", hold, why)
        peer = self._waiting.pop(hold).peer
        with contextlib.suppress(OSError):  # it has gone
            peer.sendall(_line({"end": why}))
            peer.shutdown(socket.SHUT_RDWR)


def _read_hello(peer: socket.socket) -> Tuple[str, procfs.ProcessName]:
    """Return which hold it is, and the process as the kernel names it. Raises `ProtocolError`."""
    with peer.makefile("rb") as stream:
        line = stream.readline(1024)
    try:
        hello: Any = json.loads(line)
        version, hold = hello["version"], hello["hold"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError("a line with version and hold is needed") from None
    if not is_understood(version):
        raise ProtocolError("version: {!r} is more than one from ours, {}".format(version, VERSION))
    check_name(hold, "hold")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int = struct.unpack("3i", credentials)[0]
    # The name is this process's if the connection outlives this: `hand_over` finds out by sending.
    process = procfs.name_of(pid)
    if process is None:
        raise ProtocolError("its process can't be seen from here: another pid namespace, or gone")
    return hold, process


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
    directory: Path = parser.parse_known_args(arguments)[0].directory.resolve()
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
    _say("{} waits for the agent of {}".format(hold, directory))
    answer = _await_answer(directory, hold)
    if answer is None:
        _say("no agent of {} came within {:.0f} s".format(directory, _AGENTLESS_S))
        return 1
    reply, connection = answer
    if "incarnation" not in reply:
        _say("it ends: {}".format(reply.get("end")))
        return 0
    incarnation = Path(reply["incarnation"])
    _say("it becomes the warden of {}".format(incarnation))
    warden = Warden(incarnation)
    try:
        status = warden.run(connection.detach())
    except FileNotFoundError:  # the agent has removed what was parked
        status = 3
    if _was_parked(incarnation) and not warden.stop_asked:
        # Wait for the next one as a new program: the kernel closes what the warden had open.
        os.execv(sys.executable, [sys.executable, "-I", *sys.argv])  # noqa: S606
    return status


def _was_parked(incarnation: Path) -> bool:
    """Return whether it ended before its start; its record may be gone."""
    marks = read_json(incarnation / "marks.json") or {}
    return bool(marks.get("parked")) or not (incarnation / "spec.json").exists()


def _await_answer(directory: Path, hold: str) -> Optional[Tuple[Dict[str, Any], socket.socket]]:
    """Return an agent's line and the connection; None when no agent came in time."""
    agentless_since = time.monotonic()
    while time.monotonic() - agentless_since < _AGENTLESS_S:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):  # there is none, or it ended: the next one listens there
            with _address(directory) as (address, _):
                connection.connect(address)
            connection.sendall(_line({"version": VERSION, "hold": hold}))
            with connection.makefile("rb") as stream:
                line = stream.readline()
            agentless_since = time.monotonic()
            if line.endswith(b"\n"):
                return json.loads(line), connection
        connection.close()
        time.sleep(_RECONNECT_S)
    return None


def _say(text: str) -> None:
    print("hold: {}".format(text), file=sys.stderr, flush=True)
