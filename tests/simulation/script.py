"""A history as it can be written down, read back, played again and told to a person."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.moves import Move
from tests.simulation.setup import Setup
from tests.simulation.world import World
from tests.simulation.world_state import Reducer

VERSION = 1


@dataclass(frozen=True, slots=True)
class Script:
    """A setup and the moves from there. After the last one the world is left to settle."""

    setup: Setup
    moves: tuple[Move, ...]

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "version": VERSION,
            "setup": self.setup.to_json(),
            "moves": [[move.kind, *move.ids] for move in self.moves],
        }

    @classmethod
    def parse(cls, text: str) -> Script:
        """Raises `MalformedRecord` when it isn't a script of this version."""
        try:
            value = json.loads(text)
            if value["version"] != VERSION:
                raise ValueError(f"version {value['version']!r}")
            moves = tuple(Move(str(kind), tuple(ids)) for kind, *ids in value["moves"])
            return cls(Setup.from_json(value["setup"]), moves)
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedRecord(
                "read a script",
                seen=f"{type(error).__name__}: {error}",
                fix="a file that `python -m tests.simulation` wrote",
            ) from error


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a script. `applied` are the moves that were possible."""

    world: World
    applied: tuple[Move, ...]
    violation: InvariantViolated | None


def play(
    setup: Setup,
    moves: Iterable[Move],
    *,
    reducer: Reducer = step,
    lines: list[str] | None = None,
) -> Played:
    """Does every move that is possible, then lets the world settle, under all judges.

    `told` gets a line per move, event and command.
    """
    judge = InvariantJudge()
    applied: list[Move] = []
    world: World | None = None
    try:
        world = setup.build(judge, reducer)
        if lines is not None:
            world.heard = lambda event, taken: lines.extend(_lines(event, taken))
        for move in moves:
            if lines is not None:
                lines.append(f"[{world.true_ms / 1000:.3f} s] {move}")
            if world.do(move):
                applied.append(move)
            elif lines is not None:
                lines[-1] += "   (not possible)"
        if lines is not None:
            lines.append(f"[{world.true_ms / 1000:.3f} s] -- no more faults --")
        world.settle()
    except InvariantViolated as violation:
        if lines is not None:
            lines.append(f"VIOLATED {violation}")
        return Played(world or setup.build(), tuple(applied), violation)
    return Played(world, tuple(applied), None)


def _lines(event: ev.Event, taken: Step) -> list[str]:
    return [f"      > {event}", *(f"          {command}" for command in taken.commands)]
