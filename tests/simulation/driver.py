"""Draws lots: the only place where chance enters. A seed is a whole history."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.codec import state_digest
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import PlacementAsk, Role
from tests.simulation import emphases, happenings
from tests.simulation.client_events import label
from tests.simulation.coverage import COLUMNS, RARE, RAREST, Pair, column_of, rows_of
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.judges.legality import group_with
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.moves import Move
from tests.simulation.script import Script
from tests.simulation.settings import DEPLOYED, OWN
from tests.simulation.setup import Setup, draw, skewed
from tests.simulation.world import World
from tests.simulation.world_state import Reducer

# How likely each kind of move is; what is left of 1 is what is due to happen.
FAULT, HEAL, CLIENT_EVENT, TIME = 0.035, 0.05, 0.05, 0.06
TIMES_IF_RARE, TIMES_IF_RAREST = 4.0, 12.0
"""How much likelier a fault is while a transition of that kind is under way."""
TIDY, CLOSED = 0.5, 0.04
"""How often what is due happens in order, and a read finds that no container could start."""


@dataclass(slots=True)
class SimulatedHistory:
    """What came of a seed. `premises` count per invariant how often it had something to judge."""

    seed: int
    script: Script
    events: int = 0
    changes: int = 0
    faults: int = 0
    coverage: Counter[Pair] = field(default_factory=Counter[Pair])
    premises: Counter[str] = field(default_factory=Counter[str])
    violation: InvariantViolated | None = None
    digest: str = ""


def simulate(
    seed: int,
    steps: int,
    *,
    reducer: Reducer = step,
) -> SimulatedHistory:
    """A history of about `steps` events, then the world left to settle. Same seed, same history."""
    lots = random.Random(seed)
    setup = skewed(draw(lots), seed)
    judge = InvariantJudge()
    driver = _Driver(lots, setup, seed)
    moves: list[Move] = []
    history = SimulatedHistory(seed, Script(setup, ()))
    world: World | None = None
    try:
        world = setup.build(judge, reducer)
        while world.steps < steps and len(moves) < 20 * steps:
            move = driver.choose(world)
            moves.append(move)
            driver.count(world, move, history)
            world.do(move)
        world.settle()
    except InvariantViolated as violation:
        history.violation = violation
    history.script = Script(setup, tuple(moves))
    history.premises = judge.premises
    if world is not None:
        history.events, history.changes = world.steps, world.changes
        history.digest = _digest(history, world)
    return history


def _active_of(world: World, processor_id: str) -> str:
    group = group_with(world.committed, processor_id)
    return processor_id if group is None else group.group_id


def _digest(history: SimulatedHistory, world: World) -> str:
    text = json.dumps(
        [history.script.to_json(), history.events, world.true_ms, state_digest(world.committed)]
    )
    return hashlib.sha256(text.encode()).hexdigest()


class _Driver:
    def __init__(self, lots: random.Random, setup: Setup, seed: int) -> None:
        self.lots = lots
        self.setup = setup
        self.emphasis = tuple(emphases.EMPHASES)[seed % len(emphases.EMPHASES)]
        self.asked = 0
        self.refused: list[str] = []
        self.runs = 1

    def choose(self, world: World) -> Move:
        """The next move; it was possible when it was chosen."""
        lots = self.lots
        draw_ = lots.random()
        most = FAULT * TIMES_IF_RAREST
        if draw_ < most:
            rows = rows_of(world.committed)
            times = TIMES_IF_RAREST if rows & RAREST else TIMES_IF_RARE if rows & RARE else 1.0
            if self.emphasis == "holds" and "action held" not in rows:
                times *= 0.2  # a quiet world until something is held
            if self.emphasis in ("moves", "stops"):
                acts = any(row in emphases.ACTS for row in rows)
                times = max(times, TIMES_IF_RARE) if acts else 0.2
            if draw_ < FAULT * times:
                return self._fault(world)
            draw_ = lots.uniform(most, 1.0)
        draw_ -= most
        if draw_ < HEAL:
            broken = self._heal(world)
            if broken is not None:
                return broken
        draw_ -= HEAL
        eager = 1.0 if world.leader.unread else emphases.EAGER.get(self.emphasis, 1.0)
        likely = CLIENT_EVENT * eager
        if draw_ < likely:
            return self._client_event(world)
        draw_ -= likely
        moves = happenings.due(world)
        if not moves:
            # A quiet world is one in which somebody wants something, or time goes on.
            patient = 0.8 if self.emphasis == "holds" else 0.4
            return self._client_event(world) if lots.random() < patient else self._time()
        if draw_ < TIME:
            return self._time()
        move = moves[0] if lots.random() < TIDY else lots.choice(moves)
        if move.kind == "take-over" and lots.random() < emphases.OTHERS:
            return Move("take-over", (0, self._changes(OWN)))
        if move.kind == "read" and lots.random() < CLOSED:
            return Move("read", (*move.ids, "the coordinator stream can't be read"))
        return move

    def count(self, world: World, move: Move, history: SimulatedHistory) -> None:
        """Enters a fault in the table, under all that is under way when it comes."""
        column = column_of(move)
        if column is None or (column == "reorder" and move.ids[-1] == 0 and move.kind != "late"):
            return
        if move.kind == "take-over" and world.leader.standing.value == "dead":
            return
        history.faults += 1
        for row in rows_of(world.committed):
            history.coverage[row, column] += 1

    def _fault(self, world: World) -> Move:
        by_column: dict[str, list[Move]] = {}
        for move in world.faults():
            column = column_of(move)
            if column is not None:
                by_column.setdefault(column, []).append(move)
        columns = [column for column in COLUMNS if column in by_column]
        wanted = [column for column in emphases.EMPHASES[self.emphasis] if column in by_column]
        if wanted and self.lots.random() < 0.5:
            columns = wanted
        if emphases.SCARCE_ROW in rows_of(world.committed) and self.lots.random() < emphases.SCARCE:
            columns = [
                column for column in emphases.SCARCE_COLUMNS if column in by_column
            ] or columns
        return self._cut(self.lots.choice(by_column[self.lots.choice(columns)]))

    def _cut(self, move: Move) -> Move:
        """A crash or pause after any number of effects: a step that loses a host has dozens."""
        if move.kind in ("crash", "pause"):
            return Move(move.kind, (self.lots.choice(emphases.CUTS),))
        if move.kind in ("crash-heir", "pause-heir"):
            return Move(move.kind, (self.lots.choice(emphases.CUTS), self.lots.choice((0, 1))))
        return move

    def _heal(self, world: World) -> Move | None:
        broken = [
            name
            for name, host in world.hosts.items()
            if host.troubles or host.cut_in or host.cut_out or host.frozen or not host.agent_up
        ]
        return Move("mend", (self.lots.choice(broken),)) if broken else None

    def _time(self) -> Move:
        lots = self.lots
        kind = lots.random()
        if kind < 0.6:
            return Move("tick")
        ms = lots.choice((100, 1_000, 6_500, 31_000, 70_000))
        return Move("wait" if kind < 0.9 else "leap", (ms,))

    def _client_event(self, world: World) -> Move:
        lots, kind = self.lots, self.lots.random()
        if kind < 0.12:
            standbys = self._standbys(world)
            if standbys:
                records = lots.choice((0, 10, 10_000))
                return Move("lag", (lots.choice(standbys), records, lots.choice((-1, 0, 5_000))))
        if kind < 0.13:
            return Move("stall", (self._any_incarnation(world),))
        deploys = emphases.DEPLOYS.get(self.emphasis, 0.15)
        if kind < deploys:
            return self._deploy()
        if kind < deploys + emphases.RESTARTS:
            return Move("restart", (self._changes(OWN),))
        return self._ask(world)

    def _any_incarnation(self, world: World) -> str:
        """Mostly a standby's; now and then one that is long gone."""
        groups = world.committed.groups
        known = [
            (p.role, p.incarnation.execution_id)
            for name in sorted(groups)
            for p in groups[name].processors.values()
            if p.incarnation is not None
        ]
        standbys = [name for role, name in known if role is Role.STANDBY]
        names = standbys if self.lots.random() < 0.8 else [name for _, name in known]
        return self.lots.choice(names or ["demo-0-0-000001"])

    def _seen(self, world: World, processor_id: str) -> str:
        group = group_with(world.committed, processor_id)
        processor = None if group is None else group.processors[processor_id]
        incarnation = None if processor is None else processor.incarnation
        return "" if incarnation is None else incarnation.execution_id

    def _deploy(self) -> Move:
        self.runs += 1
        layout = draw(self.lots).layout if self.lots.random() < 0.5 else self.setup.layout
        grouping = self.lots.choice(emphases.GROUPINGS)
        changes = self._changes({**OWN, **DEPLOYED}) if self.lots.random() < 0.5 else ""
        return Move("deploy", (f"run-{self.runs}", layout, grouping, changes))

    def _changes(self, settings: Mapping[str, tuple[int | str | bool, ...]]) -> str:
        """Other values of a few of these settings."""
        names = self.lots.sample(list(settings), self.lots.choice((1, 2, 4)))
        return " ".join(f"{name}={self.lots.choice(settings[name])}" for name in names)

    def _processors(self, world: World) -> list[str]:
        # By name: the order of an immutable map differs from process to process.
        groups = world.committed.groups.values()
        return sorted(pid for group in groups for pid in group.processors)

    def _standbys(self, world: World) -> list[str]:
        groups = world.committed.groups.values()
        processors = (p for group in groups for p in group.processors.values())
        return sorted(p.processor_id for p in processors if p.role is Role.STANDBY)

    def _refusal(self, world: World) -> Move:
        """Mostly of one that comes again in a form that can be read."""
        asked = world.brokers.asked
        if asked and self.lots.random() < 0.3:
            return Move("refuse", (self.lots.choice(list(asked)),))
        self.asked += 1
        self.refused.append(f"u{self.asked}")
        return Move("refuse", (self.refused[-1],))

    def _uuid(self) -> str:
        if self.refused and self.lots.random() < emphases.AGAIN:
            return self.refused.pop(self.lots.randrange(len(self.refused)))
        self.asked += 1
        return f"u{self.asked}"

    def _ask(self, world: World) -> Move:
        lots, asked = self.lots, world.brokers.asked
        if asked and lots.random() < 0.03:
            return label(asked[lots.choice(list(asked))])
        if lots.random() < emphases.REFUSALS:
            return self._refusal(world)
        uuid = self._uuid()
        kind = lots.choice(emphases.KINDS_OF.get(self.emphasis, emphases.KINDS))
        holds = 0.8 if self.emphasis == "holds" else 0.3
        refers = ""
        processors = self._processors(world)
        pid = lots.choice(processors) if processors else "0"
        if kind in (RequestKind.START_STANDBY, RequestKind.FAIL_OVER) and lots.random() < 0.8:
            pid = _active_of(world, pid)
        if kind is RequestKind.STOP_STANDBY:
            standbys = self._standbys(world)
            pid = lots.choice(standbys) if standbys else pid
        if kind in emphases.ABOUT:
            recent = list(asked)[-6:]
            held = [u for u in recent if asked[u].hold]
            wanted = held if kind is not RequestKind.CANCEL and held else recent
            refers = lots.choice(wanted) if wanted else "u0"
            if refers in asked:
                pid = asked[refers].processor_id
        odd = lots.random()
        if odd < 0.02:
            pid = "9-9"
        run = world.committed.deployment_id if odd < 0.96 else "run-0"
        destination = lots.choice((*emphases.DESTINATIONS, *self.setup.host_names))
        if self.emphasis == "holds" and kind is RequestKind.PLACE:
            destination = lots.choice((naming.ANY_HOST, *self.setup.host_names))
        if self.emphasis == "standbys" and kind is RequestKind.PLACE:
            destination = naming.STANDBY
        if destination == naming.STANDBY and kind is RequestKind.PLACE and lots.random() < 0.9:
            pid = _active_of(world, pid)
        if 0.02 <= odd < 0.03:
            destination = "host-99"
        # Every second fail-over is of the incarnation that its asker sees.
        of = self._seen(world, pid) if kind is RequestKind.FAIL_OVER and self.asked % 2 else ""
        return label(
            PlacementAsk(
                uuid,
                run,
                pid,
                destination,
                lots.randrange(1_000),
                lots.choice(emphases.HOLDS if self.emphasis == "holds" else emphases.EXPIRIES),
                kind,
                kind is RequestKind.PLACE and lots.random() < holds,
                refers,
                kind is not RequestKind.PLACE or lots.random() < 0.2,
                of,
            )
        )
