"""The shortest script that still breaks the same rule: delta debugging (Zeller 1999)."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.placement.reducer import step
from tests.simulation.moves import Move
from tests.simulation.script import Script, play
from tests.simulation.world_state import Reducer


def shrink(
    script: Script, invariant: str, *, reducer: Reducer = step, tries: int = 2_000
) -> Script:
    """Leaves out moves for as long as `invariant` is still violated.

    A move that is impossible without another is skipped. At most `tries` replays.
    """
    left = tries

    def breaks(moves: tuple[Move, ...]) -> tuple[Move, ...] | None:
        nonlocal left
        left -= 1
        played = play(script.setup, moves, reducer=reducer)
        if played.violation is None or played.violation.invariant != invariant:
            return None
        return played.applied

    # The last move may be the one that broke it, and is then never counted as applied.
    def kept(moves: tuple[Move, ...]) -> tuple[Move, ...] | None:
        applied = breaks(moves)
        if applied is None:
            return None
        if len(applied) < len(moves) and breaks(applied) is not None:
            return applied
        return moves

    best = kept(script.moves)
    if best is None:
        return script
    return Script(script.setup, _minimal(best, kept, lambda: left > 0))


def _minimal(
    moves: tuple[Move, ...],
    kept: Callable[[tuple[Move, ...]], tuple[Move, ...] | None],
    may_go_on: Callable[[], bool],
) -> tuple[Move, ...]:
    pieces = 2
    while len(moves) > 1 and may_go_on():
        size = max(1, len(moves) // pieces)
        shorter = None
        # From the end: what happened last is seldom the cause of what broke before.
        for begin in reversed(range(0, len(moves), size)):
            if not may_go_on():
                break
            shorter = kept(moves[:begin] + moves[begin + size :])
            if shorter is not None:
                break
        if shorter is not None:
            moves, pieces = shorter, max(pieces - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(pieces * 2, len(moves))
    return moves
