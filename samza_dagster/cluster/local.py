"""The cluster of agents: each host has one, and it calls us.

Nothing here decides or survives: the coordinator's state says what should be, the
agents' records say what is. Every callback is made from one thread, in order.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import queue
import socket
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from samza_dagster.agent.logs import known
from samza_dagster.cluster.agent_gateway import AgentGateway, Answer, listening
from samza_dagster.cluster.agent_messages import VERSION, Sync, launch_to_wire, parse_sync
from samza_dagster.cluster.host_record import HostRecord, Notice
from samza_dagster.cluster.interface import (
    JSON,
    ClusterCallbacks,
    ClusterTerm,
    ContainerLaunch,
    HostResources,
    ResourceAsk,
)
from samza_dagster.cluster.resource_requests import Holds, ResourceRequests
from samza_dagster.errors import InvalidInput

LOG = logging.getLogger(__name__)


def _require_url_file(path: Path) -> None:
    """Raise `InvalidInput` unless a cluster could write its URL there. The file isn't changed."""
    if path.is_dir():
        raise _no_url_file(path, "a directory")
    _beside(path, "http://127.0.0.1:0").unlink()


def _beside(url_file: Path, url: str) -> Path:
    """Write the URL to a temporary file of the same directory, to be renamed; return its path."""
    beside = url_file.with_name(f".{url_file.name}.{os.getpid()}")
    try:
        url_file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(url + "\n", encoding="utf-8")
    except OSError as error:
        raise _no_url_file(url_file, str(error)) from error
    return beside


def _no_url_file(path: Path, seen: str) -> InvalidInput:
    return InvalidInput(
        f"write the URL file {path}", seen=seen, fix="a file in a directory that can be written"
    )


class LocalCluster:
    """Implements `ClusterResourceManager` on agents that poll this coordinator.

    `ClusterTerm` describes the term; a poll waits for the longest lease at most. An agent that
    reports a higher epoch is refused.
    """

    def __init__(
        self,
        term: ClusterTerm,
        *,
        listen: socket.socket,
        token: str,
        url_file: Path | None = None,
        holds: Holds | None = None,
    ) -> None:
        self.epoch = term.epoch
        self._term = term
        self._higher_epochs: dict[str, int] = {}
        self._longest_hold_s = min(term.granted_s, term.host_timeout_s) / 4
        self._url_file = url_file
        self._holds = holds
        self._clock = term.clock
        self._began = self._clock()
        self._changed = threading.Condition()
        self._closing = False
        self._hosts: dict[str, HostRecord] = {}
        self._notices: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._nonce = f"{term.epoch}-{uuid.uuid4().hex[:8]}"
        self._requests = ResourceRequests(
            self._hosts,
            send=self._command,
            notify=self._notices.put,
            clock=self._clock,
            gather_s=term.gather_s,
            holds=holds,
        )
        self._gateway = AgentGateway(listen, token=token, on_sync=self._on_sync)
        self.add_page("/hosts", JSON, lambda: json.dumps(self.silences()).encode())
        self._callbacks: ClusterCallbacks | None = None
        self._threads = [
            threading.Thread(target=self._dispatch, name="cluster-callbacks", daemon=True),
            threading.Thread(target=self._keep_time, name="cluster-time", daemon=True),
        ]

    @property
    def url(self) -> str:
        """The address of this coordinator for agents and readers of its pages."""
        return self._gateway.url

    def add_page(self, path: str, content_type: str, page: Callable[[], bytes]) -> None:
        """Serve `GET path` without a token; the page must not be secret."""
        self._gateway.add_page(path, content_type, page)

    def start(self, callbacks: ClusterCallbacks) -> None:
        """Start to answer, and publish the URL to the agents by the URL file or by `holds`."""
        self._callbacks = callbacks
        for thread in self._threads:
            thread.start()
        self._gateway.start()
        if self._url_file is not None:
            _beside(self._url_file, self.url).replace(self._url_file)
        if self._holds is not None:
            self._holds.start(self)

    def finish(self) -> None:
        """End the application where an engine runs the agents; agents of others' hosts go on."""
        if self._holds is not None:
            self._holds.finish()

    def close(self) -> None:
        """Stop listening and calling back. Containers and agents run on."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        if self._holds is not None:
            self._holds.close()
        self._gateway.close()
        self._notices.put(None)
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout=5.0)

    # Commands of the coordinator

    def request_resource(self, ask: ResourceAsk) -> None:
        """Ask the chosen host's agent for it; a full one again until the request expires."""
        with self._changed:
            self._requests.request(ask)
            self._changed.notify_all()

    def release_resource(self, request_id: str) -> None:
        """Give back what `request_id` holds anywhere, or end the request."""
        with self._changed:
            self._requests.release(request_id)

    def start_container(self, request_id: str, host: str, launch: ContainerLaunch) -> None:
        """Send the start, again until the agent acknowledges it.

        Drops it while the host isn't registered: by the time that it registers, something
        else may run in its stead. The coordinator repeats the start then if it is still wanted.
        """
        with self._changed:
            record = self._hosts.get(host)
            if record is None or not record.is_registered:
                LOG.info("%s isn't registered: no start of %s", host, launch.execution_id)
                return
            self._requests.started(request_id, launch.execution_id)
            self._command(host, "start", request_id=request_id, launch=launch_to_wire(launch))

    def stop_container(self, execution_id: str, host: str) -> None:
        """Send the stop until the agent acknowledges it, also to a lost host."""
        with self._changed:
            self._command(host, "stop", execution_id=execution_id)

    def forget_container(self, execution_id: str, host: str) -> None:
        """Send the permission to drop the record of a dead incarnation."""
        with self._changed:
            self._command(host, "forget", execution_id=execution_id)

    def admit_host(self, host: str) -> None:
        """Grant the host whole leases from now on; earlier commands are in the same reply."""
        with self._changed:
            record = self._hosts.get(host)
            if record is not None and record.is_registered:
                record.admitted = True
                self._changed.notify_all()

    def report_again(self) -> None:
        """Queue the callbacks of a registration of every registered host."""
        with self._changed:
            for record in self._hosts.values():
                if record.is_registered:
                    for notice in record.report():
                        self._notices.put(notice)

    def hosts(self) -> tuple[HostResources, ...]:
        """Return every registered host by name, without the lost ones."""
        with self._changed:
            records = sorted(self._hosts.values(), key=lambda record: record.host)
            hosts = tuple(each.as_resources() for each in records if each.is_registered)
        if self._holds is None:
            return hosts
        return tuple(replace(each, yarn_state=self._holds.state(each.host)) for each in hosts)

    def calling(self) -> frozenset[str]:
        """Return the hosts with an agent that was heard within half of the host time-out.

        An agent that hangs can be replaced in the other half, before its host counts as lost.
        """
        with self._changed:
            since = self._clock() - self._term.host_timeout_s / 2
            return frozenset(
                each.host
                for each in self._hosts.values()
                if each.is_registered and each.heard_at >= since
            )

    def holds(self) -> dict[str, dict[str, str]]:
        """Return host → hold at the engine → the incarnation on it, by the agents' last reports."""
        with self._changed:
            return {r.host: dict(r.holds) for r in self._hosts.values() if r.is_registered}

    def hold_granted(self, request_id: str, host: str, hold: str) -> bool:
        """Note that the engine holds it as `hold`; return False if no request waits for it."""
        with self._changed:
            return self._requests.hold_granted(request_id, host, hold)

    def hold_refused(self, request_id: str, host: str, why: str) -> None:
        """Note that the engine refused: the resource is requested anew, elsewhere or later."""
        with self._changed:
            self._requests.answered(host, request_id, ok=False, why=why)
            self._changed.notify_all()

    def rival(self, why: str) -> None:
        """Make the coordinator prove that it leads."""
        self._notices.put(lambda to: to.on_rival(why))

    def higher_epochs(self) -> Mapping[str, int]:
        """Return host → the higher epoch that its agent has reported since the last call."""
        with self._changed:
            epochs, self._higher_epochs = self._higher_epochs, {}
            return epochs

    def silences(self) -> dict[str, Any]:
        """Return how long ago each registered host's agent was heard, in ms: the page `/hosts`."""
        with self._changed:
            now = self._clock()
            return {
                "version": 1,
                "hosts": {
                    record.host: {"silent_ms": max(0, round((now - record.heard_at) * 1000))}
                    for record in self._hosts.values()
                    if record.is_registered
                },
            }

    # Reports of the agents

    def _on_sync(self, body: bytes) -> Answer:
        try:
            sync = parse_sync(body)
        except InvalidInput as error:
            return 400, error.to_json()
        with self._changed:
            refusal = self._refusal(sync)
            if refusal is not None:
                return refusal
            record = self._record_of(sync.host)
            if sync.highest_epoch < self.epoch or not record.has_heard_of_losses(sync):
                # The answer brings the agent this epoch, or its loss. The agent registers by its next
                # report, and then refuses earlier commands of any leader.
                return self._reply(sync, record, ())
            record.heard_at = self._clock()
            self._requests.acknowledged(record, sync)
            self._take(record, sync)
            until = record.heard_at + min(sync.wait_ms / 1000, self._longest_hold_s)
            admitted = record.admitted
            while (
                not self._closing
                and not record.commands
                and record.instance == sync.instance
                and record.admitted == admitted
            ):
                left = until - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
            # Another agent of the host may have registered meanwhile: the commands are for that one.
            return self._refusal(sync) or self._reply(sync, record, record.commands.values())

    def _reply(
        self, sync: Sync, record: HostRecord, commands: Iterable[Mapping[str, Any]]
    ) -> Answer:
        free_s, longest_s = self._term.lease_source(), self._term.lease_s
        lease_s = record.lease_s(self._clock(), free_s=free_s, longest_s=longest_s)
        return 200, {
            "version": min(VERSION, sync.version),
            "epoch": self.epoch,
            "lease_ms": max(0, int(lease_s * 1000)),
            "commands": list(commands),
            "locality": self._localities(),
            "losses": record.losses,
        }

    def _record_of(self, host: str) -> HostRecord:
        return self._hosts.setdefault(host, HostRecord(host, granted_at=self._began))

    def _refusal(self, sync: Sync) -> Answer | None:
        if self._closing:
            return 503, {"error": "this coordinator has ended"}
        if sync.highest_epoch > self.epoch:
            self._higher_epochs[sync.host] = sync.highest_epoch
            return 409, {
                "error": f"field highest_epoch: {sync.highest_epoch}, this coordinator's epoch is "
                f"{self.epoch}: another one leads, or what this agent has seen is wrong"
            }
        record = self._hosts.get(sync.host)
        if record is not None and record.is_over(sync):
            return 409, {"error": f"another agent registered as {sync.host} after this one"}
        return None

    def _take(self, record: HostRecord, sync: Sync) -> None:
        if record.is_replaced_by(sync):
            self._requests.host_replaced(record.host)
        for notice in record.take(sync):
            self._notices.put(notice)
        for container in sync.containers:
            if container.state in ("dead", "failed"):
                self._requests.container_ended(container.execution_id)
        self._requests.reconcile(record)
        self._requests.place()
        self._changed.notify_all()

    # Time

    def _keep_time(self) -> None:
        with self._changed:
            due = self._clock()
            while not self._closing:
                self._requests.expire()
                now = self._clock()
                for record in self._hosts.values():
                    # While this process was frozen, it could hear no agent.
                    record.heard_at = min(now, record.heard_at + max(0.0, now - due))
                    if record.is_registered and now - record.heard_at > self._term.host_timeout_s:
                        self._lose(record)
                self._requests.place()
                deadlines = [
                    now + min(5.0, self._term.host_timeout_s / 8),  # precision of that knowledge
                    *self._requests.deadlines(),
                ]
                deadlines += [
                    b.heard_at + self._term.host_timeout_s
                    for b in self._hosts.values()
                    if b.is_registered
                ]
                due = max(now, min(deadlines)) + 0.001
                self._changed.wait(due - now)

    def _lose(self, record: HostRecord) -> None:
        record.lose()
        host, granted_ago_s = record.host, max(0.0, self._clock() - record.granted_at)
        self._requests.host_lost(host)
        self._notices.put(lambda to: to.on_host_lost(host, granted_ago_s))

    # Both ways out

    def _command(self, host: str, kind: str, /, **fields: object) -> None:
        record = self._record_of(host)
        ident = f"{self._nonce}/{next(self._ids)}"
        # Placing one request can place others too: only these are surely about it.
        about = {"about": dict(known())} if kind in ("start", "stop") else {}
        record.commands[ident] = {"id": ident, "kind": kind, **about, **fields}
        self._changed.notify_all()

    def _localities(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for record in self._hosts.values():
            if not record.lost:
                merged.update(record.localities())
        return merged

    def _dispatch(self) -> None:
        assert self._callbacks is not None
        while (notice := self._notices.get()) is not None:
            if self._closing:
                return
            try:
                notice(self._callbacks)
            except Exception:
                LOG.exception("a callback failed")


@dataclass(frozen=True)
class LocalAgents:
    """Implements `ClusterFactory`: agents read the coordinator's URL from a file, and call it there."""

    url_file: Path
    token: str = field(repr=False)
    listen: tuple[str, int] = ("127.0.0.1", 0)

    def require(self, *, beside: tuple[str, str] | None = None) -> None:
        """See `ClusterFactory`; the URL file stays as it is."""
        if beside is not None:
            host, url = beside
            # Of one machine the two may have one address, which is free when the leader is gone.
            its_own = not url or url.endswith(f":{self.listen[1]}")
            if host != socket.gethostname() or not its_own:
                listening(self.listen).close()
        _require_url_file(self.url_file)

    def advice(self, lease_s: float) -> Sequence[str]:
        """See `ClusterFactory`."""
        return ()

    def describe(self) -> Mapping[str, str]:
        """See `ClusterFactory`: agents report once they call."""
        return {}

    @contextmanager
    def prepare(self, within_s: float = 0.0) -> Generator[Callable[[ClusterTerm], LocalCluster]]:
        """See `ClusterFactory`: a client that connects from now on waits for the cluster's start."""
        with closing(listening(self.listen, within_s)) as listen:
            yield lambda term: LocalCluster(
                term, listen=listen, token=self.token, url_file=self.url_file
            )
