"""Which move comes next, in which sandbox, and what becomes of one that fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from benchmarks.downtime_judgement import HOST_LOST, KINDS, LOST_EVERY, Move, Results, turns

REBUILDS = 3
SET_UP = "set-up"
DOWN_S = 20.0
"""What the end of a sandbox takes."""


def next_kind(had: dict[str, list[Move]], moves: int) -> str | None:
    """What a size with these results has to measure next; None when it has `moves` turns."""
    counts = {kind: len(had.get(kind, ())) for kind in KINDS}
    turn = turns(had)
    if turn < moves and counts[HOST_LOST] < math.ceil((turn + 1) / LOST_EVERY):
        return HOST_LOST
    if turn >= moves:
        return None
    return next(kind for kind in KINDS if kind != HOST_LOST and counts[kind] == turn)


@dataclass
class Times:
    """What there is time for until `ends_at`, by the given clock: as long as it took so far at most.

    Of what wasn't done yet a generous guess, which state in MB lengthens.
    """

    ends_at: float
    clock: Callable[[], float] = time.monotonic
    _longest: dict[tuple[float, str], float] = field(default_factory=dict[tuple[float, str], float])

    def took(self, size: float, what: str, since: float) -> None:
        """From then until now."""
        taken = self.clock() - since
        self._longest[size, what] = max(taken, self._longest.get((size, what), 0.0))

    def has(self, size: float, whats: Iterable[str]) -> bool:
        """All of them, and the end of the sandbox."""
        left = self.ends_at - self.clock() - DOWN_S
        return (
            sum(self._longest.get((size, each), self._guess(size, each)) for each in whats) <= left
        )

    @staticmethod
    def _guess(size: float, what: str) -> float:
        return 90.0 + size if what == SET_UP else 45.0 + 0.25 * size


def measure_all(
    results: Results,
    failed: list[str],
    sandbox_of: Callable[[float], AbstractContextManager[Callable[[str], Move]]],
    moves: int,
    in_a_row: int,
    keep: Callable[[], None],
    times: Times,
) -> None:
    """Adds to `results` until each size has `moves` turns, and calls `keep` after each move.

    The size with the fewest turns gets the next `in_a_row`, in one sandbox. One in which
    something failed is given up: what it was is added to `failed`, and another goes on,
    `REBUILDS` times at most. Nothing is begun that isn't over in time, as far as `times` knows.
    """
    rebuilds = 0
    while True:
        size = min(results, key=lambda each: (turns(results[each]), each))
        kind = next_kind(results[size], moves)
        if kind is None or not times.has(size, (SET_UP, kind)):
            return
        upto = min(moves, turns(results[size]) + in_a_row)
        doing, since = SET_UP, times.clock()
        try:
            with sandbox_of(size) as move:
                times.took(size, SET_UP, since)
                while (kind := next_kind(results[size], upto)) and times.has(size, (kind,)):
                    doing, since = kind, times.clock()
                    made = move(kind)
                    results[size].setdefault(kind, []).append(made)
                    times.took(size, kind, since)
                    keep()
        except (Exception, SystemExit) as error:
            failed.append(f"{size:g} MB, {doing}: {type(error).__name__}: {error}")
            keep()
            if rebuilds == REBUILDS:
                failed.append(f"given up: {REBUILDS} sandboxes were built anew already")
                return
            rebuilds += 1
