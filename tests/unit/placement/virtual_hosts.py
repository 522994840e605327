"""A cluster that exists in memory: hosts with books and processes, and who holds what on them.

It keeps the promises that the heart relies on, and no others:

- A host carries out its commands in order. One that it did already it only reports again.
- A stop of an unknown incarnation makes sure that it never starts, and reports it dead.
- A registration names all incarnations on the books; commands from before it are void.
- Reports come at least once, late and in any order.
- Reservations live in the cluster's memory: they end with the coordinator's process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev

HostCommand = cmd.StartContainer | cmd.StopContainer | cmd.ForgetContainer
Report = (
    ev.ContainerLaunched
    | ev.ContainerCheckedIn
    | ev.ContainerStopped
    | ev.StartFailed
    | ev.StopFailed
    | ev.ResourceAllocated
    | ev.RequestExpired
)


class Life(StrEnum):
    """What a host's books say of an incarnation."""

    LAUNCHED = "launched"
    RUNNING = "running"
    DEAD = "dead"
    NEVER = "never started"


class Fault(StrEnum):
    """What a host does wrong for as long as it lasts."""

    NO_START = "starts fail"
    NO_CHECK_IN = "containers never check in"
    STUBBORN = "processes outlive their stop"


@dataclass
class Entry:
    """One incarnation on a host's books."""

    processor_id: str
    execution_id: str
    life: Life
    stopping: bool = False

    @property
    def alive(self) -> bool:
        return self.life in (Life.LAUNCHED, Life.RUNNING)


@dataclass
class VirtualHost:
    """A host: its agent's books, and the commands on their way to it."""

    name: str
    up: bool = True
    registered: bool = False
    fault: Fault | None = None
    books: dict[str, Entry] = field(default_factory=dict)
    commands: deque[HostCommand] = field(default_factory=deque)
    reports: list[Report] = field(default_factory=list)

    def live(self) -> Iterator[Entry]:
        return (entry for entry in self.books.values() if entry.alive)

    def obey(self, at_ms: int) -> None:
        """Carries out the next command."""
        match self.commands.popleft():
            case cmd.StartContainer(processor_id, execution_id, _, _):
                if execution_id not in self.books:
                    life = Life.NEVER if self.fault is Fault.NO_START else Life.LAUNCHED
                    self.books[execution_id] = Entry(processor_id, execution_id, life)
                self.tell(at_ms, execution_id)
            case cmd.StopContainer(processor_id, execution_id, _):
                entry = self.books.setdefault(
                    execution_id, Entry(processor_id, execution_id, Life.DEAD)
                )
                entry.stopping = entry.alive
                if not entry.alive:
                    self.tell(at_ms, execution_id)
            case cmd.ForgetContainer(execution_id, _):
                if execution_id in self.books and not self.books[execution_id].alive:
                    del self.books[execution_id]

    def check_in(self, at_ms: int, entry: Entry) -> None:
        """A launched container read its model and beats."""
        entry.life = Life.RUNNING
        self.tell(at_ms, entry.execution_id)

    def die(self, at_ms: int, entry: Entry) -> None:
        """A process ends, asked or not."""
        entry.life, entry.stopping = Life.DEAD, False
        self.tell(at_ms, entry.execution_id)

    def refuse_to_die(self, at_ms: int, entry: Entry) -> None:
        """A process outlives its stop."""
        entry.stopping = False
        self.reports.append(ev.StopFailed(at_ms, entry.execution_id, self.name, "lives on"))

    def tell(self, at_ms: int, execution_id: str) -> None:
        """Reports what the books say of an incarnation."""
        match self.books[execution_id].life:
            case Life.LAUNCHED:
                report = ev.ContainerLaunched(at_ms, execution_id, self.name)
            case Life.RUNNING:
                report = ev.ContainerCheckedIn(at_ms, execution_id, self.name)
            case Life.DEAD:
                report = ev.ContainerStopped(at_ms, execution_id, self.name, 143)
            case Life.NEVER:
                report = ev.StartFailed(at_ms, execution_id, self.name, "no memory")
        self.reports.append(report)

    def reboot(self) -> None:
        """Every process and the books are gone."""
        self.books.clear()
        self.commands.clear()
        self.reports.clear()
        self.registered = False

    def register(self, at_ms: int) -> ev.HostRegistered:
        """Names the books; what was commanded before is void, what happened is told again."""
        self.registered = True
        self.commands.clear()
        for execution_id in self.books:
            self.tell(at_ms, execution_id)
        return ev.HostRegistered(at_ms, self.name, frozenset(self.books))


@dataclass
class Reservations:
    """The cluster's memory of who asked for and holds what."""

    slots: int
    asked: dict[str, cmd.RequestResource] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def ask(self, at_ms: int, request: cmd.RequestResource) -> None:
        if request.request_id in self.held:
            host = self.held[request.request_id]
            self.reports.append(ev.ResourceAllocated(at_ms, request.request_id, host))
        else:
            self.asked[request.request_id] = request

    def release(self, request_id: str) -> None:
        self.asked.pop(request_id, None)
        self.held.pop(request_id, None)

    def candidates(self, request: cmd.RequestResource, hosts: list[VirtualHost]) -> list[str]:
        """Hosts that could hold it, the freest first."""
        load = {host.name: sum(1 for _ in host.live()) for host in hosts if host.registered}
        for host in self.held.values():
            if host in load:
                load[host] += 1
        free = [
            name
            for name, used in load.items()
            if used < self.slots
            and (request.host in (None, name))
            and name not in request.excluded_hosts
        ]
        return sorted(free, key=lambda name: (load[name], name))

    def grant(self, at_ms: int, request_id: str, host: str) -> None:
        del self.asked[request_id]
        self.held[request_id] = host
        self.reports.append(ev.ResourceAllocated(at_ms, request_id, host))

    def expire(self, at_ms: int, request_id: str) -> None:
        del self.asked[request_id]
        self.reports.append(ev.RequestExpired(at_ms, request_id, "no host has room"))

    def forget(self) -> None:
        """The coordinator's process ended, and this memory with it."""
        self.asked.clear()
        self.held.clear()
