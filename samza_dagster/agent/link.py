"""The agent's side of the sync with the coordinator.

Two exchanges run beside each other: a long poll, which brings commands and the lease,
and a short one whenever something changed here. Only replies bring commands.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import random
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import urlsplit

from samza_dagster.agent.credentials import read_token
from samza_dagster.agent.files import read_record, write_json
from samza_dagster.agent.lease import Grant, Now, read_clocks
from samza_dagster.agent.logs import about
from samza_dagster.agent.protocol import VERSION, Command, ProtocolError, Reply, parse_reply
from samza_dagster.agent.supervisor import CommandOutcome, Supervisor

LOG = logging.getLogger("samza_dagster.agent")

_MAX_REPLY = 64 * 1024 * 1024
_REMEMBERED_COMMANDS = 20_000
_LOOK_AT_URL_S = 0.5
# About as long as a new leader waits for further hosts before it fills the first.
_LONGEST_PAUSE_S = 1.0
# The coordinator closes a connection that was idle for 60 s.
_LONGEST_IDLE_S = 30.0


class LinkError(Exception):
    """The coordinator can't be reached, or its reply can't be used."""


class CoordinatorLink:
    """The link to the coordinator that the URL file names: reports out, commands in."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        url_file: Path,
        token_file: Path,
        wait_s: float = 10.0,
        longest_lease_s: float = 3600.0,
        fault_domain: str = "",
        clocks: Callable[[], Now] = read_clocks,
    ) -> None:
        self._supervisor = supervisor
        self._roster = supervisor.roster
        self._url_file = url_file
        self._token_file = token_file
        self._wait_s = wait_s
        self._longest_lease_s = longest_lease_s
        self._fault_domain = fault_domain
        self._clocks = clocks
        self._epoch_file = supervisor.directory / "epoch.json"
        self._instance = str(uuid.uuid4())
        began = clocks()
        self._began_ms = int(began.boottime_s * 1000)
        self._sequence = 0
        self._acks: Dict[str, CommandOutcome] = {}
        self._seen: Dict[str, None] = {}
        self._pushed = -1
        self._closing = threading.Event()
        self._connections: List[_Connection] = []
        self._random = random.SystemRandom()
        stored = read_record(self._epoch_file) or {}
        self.highest_epoch = int(stored.get("epoch", 0))
        # What metrics tell; `heard_at` is monotonic, and this agent's begin before the first answer.
        self.heard_at = time.monotonic()
        self.counting_since_s = began.wall_s
        self.syncs = self.failed_syncs = 0
        self._losses = 0  # of the leader of that epoch

    def close(self) -> None:
        """End both exchanges after the replies that they wait for."""
        self._closing.set()
        with self._roster.changed:
            self._roster.changed.notify_all()

    def poll(self) -> None:
        """Run the long poll, for the life of the agent."""
        self._repeat(lambda connection: self._exchange(connection, self._wait_s))

    def push(self) -> None:
        """Send a report whenever it would differ from the last one sent."""

        def once(connection: _Connection) -> None:
            with self._roster.changed:
                while self._pushed == self._roster.revision and not self._closing.is_set():
                    self._roster.changed.wait(1.0)
            if not self._closing.is_set():
                self._exchange(connection, 0.0)

        self._repeat(once)

    def watch_url(self) -> None:
        """Give up a wait for the answer of a coordinator that another one has replaced.

        A frozen coordinator keeps its connections: only the file shows that it isn't the leader.
        """
        while not self._closing.wait(_LOOK_AT_URL_S):
            for connection in tuple(self._connections):
                connection.give_up_if_moved()

    def _repeat(self, once: Callable[[_Connection], None]) -> None:
        connection = _Connection(self._url_file, self._token_file)
        self._connections.append(connection)
        failures = 0
        while not self._closing.is_set():
            try:
                once(connection)
                failures = 0
            except LinkError as error:
                connection.close()
                with self._roster.changed:
                    self._pushed = -1  # what was reported may not have arrived
                    self._roster.changed.notify_all()
                self.failed_syncs += 1
                if failures in (0, 5) or failures % 50 == 0:
                    LOG.warning("no word with the coordinator: %s", error)
                failures += 1
                pause = min(_LONGEST_PAUSE_S, 0.05 * 2 ** min(failures, 6)) * self._random.uniform(
                    0.7, 1.3
                )
                self._closing.wait(pause)
        connection.close()

    def _exchange(self, connection: _Connection, wait_s: float) -> None:
        with self._roster.changed:
            self._sequence += 1
            self._pushed = self._roster.revision
            sent, leader = dict(self._acks), (self.highest_epoch, self._losses)
            body: Dict[str, Any] = {
                "version": VERSION,
                "host": self._supervisor.host,
                "boot_id": self._supervisor.boot_id,
                "journal": self._supervisor.journal,
                "instance": self._instance,
                "began_ms": self._began_ms,
                "sequence": self._sequence,
                "wait_ms": int(wait_s * 1000),
                "highest_epoch": self.highest_epoch,
                "losses": self._losses,
                "fault_domain": self._fault_domain,
                "acknowledged": [
                    {"id": key, "ok": outcome.ok, "why": outcome.why}
                    for key, outcome in sent.items()
                ],
            }
            body.update(self._supervisor.report())
        asked = self._clocks()
        value = connection.post(body, timeout_s=wait_s + 5.0)
        try:
            reply = parse_reply(value)
        except ProtocolError as error:
            raise LinkError("its reply can't be used: {}".format(error)) from error
        with self._roster.changed:
            try:
                self._take(reply, asked)
            except OSError as error:
                # No command of it was begun, so the coordinator repeats all of it.
                raise LinkError(
                    "its reply can't be put on record: {}: {}".format(type(error).__name__, error)
                ) from error
            self.heard_at = time.monotonic()
            self.syncs += 1
            if (reply.epoch, reply.losses) != leader:
                # The leader ignored this report: send it again now.
                self._pushed = -1
                self._roster.changed.notify_all()
                return
            for key in sent:
                self._acks.pop(key, None)

    def _take(self, reply: Reply, asked: Now) -> None:
        if reply.epoch < self.highest_epoch:
            raise LinkError(
                "a coordinator of epoch {} answers, {} was seen".format(
                    reply.epoch, self.highest_epoch
                )
            )
        if reply.epoch == self.highest_epoch and reply.losses < self._losses:
            # Its starts were withdrawn when the host was lost, and may run elsewhere.
            raise LinkError("an answer from before this host was counted as lost")
        if reply.epoch > self.highest_epoch:
            write_json(self._epoch_file, {"version": 1, "epoch": reply.epoch}, durable=True)
            self.highest_epoch = reply.epoch
        self._losses = reply.losses
        self._supervisor.gate.locality = reply.locality
        lease_s = min(reply.lease_s, self._longest_lease_s)
        self._supervisor.hold_lease(Grant(reply.epoch, lease_s, asked, self._supervisor.boot_id))
        for command in reply.commands:
            if command.id in self._seen:
                continue
            self._seen[command.id] = None
            if len(self._seen) > _REMEMBERED_COMMANDS:
                del self._seen[next(iter(self._seen))]
            self._acks[command.id] = self._carry_out(command)
            self._roster.revision += 1
        self._roster.changed.notify_all()

    def _carry_out(self, command: Command) -> CommandOutcome:
        launched = None if command.launch is None else command.launch.execution_id
        ids = {
            **dict(command.about),
            "command": command.id,
            "resource": command.request_id,
            "execution": command.execution_id or launched,
        }
        with about(**ids):
            return self._done(command)

    def _done(self, command: Command) -> CommandOutcome:
        supervisor = self._supervisor
        try:
            if command.kind == "reserve" and command.request_id is not None:
                return supervisor.reserve(
                    command.request_id,
                    command.memory_mb,
                    command.cores,
                    command.launch,
                    command.hold,
                )
            if command.kind == "release" and command.request_id is not None:
                return supervisor.release(command.request_id)
            if command.kind == "start" and command.request_id and command.launch is not None:
                return supervisor.start(command.request_id, command.launch)
            if command.kind == "stop" and command.execution_id is not None:
                LOG.info("%s is told to end", command.execution_id)
                return supervisor.stop(command.execution_id)
            if command.kind == "forget" and command.execution_id is not None:
                return supervisor.forget(command.execution_id)
        except OSError as error:
            LOG.exception("command %s", command.id)
            return CommandOutcome(False, "{}: {}".format(type(error).__name__, error))
        return CommandOutcome(False, command.why)


class _Connection:
    """A kept connection; after a failure its address is read from the file anew."""

    def __init__(self, url_file: Path, token_file: Path) -> None:
        self._url_file = url_file
        self._token_file = token_file
        self._http: Optional[http.client.HTTPConnection] = None
        self._url = ""
        self._token = ""
        self._used_at = 0.0  # monotonic

    def post(self, body: Dict[str, Any], *, timeout_s: float) -> Any:
        """Post the body; return the decoded answer. Raises `LinkError`."""
        if time.monotonic() - self._used_at > _LONGEST_IDLE_S:
            self.close()
        try:
            connection = self._http or self._open()
            connection.timeout = timeout_s
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request(
                "POST",
                "/agent/v1/sync",
                json.dumps(body).encode("utf-8"),
                {"Content-Type": "application/json", "Authorization": "Bearer " + self._token},
            )
            response = connection.getresponse()
            data = response.read(_MAX_REPLY)
            if response.status != 200:
                raise LinkError(
                    "{} {}".format(response.status, data[:300].decode("utf-8", "replace"))
                )
            self._used_at = time.monotonic()
            return json.loads(data)
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise LinkError("{}: {}".format(type(error).__name__, error)) from error

    def _open(self) -> http.client.HTTPConnection:
        self._url = self._url_file.read_text(encoding="utf-8").strip()
        url = urlsplit(self._url)
        if url.scheme != "http" or url.hostname is None:
            raise LinkError("{} names no http URL".format(self._url_file))
        self._token = read_token(self._token_file)
        self._http = http.client.HTTPConnection(url.hostname, url.port or 80)
        return self._http

    def give_up_if_moved(self) -> None:
        """Break off the exchange when the file names another URL; safe from any thread."""
        connection = self._http
        sock = None if connection is None else connection.sock
        if sock is None:
            return
        with contextlib.suppress(OSError):
            if self._url_file.read_text(encoding="utf-8").strip() != self._url:
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None
