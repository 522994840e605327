"""Requests for a resource, as the coordinator's cluster keeps them: in memory, for one term.

Modelled on `cluster/resource_requests.py` and `cluster/allocation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from samza_dagster.placement.commands import ReleaseResource, RequestResource
from tests.simulation.copies import copied
from tests.simulation.host_messages import Reserve
from tests.simulation.hosts import VirtualHost

ASK_AGAIN_MS = 500
"""A host that refused although it seemed to have room is asked again after this."""


@dataclass(slots=True)
class Pending:
    """An open request; times are the coordinator's clock."""

    ask: RequestResource
    deadline_ms: int
    asked_of: str | None = None
    again_at: dict[str, int] = field(default_factory=dict[str, int])


Send = Callable[[str, Reserve | ReleaseResource], None]


@dataclass(slots=True)
class Requests:
    """All requests of one term."""

    pending: dict[str, Pending] = field(default_factory=dict[str, Pending])
    held: dict[str, str] = field(default_factory=dict[str, str])
    used_by: dict[str, str] = field(default_factory=dict[str, str])
    ended: set[str] = field(default_factory=set[str])

    def copy(self) -> Requests:
        """An independent one."""
        return copied(self, pending={key: copied(open_) for key, open_ in self.pending.items()})

    def begin(self, now_ms: int, ask: RequestResource) -> bool:
        """Opens a request; False when it is held already."""
        if ask.request_id in self.held:
            return False
        pending = self.pending.get(ask.request_id)
        deadline_ms = now_ms + ask.expires_in_ms
        if pending is None:
            self.ended.discard(ask.request_id)
            self.pending[ask.request_id] = Pending(ask, deadline_ms)
        else:
            pending.ask, pending.deadline_ms = ask, min(pending.deadline_ms, deadline_ms)
        return True

    def release(self, request_id: str, hosts: Iterable[VirtualHost], send: Send) -> None:
        """Ends it, and has every host give it back that holds it or may come to."""
        pending = self.pending.pop(request_id, None)
        holders = {host.name for host in hosts if request_id in host.ledger}
        holders |= {h for h in (self.held.pop(request_id, None), pending and pending.asked_of) if h}
        self.ended.add(request_id)
        for name in sorted(holders):
            send(name, ReleaseResource(request_id))

    def container_ended(self, execution_id: str) -> None:
        """What it used is free again."""
        request_id = self.used_by.pop(execution_id, None)
        if request_id is not None:
            self.held.pop(request_id, None)

    def answered(self, now_ms: int, request_id: str, host: str, *, ok: bool) -> bool:
        """An agent held it, or refused; True when that is news for the reducer, or is so again."""
        pending = self.pending.get(request_id)
        if pending is None or pending.asked_of != host:
            return ok and self.held.get(request_id) == host
        pending.asked_of = None
        if ok:
            self._hold(request_id, host)
        else:
            pending.again_at[host] = now_ms + ASK_AGAIN_MS
        return ok

    def gives_up(self, request_id: str) -> bool:
        """Ends an urgent request that was refused; True when it was one."""
        pending = self.pending.get(request_id)
        if pending is None or not pending.ask.urgent or not pending.again_at:
            return False
        del self.pending[request_id]
        self.ended.add(request_id)
        return True

    def found(self, request_id: str, host: str, send: Send) -> bool:
        """A host holds it for nobody; True when the reducer is to be told."""
        pending = self.pending.get(request_id)
        if pending is not None and pending.asked_of is None:
            ask = pending.ask
            if host in ask.excluded_hosts or ask.host not in (None, host):
                return False
            self._hold(request_id, host)
            return True
        if request_id in self.ended or self.held.get(request_id, host) != host:
            send(host, ReleaseResource(request_id))
            return False
        if pending is None and request_id not in self.held:
            self._hold(request_id, host)
            return True
        return False

    def place(self, now_ms: int, hosts: Iterable[VirtualHost], send: Send) -> None:
        """Asks the freest host that fits for each request that isn't asked of one yet.

        `hosts` are the registered ones; what is on its way to be reserved counts as taken.
        """
        for pending in self.pending.values():
            if pending.asked_of is not None:
                continue
            chosen = _choose(now_ms, pending, hosts)
            if chosen is not None:
                pending.asked_of = chosen
                ask = pending.ask
                send(chosen, Reserve(ask.request_id, ask.memory_mb, ask.cores))

    def overdue(self, now_ms: int) -> list[str]:
        """Requests whose time is up."""
        return [key for key, pending in self.pending.items() if pending.deadline_ms <= now_ms]

    def expire(self, request_id: str, send: Send) -> None:
        """Ends one that no host could hold."""
        pending = self.pending.pop(request_id)
        self.ended.add(request_id)
        if pending.asked_of is not None:
            send(pending.asked_of, ReleaseResource(request_id))

    def host_lost(self, host: str) -> None:
        """Asks anew, elsewhere, for what was asked of it."""
        for pending in self.pending.values():
            if pending.asked_of == host:
                pending.asked_of = None

    def host_replaced(self, host: str) -> None:
        """What it held was in another's journal, or of another boot: it must be held anew."""
        self.host_lost(host)
        self.held = {request_id: on for request_id, on in self.held.items() if on != host}

    def next_due_ms(self, now_ms: int) -> int | None:
        """When `overdue` or `place` has something to do by time alone."""
        due: int | None = None
        for pending in self.pending.values():
            for at_ms in (pending.deadline_ms, *pending.again_at.values()):
                if (at_ms > now_ms or at_ms == pending.deadline_ms) and (
                    due is None or at_ms < due
                ):
                    due = at_ms
        return due

    def _hold(self, request_id: str, host: str) -> None:
        self.pending.pop(request_id, None)
        self.held[request_id] = host


def _choose(now_ms: int, pending: Pending, hosts: Iterable[VirtualHost]) -> str | None:
    best: tuple[int, int, str] | None = None
    ask = pending.ask
    for host in hosts:
        name = host.name
        if ask.host not in (None, name) or name in ask.excluded_hosts:
            continue
        if pending.again_at.get(name, 0) > now_ms:
            continue
        memory, cores = host.free()
        for _, command in host.commands:
            if type(command) is Reserve and command.request_id not in host.ledger:
                memory -= command.memory_mb
                cores -= command.cores
        if not ask.urgent and (memory < ask.memory_mb or cores < ask.cores):
            continue
        offer = (-memory, sum(entry.alive for entry in host.journal.values()), name)
        if best is None or offer < best:
            best = offer
    return None if best is None else best[2]
