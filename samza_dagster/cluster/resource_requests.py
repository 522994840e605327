"""Requests for a resource: waiting for a host, asked of one, held, given back.

No lock of its own: the cluster calls under its lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from samza_dagster.cluster.agent_messages import Sync, launch_to_wire
from samza_dagster.cluster.allocation import KnownHost, choose_host, explain
from samza_dagster.cluster.host_record import HostRecord, Notice
from samza_dagster.cluster.interface import ResourceAsk

LOG = logging.getLogger(__name__)
# A host that refused although it seemed to have room is asked again after this.
_ASK_AGAIN_S = 0.5
# What runs goes on running while its replacement's JVM starts elsewhere, but not for longer.
READY_WITHIN_S = 8.0
# Nor up to the request's end, which the coordinator counts for itself.
_LEFT_OF_TIME_S = 1.0
REMEMBERED_ENDS = 10_000
"""Of requests, in one term."""
_LONGEST_GATHERING = 4
"""The wait ends after this many quiet times since the first host, even if more hosts arrive."""


@dataclass
class _Gathering:
    """Ends for good once no new host has registered for `quiet_s`; times are in seconds.

    Before the first host registers it hasn't begun, however long that takes. As Kafka's
    `group.initial.rebalance.delay.ms`: the first to join would get everything.
    """

    quiet_s: float
    over: bool = False
    ends_at: float | None = None
    _latest: float = 0.0
    _seen: set[str] = field(default_factory=set[str])

    def see(self, hosts: Iterable[str], now: float) -> None:
        """Note the registered hosts; a host after the end doesn't restart the wait."""
        self.over = self.over or (self.ends_at is not None and self.ends_at <= now)
        if self.over:
            return
        new = set(hosts) - self._seen
        if new:
            if not self._seen:
                self._latest = now + _LONGEST_GATHERING * self.quiet_s
            self._seen |= new
            self.ends_at = min(self._latest, now + self.quiet_s)
            self.over = self.ends_at <= now


class SendCommand(Protocol):
    """Queues a command for a host's agent."""

    def __call__(self, host: str, kind: str, /, **fields: object) -> None:
        """`fields` as the protocol names them."""
        ...


class Holds(Protocol):
    """The engine, such as YARN, that grants a host's memory before its agent reserves it.

    Each ask is answered by `LocalCluster.hold_granted` or `hold_refused`, unless it is withdrawn.
    """

    def start(self, cluster: Any) -> None:
        """Let agents call `cluster` from now on."""
        ...

    def finish(self) -> None:
        """Give everything back once no container of the job runs."""
        ...

    def close(self) -> None:
        """End the open requests; granted holds stay."""
        ...

    def ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        """Request a hold of so many MiB and cores on `host`."""
        ...

    def withdraw(self, request_id: str) -> None:
        """End an open request; a granted hold isn't touched, unknown ids are no error."""
        ...

    def free(self, host: str) -> tuple[int, int]:
        """Return the MiB and cores that could be held there now."""
        ...

    def closed(self, host: str) -> str:
        """Return why the engine refuses every hold there, or "" if it doesn't."""
        ...

    def state(self, host: str) -> str:
        """Return the host's state by the engine, such as RUNNING; "" for none."""
        ...


@dataclass
class _Pending:
    """An open request.

    `ready_by`: `asked_of` holds it, and until then its parked container may get ready.

    `sent`: its agent was told to reserve it, which waits for the hold where there are such.
    """

    ask: ResourceAsk
    deadline: float
    asked_of: str | None = None
    sent: bool = False
    ready_by: float | None = None
    again_at: dict[str, float] = field(default_factory=dict[str, float])
    refusals: dict[str, str] = field(default_factory=dict[str, str])


class ResourceRequests:
    """All requests of one coordinator's term. Times are the cluster's clock, in seconds.

    A request for any host waits until the hosts have gathered: until none has registered
    for `gather_s`, so that the first to register doesn't get everything.
    """

    def __init__(
        self,
        hosts: Mapping[str, HostRecord],
        *,
        send: SendCommand,
        notify: Callable[[Notice], None],
        clock: Callable[[], float],
        gather_s: float = 0.0,
        holds: Holds | None = None,
    ) -> None:
        self._gathering = _Gathering(gather_s)
        self._holds = holds
        self._hosts = hosts
        self._send = send
        self._notify = notify
        self._clock = clock
        self._pending: dict[str, _Pending] = {}
        self._held: dict[str, str] = {}
        self._used_by: dict[str, str] = {}
        # Ended here, the latest last; an agent may still hold it, from before it was lost or by a
        # late command. Of one that isn't remembered the coordinator is told, as of an earlier leader's.
        self._ended: dict[str, None] = {}

    def request(self, ask: ResourceAsk) -> None:
        """Open a request, or report again what is held; an open one takes the shorter time."""
        request_id = ask.request_id
        held = self._held.get(request_id)
        pending = self._pending.get(request_id)
        if held is not None:
            self._notify(lambda to: to.on_resource_allocated(request_id, held))
        elif pending is not None:
            pending.ask = ask
            pending.deadline = min(pending.deadline, self._clock() + ask.expires_in_s)
            if pending.ready_by is not None and pending.asked_of is not None and not ask.ahead:
                self._hold(request_id, pending.asked_of)
        else:
            self._ended.pop(request_id, None)
            self._pending[request_id] = _Pending(ask, self._clock() + ask.expires_in_s)
            for record in self._hosts.values():
                if record.is_registered:
                    self.reconcile(record)
            self.place()

    def release(self, request_id: str) -> None:
        """End the request; every host that holds it, or may come to, gives it back."""
        pending = self._pending.pop(request_id, None)
        self._withdraw(request_id)
        hosts = {b.host for b in self._hosts.values() if request_id in b.reservations}
        hosts |= {h for h in (self._held.pop(request_id, None), pending and pending.asked_of) if h}
        self._note_end(request_id)
        for host in sorted(hosts):
            self._send(host, "release", request_id=request_id)
        self.place()

    def started(self, request_id: str, execution_id: str) -> None:
        """Tie the request to its incarnation: both end together."""
        self._used_by[execution_id] = request_id

    def container_ended(self, execution_id: str) -> None:
        """Free what it used."""
        request_id = self._used_by.pop(execution_id, None)
        if request_id is not None:
            self._held.pop(request_id, None)

    def answered(self, host: str, request_id: str, *, ok: bool, why: str) -> None:
        """Note that an agent reserved it, or refused."""
        pending = self._pending.get(request_id)
        if pending is None or pending.asked_of != host:
            return  # released or expired meanwhile: the release is behind it in the queue
        if ok:
            self._granted(request_id, pending, host)
        elif pending.ready_by is None:
            pending.asked_of = None
            pending.refusals[host] = why
            pending.again_at[host] = self._clock() + _ASK_AGAIN_S
            if pending.ask.urgent:
                self._expire(request_id, pending)

    def acknowledged(self, record: HostRecord, sync: Sync) -> None:
        """Process an agent's acknowledgements: drop the commands.

        Refusals that matter become callbacks.
        """
        host, present = record.host, {c.execution_id for c in sync.containers}
        for done in sync.acknowledged:
            command = record.commands.pop(done.id, None)
            if command is None:
                continue
            kind = command["kind"]
            if kind == "reserve":
                self.answered(host, command["request_id"], ok=done.ok, why=done.why)
            elif done.ok:
                continue
            elif kind == "start" and command["launch"]["execution_id"] not in present:
                execution_id = command["launch"]["execution_id"]
                self.container_ended(execution_id)
                self._notify(_start_failed(execution_id, host, done.why))
            elif kind == "stop":
                execution_id = command["execution_id"]
                is_there = execution_id in present
                self._notify(_stop_refused(execution_id, host, done.why, is_there=is_there))
            elif kind not in ("release", "forget"):
                LOG.warning("%s refused %s: %s", host, kind, done.why)

    def reconcile(self, record: HostRecord) -> None:
        """Take up unused reservations of an earlier leader; give back those that have ended."""
        releasing = {c["request_id"] for c in record.commands.values() if c["kind"] == "release"}
        for request_id, used_by in record.reservations.items():
            if used_by is not None or request_id in releasing:
                continue
            pending = self._pending.get(request_id)
            if pending is not None:
                if pending.asked_of is None and _is_candidate(pending.ask, record.host):
                    self._granted(request_id, pending, record.host)
                self._look_if_ready(request_id, pending, record)
            elif (
                request_id in self._ended or self._held.get(request_id, record.host) != record.host
            ):
                self._send(record.host, "release", request_id=request_id)
            elif request_id not in self._held:
                # The release of an earlier leader's reservation may have been lost: report it to
                # the coordinator, which gives it back if nothing needs it.
                self._hold(request_id, record.host)

    def place(self) -> None:
        """Send every waiting request that finds room to a host's agent."""
        now = self._clock()
        self._gathering.see((b.host for b in self._hosts.values() if b.is_registered), now)
        for request_id, pending in self._pending.items():
            pending.again_at = {host: at for host, at in pending.again_at.items() if at > now}
            if pending.asked_of is not None:
                continue
            if self._waits_for_hosts(pending.ask):
                continue
            views = [v for v in self._views(now).values() if v.host not in pending.again_at]
            chosen = choose_host(pending.ask, views)
            if chosen is None:
                continue
            pending.asked_of, pending.sent = chosen, False
            if self._holds is None:
                self._reserve(pending, chosen)
            else:
                self._holds.ask(request_id, chosen, pending.ask.memory_mb, pending.ask.cores)

    def hold_granted(self, request_id: str, host: str, hold: str) -> bool:
        """Have the agent reserve it by this hold; return False if no request waits for it."""
        pending = self._pending.get(request_id)
        if pending is None or pending.asked_of != host or pending.sent:
            return False
        self._reserve(pending, host, hold=hold)
        return True

    def _reserve(self, pending: _Pending, host: str, **hold: str) -> None:
        ask = pending.ask
        parked = {} if ask.launch is None else {"launch": launch_to_wire(ask.launch)}
        pending.sent = True
        self._send(
            host,
            "reserve",
            request_id=ask.request_id,
            memory_mb=ask.memory_mb,
            cores=ask.cores,
            **hold,
            **parked,
        )

    def _withdraw(self, request_id: str) -> None:
        if self._holds is not None:
            self._holds.withdraw(request_id)

    def expire(self) -> None:
        """End expired requests, with an explanation."""
        now = self._clock()
        for request_id, pending in list(self._pending.items()):
            if pending.ready_by is not None and pending.asked_of is not None:
                if pending.ready_by <= now:
                    self._hold(request_id, pending.asked_of)
            elif pending.deadline <= now:
                self._expire(request_id, pending)

    def host_lost(self, host: str) -> None:
        """Place the lost host's open requests anew, elsewhere."""
        for request_id, pending in self._pending.items():
            if pending.asked_of == host:
                pending.asked_of = pending.ready_by = None
                self._withdraw(request_id)

    def host_replaced(self, host: str) -> None:
        """Note that a host's holds were in another journal or of another boot: they must be held anew."""
        self.host_lost(host)
        self._held = {request_id: on for request_id, on in self._held.items() if on != host}

    def deadlines(self) -> Iterator[float]:
        """Yield the times at which `expire` or `place` is due; a past one is due now."""
        for pending in self._pending.values():
            yield pending.deadline if pending.ready_by is None else pending.ready_by
            yield from pending.again_at.values()
        if self._pending and self._gathering.ends_at is not None and not self._gathering.over:
            yield self._gathering.ends_at

    def _note_end(self, request_id: str) -> None:
        self._ended.pop(request_id, None)
        self._ended[request_id] = None
        if len(self._ended) > REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]

    def _expire(self, request_id: str, pending: _Pending) -> None:
        self._pending.pop(request_id, None)
        self._withdraw(request_id)
        self._note_end(request_id)
        gathering = self._waits_for_hosts(pending.ask)
        views = self._views(self._clock())
        closed = self._closed(views if pending.ask.host is None else (pending.ask.host,))
        why = explain(pending.ask, views, pending.refusals, closed=closed, gathering=gathering)
        if pending.asked_of is not None:
            self._send(pending.asked_of, "release", request_id=request_id)
        self._notify(_expired(request_id, why))

    def _waits_for_hosts(self, ask: ResourceAsk) -> bool:
        return ask.host is None and not self._gathering.over

    def _views(self, now: float) -> dict[str, KnownHost]:
        views = {b.host: v for b in self._hosts.values() if (v := b.view(now)) is not None}
        return views if self._holds is None else self._as_held(views, self._holds)

    def _closed(self, hosts: Iterable[str]) -> dict[str, str]:
        return {} if self._holds is None else {host: self._holds.closed(host) for host in hosts}

    def _as_held(self, views: dict[str, KnownHost], holds: Holds) -> dict[str, KnownHost]:
        """Return the views with their room limited to what the engine could grant now."""
        free = {host: holds.free(host) for host in views}
        for pending in self._pending.values():
            if pending.asked_of in free and not pending.sent:
                memory_mb, cores = free[pending.asked_of]
                free[pending.asked_of] = (
                    memory_mb - pending.ask.memory_mb,
                    cores - pending.ask.cores,
                )
        return {
            host: replace(
                view,
                free_memory_mb=min(view.free_memory_mb, free[host][0]),
                free_cores=min(view.free_cores, free[host][1]),
            )
            for host, view in views.items()
        }

    def _granted(self, request_id: str, pending: _Pending, host: str) -> None:
        """Report the reservation now, or once the parked container is ready."""
        pending.asked_of, pending.sent = host, True
        if pending.ask.launch is None or not pending.ask.ahead:
            self._hold(request_id, host)
        elif pending.ready_by is None:
            latest = pending.deadline - _LEFT_OF_TIME_S
            pending.ready_by = min(latest, self._clock() + READY_WITHIN_S)

    def _look_if_ready(self, request_id: str, pending: _Pending, record: HostRecord) -> None:
        """Check for a parked process by a report that has the reservation: one that isn't there won't come."""
        waits = pending.ready_by is not None and pending.asked_of == record.host
        if waits and record.parked.get(request_id, True):
            self._hold(request_id, record.host)

    def _hold(self, request_id: str, host: str) -> None:
        self._pending.pop(request_id, None)
        self._held[request_id] = host
        self._notify(lambda to: to.on_resource_allocated(request_id, host))


def _expired(request_id: str, why: str) -> Notice:
    return lambda to: to.on_request_expired(request_id, why)


def _is_candidate(ask: ResourceAsk, host: str) -> bool:
    return host not in ask.excluded_hosts and ask.host in (None, host)


def _start_failed(execution_id: str, host: str, why: str) -> Notice:
    return lambda to: to.on_start_failed(execution_id, host, why)


def _stop_refused(execution_id: str, host: str, why: str, *, is_there: bool) -> Notice:
    if is_there:
        return lambda to: to.on_stop_failed(execution_id, host, why)
    # The agent's records are complete: what they don't have doesn't run there. Whether they are
    # those that it was started on is for the state to say, by the last registration.
    return lambda to: to.on_container_stopped(execution_id, host, None)
