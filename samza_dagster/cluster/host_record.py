"""The record of one host, and the commands that its agent hasn't received."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.cluster.agent_messages import ReportedContainer, Resources, Sync
from samza_dagster.cluster.allocation import KnownHost
from samza_dagster.cluster.interface import ClusterCallbacks, HostResources

Notice = Callable[[ClusterCallbacks], None]
"""One callback, still to be made."""

_LIVE = frozenset({"launching", "running", "stopping"})


@dataclass
class HostRecord:
    """A host: its agent's last report, and the commands that it hasn't acknowledged.

    Times are the cluster's clock, in seconds. `granted_at`: every lease that the host
    has of this coordinator was granted then or before. `admitted`: the coordinator has
    dealt with its registration, so that a lease may end later than those before.
    `losses`: how often it was lost. An agent that knows the number refuses older replies.
    `boot_id` and `began_ms` (of that boot's clock): when the agent of `instance` began.
    `journal` is the id of the records that this agent goes by.
    """

    host: str
    commands: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    instance: str | None = None
    past_instances: set[str] = field(default_factory=set[str])
    boot_id: str = ""
    began_ms: int | None = None
    sequence: int = -1
    resources: Resources | None = None
    reservations: dict[str, str | None] = field(default_factory=dict[str, str | None])
    # Hold at the engine → the incarnation that runs on it.
    holds: dict[str, str] = field(default_factory=dict[str, str])
    containers: dict[str, ReportedContainer] = field(default_factory=dict[str, ReportedContainer])
    # Request id → whether what is parked for it waits for its JobModel already.
    parked: dict[str, bool] = field(default_factory=dict[str, bool])
    heard_at: float = 0.0
    granted_at: float = 0.0
    admitted: bool = False
    lost: bool = False
    losses: int = 0
    fault_domain: str = ""
    journal: str = ""

    @property
    def is_registered(self) -> bool:
        """An agent has registered, and is not lost."""
        return self.instance is not None and not self.lost

    def has_heard_of_losses(self, sync: Sync) -> bool:
        """Return whether its agent refuses commands from before the last loss."""
        return sync.losses >= self.losses

    def is_over(self, sync: Sync) -> bool:
        """Return whether a later agent of the host has registered than the one that reports.

        One that never registered here itself is told by when it began: its word may have been
        under way for longer than its successor's.
        """
        if sync.instance == self.instance or sync.instance in self.past_instances:
            return sync.instance != self.instance
        if sync.boot_id != self.boot_id or self.began_ms is None:
            return False
        return sync.began_ms < self.began_ms

    def is_replaced_by(self, sync: Sync) -> bool:
        """Return whether its journal or its boot are others: nothing is held or under way there."""
        if self.instance is None:
            return False
        return (sync.journal, sync.boot_id) != (self.journal, self.boot_id)

    def take(self, sync: Sync) -> list[Notice]:
        """Record a report; return the callbacks that it causes, in order.

        An agent that is new here or was lost registers: everything that it has is reported again.
        Reports of one agent may overtake each other; an older one changes nothing. One
        that takes another's place must not begin what that one may have begun.
        """
        registers = sync.instance != self.instance or self.lost
        if not registers and sync.sequence <= self.sequence:
            return []
        if self.instance is not None and sync.instance != self.instance:
            self.past_instances.add(self.instance)
        if self.is_replaced_by(sync):
            self._take_starts_back()
        before = self.containers
        self.instance, self.sequence, self.lost = sync.instance, sync.sequence, False
        self.boot_id, self.began_ms = sync.boot_id, sync.began_ms
        self.fault_domain, self.journal = sync.fault_domain, sync.journal
        self.resources = sync.resources
        self.reservations = {r.request_id: r.execution_id for r in sync.reservations}
        self.holds = {
            r.hold: r.execution_id for r in sync.reservations if r.hold and r.execution_id
        }
        self.containers = {c.execution_id: c for c in sync.containers}
        self.parked = {p.request_id: p.ready for p in sync.parked}
        if registers:
            self.admitted = False
            return self.report()
        return list(changes(self.host, before, sync.containers))

    def report(self) -> list[Notice]:
        """Return the callbacks of a registration with the last report."""
        host = self.host
        return [
            self._registration(),
            *changes(host, {}, self.containers.values()),
            lambda to: to.on_host_told(host),
        ]

    def _registration(self) -> Notice:
        resources = self.as_resources()
        observed = tuple(c.observed() for c in self.containers.values())
        return lambda to: to.on_host_registered(resources, observed)

    def as_resources(self) -> HostResources:
        """Return the registered host as the cluster's interface names it."""
        assert self.resources is not None
        return HostResources(
            self.host,
            self.resources.memory_mb,
            self.resources.cores,
            self.resources.free_memory_mb,
            self.resources.free_cores,
            self.fault_domain,
            self.journal,
            self.boot_id,
        )

    def view(self, now: float) -> KnownHost | None:
        """Return the host as a candidate; reservations under way count as taken."""
        if self.resources is None:
            return None
        coming = [
            c
            for c in self.commands.values()
            if c["kind"] == "reserve" and c["request_id"] not in self.reservations
        ]
        return KnownHost(
            host=self.host,
            free_memory_mb=self.resources.free_memory_mb - sum(c["memory_mb"] for c in coming),
            free_cores=self.resources.free_cores - sum(c["cores"] for c in coming),
            containers=sum(c.state in _LIVE for c in self.containers.values()),
            lost_for_s=now - self.heard_at if self.lost else None,
        )

    def lease_s(self, now: float, *, free_s: float, longest_s: float) -> float:
        """Return the lease of a reply, counted from when the agent asked; 0 or less is none.

        `free_s` may be granted now, and `longest_s` ever. One that the coordinator may count as
        lost, and replace what ran there once the lease is over, gets no more than is left of that.
        """
        if self.admitted:
            self.granted_at = now
        return min(free_s, self.granted_at + longest_s - now)

    def lose(self) -> None:
        """Count the host as lost: withdraw every command that would start something.

        An agent that comes back later must not carry out an old start.
        """
        self.lost = True
        self.losses += 1
        self.admitted = False
        self._take_starts_back()

    def _take_starts_back(self) -> None:
        self.commands = {
            key: c for key, c in self.commands.items() if c["kind"] not in ("reserve", "start")
        }

    def localities(self) -> dict[str, str]:
        """Return processor → this host for the checked-in containers that run here."""
        return {
            c.processor_id: self.host
            for c in self.containers.values()
            if c.checked_in and c.state in _LIVE
        }


def changes(
    host: str, before: Mapping[str, ReportedContainer], now: Iterable[ReportedContainer]
) -> Iterable[Notice]:
    """Return the callbacks between two reports, for each container in order of events."""
    for container in now:
        old = before.get(container.execution_id)
        yield from _container_changes(host, old, container)


def _container_changes(
    host: str, old: ReportedContainer | None, new: ReportedContainer
) -> Iterable[Notice]:
    eid = new.execution_id
    pid, status, why, failure = new.pid, new.exit_status, new.why, new.stop_failed
    if pid is not None and (old is None or old.pid is None):
        yield lambda to: to.on_container_launched(eid, host, pid)
    if new.checked_in and (old is None or not old.checked_in):
        yield lambda to: to.on_container_checked_in(eid, host)
    if failure and (old is None or not old.stop_failed):
        yield lambda to: to.on_stop_failed(eid, host, failure)
    if old is None or old.state != new.state:
        if new.state == "failed":
            yield lambda to: to.on_start_failed(eid, host, why)
        elif new.state == "dead":
            yield lambda to: to.on_container_stopped(eid, host, status)
