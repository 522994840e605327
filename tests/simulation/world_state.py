"""What there is in a virtual world: hosts, coordinators, brokers, time, and what is true of them.

Nothing happens in it by itself: `steps` lets its leader decide, the modules of moves change it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import JobState, Limits, PlacementAsk
from tests.simulation.brokers import VirtualBrokers
from tests.simulation.clocks import Clock
from tests.simulation.coordinators import Coordinator, ProcessState
from tests.simulation.hosts import Entry, Life, VirtualHost
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.judges.truth import Process

Reducer = Callable[[JobState, ev.Event], Step]
BEGAN_MS, WALL_MS = 1_000, 1_000_000


class WorldState:
    """Everything there is. It is the `Truth` that a judge sees, and forks into independent copies."""

    def __init__(
        self,
        hosts: Iterable[VirtualHost],
        *,
        skews: tuple[int, ...] = (),
        job: str = "demo",
        judge: InvariantJudge | None = None,
        reducer: Reducer = step,
    ) -> None:
        self.true_ms = BEGAN_MS
        self.skews = skews
        self.hosts = {host.name: host for host in hosts}
        self.former_hosts: dict[str, VirtualHost] = {}
        self.brokers = VirtualBrokers()
        self.committed = JobState(job)
        self.leader = Coordinator(1, self.committed, Clock(self.true_ms, WALL_MS))
        self.leader.last_commit_ms = WALL_MS
        self.old: Coordinator | None = None
        self.judge = judge
        self.reducer = reducer
        self.steps = 0
        self.changes = 0
        self.emitted: list[cmd.Command] | None = []
        self.heard: Callable[[ev.Event, Step], None] | None = None
        self._processes: tuple[Process, ...] | None = None
        self._changed = False

    def fork(self) -> Self:
        """An independent copy, with a judge of its own."""
        other = copy.copy(self)
        other.hosts = {name: host.copy() for name, host in self.hosts.items()}
        other.former_hosts = {name: host.copy() for name, host in self.former_hosts.items()}
        other.brokers = self.brokers.copy()
        other.leader = self.leader.copy()
        other.old = None if self.old is None else self.old.copy()
        other.judge = None if self.judge is None else self.judge.fork()
        other.heard = None
        other.emitted = None if self.emitted is None else list(self.emitted)
        other.touched()
        return other

    # -- the coordinator ---------------------------------------------------------------

    @property
    def state(self) -> JobState:
        """What the leader goes by: always the committed state."""
        return self.committed

    @property
    def job(self) -> str:
        """Its name."""
        return self.committed.job

    def machines(self) -> tuple[VirtualHost, ...]:
        """All on which something may run: the hosts, and what others took the name of."""
        return (*self.hosts.values(), *self.former_hosts.values())

    @property
    def now_ms(self) -> int:
        """The leader's clock."""
        return self.leader.clock.read(self.true_ms)

    def led(self) -> bool:
        """Whether there is a leader that decides."""
        return self.leader.standing is ProcessState.LEADING

    def talks(self, host: VirtualHost) -> bool:
        """Whether the host has registered with the leader, so that its reports are taken."""
        known = self.leader.known_hosts.get(host.name)
        return known is not None and known.talks and not host.restarted

    def own_limits(self, leader: Coordinator) -> Limits:
        """The settings that a coordinator was started with."""
        return self.committed.limits if leader.own is None else leader.own

    def touched(self) -> None:
        """Some process, or what is true of it, has changed."""
        self._processes = None
        self._changed = True

    # -- the truth ---------------------------------------------------------------------

    def processes(self) -> tuple[Process, ...]:
        """Every live process of every host."""
        if self._processes is None:
            self._processes = tuple(
                _seen(host, entry, self.brokers, lease_over=over)
                for host in self.machines()
                for over in (host.lease_left(self.true_ms) <= 0,)
                for entry in host.live()
            )
        return self._processes

    def held_resources(self) -> dict[str, str]:
        """Request id → host of what is held for a start that hasn't come."""
        return {
            request_id: host.name
            for host in self.hosts.values()
            for request_id, hold in host.ledger.items()
            if hold.user is None
        }

    def asks(self) -> Mapping[str, PlacementAsk]:
        """Every request that any client ever wrote, by uuid."""
        return self.brokers.asked

    def responses(self) -> list[cmd.WriteResponse]:
        """Every response ever committed, in order."""
        return self.brokers.responses

    def locality(self) -> Mapping[str, str]:
        """Processor → host as the coordinator stream says it."""
        return self.brokers.locality


def _seen(host: VirtualHost, entry: Entry, brokers: VirtualBrokers, *, lease_over: bool) -> Process:
    return Process(
        execution_id=entry.execution_id,
        processor_id=entry.processor_id,
        group_id=naming.group_of(entry.processor_id),
        epoch=brokers.epochs.get(entry.execution_id, 0),
        host=host.shares_machine_of or host.name,
        fault_domain=host.fault_domain,
        released=entry.released and not entry.doomed,
        checked_in=entry.life is Life.RUNNING,
        stopping=entry.stopping,
        refused=entry.execution_id in brokers.refused,
        frozen=host.frozen is not None or host.stale or host.believes_wrongly,
        lease_over=lease_over or entry.doomed,
    )
