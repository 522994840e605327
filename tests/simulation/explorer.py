"""Every interleaving of a small world, breadth first: the judge sees each step of each.

Two worlds that differ only in ids, epochs and how they came about count as one state, so
that what is kept of a state is 64 bits of a hash, its parent and the move between. With n
states two differ and share a hash with probability n²/2⁶⁵: 10⁻⁷ at a million.
"""

from __future__ import annotations

import gc
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.judges.violation import RECOVERY_EQUIVALENT, InvariantViolated
from tests.simulation.moves import Move
from tests.simulation.small_world import (
    TROUBLES,
    Budget,
    SmallWorld,
    TroubleKind,
    is_whole,
    outcome,
)
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A rule that is broken, and the fewest moves that lead there."""

    invariant: str
    what: str
    path: tuple[Move, ...]


@dataclass(slots=True)
class Exploration:
    """What was seen. `closed`: there is no state that wasn't looked at.

    `depth` is the longest of the shortest ways; `frontier` the states yet to be expanded
    when it ended. `outcomes` are the distinct ends that a person could tell apart.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    frontier: int = 0
    quiescent: int = 0
    closed: bool = False
    seconds: float = 0.0
    finding: Counterexample | None = None
    premises: Counter[str] = field(default_factory=Counter[str])
    outcomes: dict[tuple[object, ...], tuple[Move, ...]] = field(
        default_factory=dict[tuple[object, ...], tuple[Move, ...]]
    )


@dataclass(slots=True)
class _Ways:
    """How each state was reached first: parent and move, by the state's number."""

    parents: array[int] = field(default_factory=lambda: array("q"))
    by_move: array[int] = field(default_factory=lambda: array("l"))
    moves: list[Move] = field(default_factory=list[Move])
    numbers: dict[Move, int] = field(default_factory=dict[Move, int])

    def add(self, parent: int, move: Move | None) -> int:
        """The number of a new state."""
        number = -1
        if move is not None:
            number = self.numbers.setdefault(move, len(self.moves))
            if number == len(self.moves):
                self.moves.append(move)
        self.parents.append(parent)
        self.by_move.append(number)
        return len(self.parents) - 1

    def path(self, state: int) -> tuple[Move, ...]:
        """The moves from the first state to this one."""
        path: list[Move] = []
        while self.parents[state] >= 0:
            path.append(self.moves[self.by_move[state]])
            state = self.parents[state]
        return tuple(reversed(path))


def _standing_still() -> float:
    """The clock of who sets no deadline."""
    return 0.0


def explore(
    config: SmallWorld,
    max_states: int = 1_000_000,
    deadline_s: float = 600.0,
    clock: Callable[[], float] = _standing_still,
) -> Exploration:
    """Expands states until none is left, or a rule is broken, or a bound is reached."""
    began = clock()
    seen = Exploration()
    ways = _Ways()
    world = config.begin()
    frontier: deque[tuple[World, Budget, int, int]] = deque()
    known = {hash((world.canonical(), config.budget))}
    frontier.append((world, config.budget, ways.add(-1, None), 0))
    collecting = gc.isenabled()
    # Worlds have no cycles; a collector that walks a million of them finds nothing.
    gc.disable()
    try:
        while frontier:
            if len(known) >= max_states or clock() - began > deadline_s:
                break
            world, budget, number, depth = frontier.popleft()
            seen.depth = max(seen.depth, depth)
            if not _expand(config, seen, ways, known, frontier, (world, budget, number, depth)):
                break
    finally:
        if collecting:
            gc.enable()
    seen.states, seen.frontier = len(known), len(frontier)
    seen.closed = not frontier and seen.finding is None
    seen.seconds = clock() - began
    return seen


def explore_troubles(
    troubles: Sequence[TroubleKind] = TROUBLES,
    max_states: int = 1_000_000,
    deadline_s: float = 600.0,
    workers: int = 2,
    finished: Callable[[str, Exploration], None] = lambda _name, _seen: None,
    clock: Callable[[], float] = _standing_still,
    begins: Callable[[], None] | None = None,
) -> dict[str, Exploration]:
    """Every trouble within the bounds; then: is every end that a crash led to one without it?

    `begins` is the first that each worker calls.
    """
    found: dict[str, Exploration] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=begins) as pool:
        begun = {
            pool.submit(explore, trouble.world, max_states, deadline_s, clock): trouble.name
            for trouble in troubles
        }
        for done in as_completed(begun):
            found[begun[done]] = done.result()
            finished(begun[done], done.result())
    for trouble in troubles:
        calm = found.get(trouble.calm)
        if calm is not None and calm.closed:
            _compare(found[trouble.name], calm)
    return {trouble.name: found[trouble.name] for trouble in troubles}


def _compare(crashed: Exploration, calm: Exploration) -> None:
    for end, path in crashed.outcomes.items():
        if crashed.finding is None and end not in calm.outcomes:
            what = f"only a crash leads to {end}"
            crashed.finding = Counterexample(RECOVERY_EQUIVALENT, what, path)


def _expand(
    config: SmallWorld,
    seen: Exploration,
    ways: _Ways,
    known: set[int],
    frontier: deque[tuple[World, Budget, int, int]],
    node: tuple[World, Budget, int, int],
) -> bool:
    """Does every move from one state; False when one of them broke a rule."""
    world, budget, number, depth = node
    options = list(config.moves(world, budget))
    quiet = len(options) == 0 or options[0][0].kind == "tick"
    for move, left in options:
        other = world.fork()
        try:
            if not other.do(move):
                if quiet and move.kind == "tick" and is_whole(world):
                    _end(seen, ways, world, number)
                continue
            seen.transitions += 1
            key = hash((other.canonical(), left))
        except InvariantViolated as violated:
            path = (*ways.path(number), move)
            seen.finding = Counterexample(violated.invariant, violated.what, path)
            _count(seen, other)
            return False
        if key not in known:
            known.add(key)
            frontier.append((other, left, ways.add(number, move), depth + 1))
    if not frontier or seen.transitions % 64 == 0:
        _count(seen, world)
    return True


def _end(seen: Exploration, ways: _Ways, world: World, number: int) -> None:
    """Nothing can happen any more by itself."""
    seen.quiescent += 1
    if world.judge is not None:
        world.judge.quiesced(world.committed, world)
    seen.outcomes.setdefault(outcome(world), ways.path(number))


def _count(seen: Exploration, world: World) -> None:
    """Keeps the highest count of each premise on any one way."""
    if world.judge is not None:
        seen.premises |= world.judge.premises
