"""A job's whole world around the heart: hosts, coordinators, brokers, time, and what may happen.

Deterministic: the same moves on the same world give the same world. Nothing here draws lots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.logins import launched_without
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import Action, JobState, Limits, Phase, PlacementAsk, Stage
from samza_dagster.simulation import faults, fingerprint, happenings, passing, settings, wishes
from samza_dagster.simulation.brokers import Brokers
from samza_dagster.simulation.clocks import Clock, HostClock
from samza_dagster.simulation.coordinators import Coordinator, Standing
from samza_dagster.simulation.effects import act, forget_lost
from samza_dagster.simulation.hosts import Entry, Life, VirtualHost
from samza_dagster.simulation.judges import quiescence
from samza_dagster.simulation.judges.durability import passed_on
from samza_dagster.simulation.judges.truth import Process, Truth
from samza_dagster.simulation.judges.violation import InvariantViolated
from samza_dagster.simulation.moves import Move

C = TypeVar("C")
Reducer = Callable[[JobState, ev.Event], Step]
HEART_RAISED = "the-heart-raised"
NEVER_QUIET = "never-quiet"
_BEGAN_MS, _WALL_MS = 1_000, 1_000_000


class Referee(Protocol):
    """Who judges every step of the heart and every move of the world."""

    def step(self, before: JobState, event: ev.Event, result: Step, truth: Truth) -> None:
        """A step was committed with its projections; its effects haven't left yet."""
        ...

    def world_changed(self, truth: Truth) -> None:
        """Something happened that the heart hasn't heard of."""
        ...

    def quiesced(self, state: JobState, truth: Truth) -> None:
        """Everybody did what they owe, and nothing is left to do."""
        ...


class World:
    """Everything there is. It is the `Truth` that a judge sees, and forks into independent copies."""

    def __init__(
        self,
        hosts: Iterable[VirtualHost],
        *,
        skews: tuple[int, ...] = (),
        job: str = "demo",
        judge: Referee | None = None,
        heart: Reducer = step,
    ) -> None:
        self.true_ms = _BEGAN_MS
        self.skews = skews
        self.hosts = {host.name: host for host in hosts}
        self.shades: dict[str, VirtualHost] = {}
        self.brokers = Brokers()
        self.committed = JobState(job)
        self.leader = Coordinator(1, self.committed, Clock(self.true_ms, _WALL_MS))
        self.leader.last_commit_ms = _WALL_MS
        self.old: Coordinator | None = None
        self.judge = judge
        self.heart = heart
        self.steps = 0
        self.changes = 0
        self.emitted: list[cmd.Command] | None = []
        self.heard: Callable[[ev.Event, Step], None] | None = None
        self._processes: tuple[Process, ...] | None = None
        self._changed = False

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        *,
        slots: int = 4,
        domains: Mapping[str, str] | None = None,
        skews: tuple[int, ...] = (),
        job: str = "demo",
        judge: Referee | None = None,
        heart: Reducer = step,
    ) -> World:
        """A world of hosts that are up and have room for `slots` containers each."""
        names = tuple(names)
        ahead_ms = dict(zip(names, skews, strict=False))
        made = [
            VirtualHost(
                name,
                HostClock(_BEGAN_MS, 0, 500_000 + ahead_ms.get(name, 0)),
                fault_domain=(domains or {}).get(name, ""),
                memory_mb=slots * 384,
                cores=slots,
                begun_with=((domains or {}).get(name, ""), slots),
            )
            for name in names
        ]
        return cls(made, skews=skews, job=job, judge=judge, heart=heart)

    def fork(self) -> World:
        """An independent copy; a judge that has `fork` is copied too."""
        twin = World.__new__(World)
        twin.true_ms, twin.skews = self.true_ms, self.skews
        twin.hosts = {name: host.copy() for name, host in self.hosts.items()}
        twin.shades = {name: shade.copy() for name, shade in self.shades.items()}
        twin.brokers = self.brokers.copy()
        twin.committed = self.committed
        twin.leader = self.leader.copy()
        twin.old = None if self.old is None else self.old.copy()
        fork = getattr(self.judge, "fork", None)
        twin.judge = self.judge if fork is None else fork()
        twin.heart, twin.heard = self.heart, None
        twin.steps, twin.changes = self.steps, self.changes
        twin.emitted = None if self.emitted is None else list(self.emitted)
        twin.touched()
        return twin

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
        return (*self.hosts.values(), *self.shades.values())

    @property
    def now_ms(self) -> int:
        """The leader's clock."""
        return self.leader.clock.read(self.true_ms)

    def handle(self, event: ev.Event) -> None:
        """One step of the leader: decided, committed, and its effects on their way.

        A trap that was set makes it end, or pause, between two effects.
        """
        leader, before = self.leader, self.committed
        assert leader.standing is Standing.LEADING, f"{event} without a leader"
        try:
            taken = self.heart(before, event)
        except InvariantViolated:
            raise
        except Exception as error:
            raise InvariantViolated(
                HEART_RAISED, f"{type(error).__name__}: {error} at {event}"
            ) from error
        self.steps += 1
        if taken.commands or (taken.state.groups is not before.groups):
            self.changes += 1
        leader.state = self.committed = taken.state
        leader.last_commit_ms = self.now_ms
        if self.emitted is not None:
            self.emitted.extend(taken.commands)
        if self.heard is not None:
            self.heard(event, taken)
        effects: list[cmd.Effect] = []
        for command in taken.commands:
            if isinstance(command, cmd.Projection):
                self.brokers.commit(command)
            else:
                effects.append(command)
        if self.judge is not None:
            self.judge.step(before, event, taken, self)
        act(self, leader, effects, trapped=bool(taken.commands))
        if taken.state.hosts is not before.hosts:
            forget_lost(self, leader, before)

    def led(self) -> bool:
        """Whether there is a leader that decides."""
        return self.leader.standing is Standing.LEADING

    def talks(self, host: VirtualHost) -> bool:
        """Whether the host has registered with the leader, so that its reports are taken."""
        book = self.leader.books.get(host.name)
        return book is not None and book.talks and not host.restarted

    def own_limits(self, leader: Coordinator) -> Limits:
        """The settings that a coordinator was started with."""
        return self.committed.limits if leader.own is None else leader.own

    def take_over(self, wall_jump_ms: int = 0, changes: str = "") -> None:
        """Another coordinator leads from what the records hold; the one before ends or is a zombie.

        It was started with the settings of that one, and these changes.
        """
        before = self.leader
        self.old = None if before.standing is Standing.DEAD else before
        if self.old is not None and self.old.standing is Standing.LEADING:
            self.old.standing = Standing.PAUSED
        now = self._wall_ms(before) + wall_jump_ms
        clock = Clock(self.true_ms, now, before.clock.ppm)
        own = settings.changed(self.own_limits(before), changes)
        stored, known = passed_on(self.committed), self.brokers.known()
        limits = settings.in_force(
            own,
            stored,
            lease_before_ms=self.brokers.lease_ms or stored.limits.lease_ms,
            logins=known,
        )
        left_out = launched_without(stored, known)
        self.brokers.lease_ms = limits.lease_ms
        self.committed = replace(stored, limits=limits)
        self.leader = Coordinator(before.epoch + 1, self.committed, clock, own, now, left_out)
        self.leader.heeds_domains = settings.heeds_fault_domains(before.heeds_domains, changes)
        self.leader.trap, self.leader.last_commit_ms = before.heir_trap, now
        self.leader.unread = list(self.brokers.topic)
        self.handle(ev.CoordinatorRestarted(now))

    def _wall_ms(self, before: Coordinator) -> int:
        """The time of whoever takes over: its machine's, or an earlier leader's where that is later."""
        if not self.skews:
            return before.clock.read(self.true_ms)
        skew_ms = self.skews[before.epoch % len(self.skews)]
        return max(self.committed.now_ms, _WALL_MS + self.true_ms - _BEGAN_MS + skew_ms)

    # -- what may happen ---------------------------------------------------------------

    def do(self, move: Move) -> bool:
        """Applies a move; False, and nothing happened, when it isn't possible now."""
        handler = _HANDLERS.get(move.kind)
        if handler is None or not handler(self, *move.ids):
            return False
        if self._changed:
            self._changed = False
            if self.judge is not None:
                self.judge.world_changed(self)
        return True

    def moves(self) -> list[Move]:
        """What is due to happen without a fault, time apart: `Move("tick")` is always there too."""
        return happenings.due(self)

    def faults(self) -> list[Move]:
        """What may go wrong now."""
        return faults.possible(self)

    def canonical(self) -> fingerprint.Canonical:
        """What this world is, whatever ids, epochs and times it came to it with."""
        return fingerprint.canonical(self)

    def touched(self) -> None:
        """Some process, or what is true of it, has changed."""
        self._processes = None
        self._changed = True

    # -- the fair world ----------------------------------------------------------------

    def mend(self) -> None:
        """All faults end: links, hosts, agents, clocks' owners; late things may still arrive."""
        faults.mend_all(self)

    def settle(self, limit: int = 5_000) -> None:
        """No more faults: everybody does what they owe until nothing is left to do.

        A processor that no host can take asks for ever; that it waits is quiet enough.
        """
        self.mend()
        for number in range(limit):
            moves = happenings.due(self)
            if not moves and number % 500 == 499 and quiescence.only_waits(self.committed):
                break
            if not self.do(moves[0] if moves else Move("tick")):
                assert not moves, f"{moves[0]} is due and isn't possible"
                break
        else:
            raise InvariantViolated(NEVER_QUIET, f"after {limit} moves: {self.phases()}")
        if self.judge is not None:
            self.judge.quiesced(self.committed, self)

    def until(self, condition: Callable[[], bool], limit: int = 1_000) -> None:
        """Fair moves, then time, until `condition` holds."""
        for _ in range(limit):
            if condition():
                return
            moves = happenings.due(self)
            if not self.do(moves[0] if moves else Move("tick")):
                break
        raise AssertionError(f"never came: {self.phases()}")

    # -- shorthands of a scenario ------------------------------------------------------

    def register(self, host: str) -> None:
        """The host's agent says its first word to the leader."""
        assert self.do(Move("register", (host,))), f"{host} can't register"

    def deploy(
        self,
        groups: Mapping[str, tuple[str, ...]],
        *,
        deployment_id: str = "run-1",
        last_seen: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """The leader begins a deployment, with the settings that it was started with."""
        self.leader.own, self.brokers.lease_ms = None, 0
        self.handle(
            ev.JobDeployed(self.now_ms, deployment_id, groups, last_seen or {}, limits or Limits())
        )

    def submit(self, ask: PlacementAsk) -> None:
        """A client writes a request, and the leader reads it."""
        self.brokers.asked[ask.uuid] = self.brokers.topic[ask.uuid] = ask
        self.handle(ev.RequestArrived(self.now_ms, ask))

    def phases(self) -> dict[str, Phase]:
        """Processor → phase, as the heart has it."""
        return {
            pid: processor.phase
            for group in self.committed.groups.values()
            for pid, processor in group.processors.items()
        }

    def action(self, group_id: str) -> Action | None:
        """The group's action."""
        return self.committed.groups[group_id].action

    def stage(self, group_id: str) -> Stage | None:
        """Where the group's action stands."""
        action = self.action(group_id)
        return action.stage if action is not None else None

    def sent(self, kind: type[C]) -> list[C]:
        """The commands of one kind so far, in order."""
        return [command for command in self.emitted or () if isinstance(command, kind)]

    def entry(self, processor_id: str) -> Entry:
        """The books' line of the processor's live process."""
        return next(
            entry
            for host in self.hosts.values()
            for entry in host.live()
            if entry.processor_id == processor_id
        )

    def where(self, processor_id: str) -> str | None:
        """The host of the processor's live process."""
        return next((p.host for p in self.processes() if p.processor_id == processor_id), None)

    def told(self, uuid: str) -> list[tuple[str, str]]:
        """(status, message) of every response to a request, repetitions left out."""
        records = (r for r in self.brokers.responses if r.uuid == uuid)
        said = dict.fromkeys((r.status, r.message, r.timestamp_ms) for r in records)
        return [(status, message) for status, message, _ in said]

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


def _seen(host: VirtualHost, entry: Entry, brokers: Brokers, *, lease_over: bool) -> Process:
    return Process(
        execution_id=entry.execution_id,
        processor_id=entry.processor_id,
        group_id=naming.group_of(entry.processor_id),
        epoch=brokers.epochs.get(entry.execution_id, 0),
        host=host.shade_of or host.name,
        fault_domain=host.fault_domain,
        released=entry.released and not entry.doomed,
        checked_in=entry.life is Life.RUNNING,
        stopping=entry.stopping,
        refused=entry.execution_id in brokers.refused,
        frozen=host.frozen is not None or host.stale or host.believes_wrongly,
        lease_over=lease_over or entry.doomed,
    )


Handler = Callable[..., bool]
_HANDLERS: dict[str, Handler] = {
    **happenings.HANDLERS,
    **faults.HANDLERS,
    **passing.HANDLERS,
    **wishes.HANDLERS,
}
