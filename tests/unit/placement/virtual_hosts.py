"""A cluster that exists in memory: hosts with books and processes, and who holds what on them.

It keeps the promises that the heart relies on, and no others:

- A host carries out its commands in order. One that it did already changes nothing.
- A start needs the resource that its request holds on the host, once.
- A stop of an incarnation that isn't on the books is answered: it isn't there.
- A registration names all incarnations on the books, and tells of resources held for nobody.
- Reports come at least once, late and in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev

HostCommand = cmd.StartContainer | cmd.StopContainer | cmd.ForgetContainer | cmd.ReleaseResource
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
    """A host: its agent's books and ledger, and the commands on their way to it.

    The ledger has who uses the resource of a request; None is held for a start to come.
    """

    name: str
    up: bool = True
    silent_since_ms: int = 0
    registered: bool = False
    fault: Fault | None = None
    books: dict[str, Entry] = field(default_factory=dict)
    ledger: dict[str, str | None] = field(default_factory=dict)
    commands: deque[HostCommand] = field(default_factory=deque)
    reports: list[Report] = field(default_factory=list)
    ever_checked_in: set[str] = field(default_factory=set)

    def live(self) -> Iterator[Entry]:
        return (entry for entry in self.books.values() if entry.alive)

    def obey(self, at_ms: int) -> None:
        """Carries out the next command."""
        match self.commands.popleft():
            case cmd.StartContainer(processor_id, execution_id, _, request_id):
                if execution_id not in self.books:
                    self._start(processor_id, execution_id, request_id)
                self.tell(at_ms, execution_id)
            case cmd.StopContainer(_, execution_id, _):
                entry = self.books.get(execution_id)
                if entry is None:
                    gone = ev.ContainerStopped(at_ms, execution_id, self.name, None)
                    self.reports.append(gone)
                elif entry.alive:
                    entry.stopping = True
                else:
                    self.tell(at_ms, execution_id)
            case cmd.ForgetContainer(execution_id, _):
                if execution_id in self.books and not self.books[execution_id].alive:
                    del self.books[execution_id]
            case cmd.ReleaseResource(request_id):
                if self.ledger.get(request_id, "") is None:
                    del self.ledger[request_id]

    def _start(self, processor_id: str, execution_id: str, request_id: str) -> None:
        held = request_id in self.ledger and self.ledger[request_id] is None
        life = Life.LAUNCHED if held and self.fault is not Fault.NO_START else Life.NEVER
        self.books[execution_id] = Entry(processor_id, execution_id, life)
        if life is Life.LAUNCHED:
            self.ledger[request_id] = execution_id

    def check_in(self, at_ms: int, entry: Entry) -> None:
        """A launched container read its model and beats."""
        entry.life = Life.RUNNING
        self.ever_checked_in.add(entry.execution_id)
        self.tell(at_ms, entry.execution_id)

    def die(self, at_ms: int, entry: Entry) -> None:
        """A process ends, asked or not."""
        entry.life, entry.stopping = Life.DEAD, False
        self.ledger = {r: user for r, user in self.ledger.items() if user != entry.execution_id}
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
        """Every process, the books and the ledger are gone; commands are still on their way."""
        self.books.clear()
        self.ledger.clear()
        self.reports.clear()
        self.registered = False

    def register(self, at_ms: int) -> ev.HostRegistered:
        """Names the books, and tells again what happened."""
        self.registered = True
        for execution_id in self.books:
            self.tell(at_ms, execution_id)
        for request_id, user in self.ledger.items():
            if user is None:
                self.reports.append(ev.ResourceAllocated(at_ms, request_id, self.name))
        return ev.HostRegistered(at_ms, self.name, frozenset(self.books))


@dataclass
class Requests:
    """Open resource requests. They end with the coordinator's process; what is held stays."""

    slots: int
    hosts: dict[str, VirtualHost]
    asked: dict[str, cmd.RequestResource] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def ask(self, at_ms: int, request: cmd.RequestResource) -> None:
        for host in self.hosts.values():
            if request.request_id in host.ledger:
                self.reports.append(ev.ResourceAllocated(at_ms, request.request_id, host.name))
                return
        self.asked[request.request_id] = request

    def release(self, command: cmd.ReleaseResource) -> None:
        self.asked.pop(command.request_id, None)
        for host in self.hosts.values():
            if command.request_id in host.ledger:
                host.commands.append(command)

    def candidates(self, request: cmd.RequestResource) -> list[str]:
        """Hosts that could hold it, the freest first."""
        free = [
            host
            for host in self.hosts.values()
            if host.registered
            and len(host.ledger) < self.slots
            and request.host in (None, host.name)
            and host.name not in request.excluded_hosts
        ]
        return [host.name for host in sorted(free, key=lambda h: (len(h.ledger), h.name))]

    def grant(self, at_ms: int, request_id: str, host: str) -> None:
        del self.asked[request_id]
        self.hosts[host].ledger[request_id] = None
        self.reports.append(ev.ResourceAllocated(at_ms, request_id, host))

    def expire(self, at_ms: int, request_id: str) -> None:
        del self.asked[request_id]
        self.reports.append(ev.RequestExpired(at_ms, request_id, "no host has room"))

    def held(self) -> list[str]:
        """Requests that hold a resource for a start that hasn't come."""
        return [
            r for host in self.hosts.values() for r, user in host.ledger.items() if user is None
        ]
