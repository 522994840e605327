"""A job's whole world around the reducer, in which moves happen.

Deterministic: the same moves on the same world give the same world. Nothing here draws lots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Action, Limits, Phase, PlacementAsk, Stage
from tests.simulation import client_events, faults, fingerprint, happenings, passing
from tests.simulation.clocks import HostClocks
from tests.simulation.hosts import Entry, VirtualHost
from tests.simulation.judges import quiescence
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.moves import Handler, Move
from tests.simulation.steps import handle
from tests.simulation.world_state import BEGAN_MS, Reducer, WorldState

C = TypeVar("C")
NEVER_QUIET = "never-quiet"
_HANDLERS: dict[str, Handler] = {
    **happenings.HANDLERS,
    **faults.HANDLERS,
    **passing.HANDLERS,
    **client_events.HANDLERS,
}


class World(WorldState):
    """What there is, what may happen to it, and shorthands for whoever tells a scenario."""

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        *,
        slots: int = 4,
        domains: Mapping[str, str] | None = None,
        skews: tuple[int, ...] = (),
        job: str = "demo",
        judge: InvariantJudge | None = None,
        reducer: Reducer = step,
    ) -> Self:
        """A world of hosts that are up and have room for `slots` containers each."""
        names = tuple(names)
        ahead_ms = dict(zip(names, skews, strict=False))
        made = [
            VirtualHost(
                name,
                HostClocks(BEGAN_MS, 0, 500_000 + ahead_ms.get(name, 0)),
                fault_domain=(domains or {}).get(name, ""),
                memory_mb=slots * 384,
                cores=slots,
                begun_with=((domains or {}).get(name, ""), slots),
            )
            for name in names
        ]
        return cls(made, skews=skews, job=job, judge=judge, reducer=reducer)

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
        seen, bounds = last_seen or {}, limits or Limits()
        handle(self, ev.JobDeployed(self.now_ms, deployment_id, groups, seen, bounds))

    def submit(self, ask: PlacementAsk) -> None:
        """A client writes a request, and the leader reads it."""
        self.brokers.asked[ask.uuid] = self.brokers.topic[ask.uuid] = ask
        handle(self, ev.RequestArrived(self.now_ms, ask))

    def phases(self) -> dict[str, Phase]:
        """Processor → phase, as the reducer has it."""
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
        """The journal's line of the processor's live process."""
        return next(
            entry
            for host in self.hosts.values()
            for entry in host.live()
            if entry.processor_id == processor_id
        )

    def where(self, processor_id: str) -> str | None:
        """The host of the processor's live process."""
        return next((p.host for p in self.processes() if p.processor_id == processor_id), None)

    def responses_to(self, uuid: str) -> list[tuple[str, str]]:
        """(status, message) of every response to a request, repetitions left out."""
        records = (r for r in self.brokers.responses if r.uuid == uuid)
        said = dict.fromkeys((r.status, r.message, r.timestamp_ms) for r in records)
        return [(status, message) for status, message, _ in said]
