"""Many histories over several processes, and what came of all of them."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.coverage import COLUMNS, ROWS, Pair, missing
from tests.simulation.driver import SimulatedHistory, simulate
from tests.simulation.script import Script

EVENTS_A_HISTORY = 250
_HISTORIES_A_TURN = 20


@dataclass(frozen=True, slots=True)
class BrokenHistory:
    """A seed whose history broke a rule."""

    seed: int
    invariant: str
    what: str
    script: Script


@dataclass(slots=True)
class CampaignResult:
    """Sums over every history; seeds are those from `first_seed` on, without a gap."""

    first_seed: int
    histories: int = 0
    events: int = 0
    changes: int = 0
    faults: int = 0
    seconds: float = 0.0
    coverage: Counter[Pair] = field(default_factory=Counter[Pair])
    premises: Counter[str] = field(default_factory=Counter[str])
    broken: list[BrokenHistory] = field(default_factory=list[BrokenHistory])

    def add(self, history: SimulatedHistory) -> None:
        """Takes in one more."""
        self.histories += 1
        self.events += history.events
        self.changes += history.changes
        self.faults += history.faults
        self.coverage.update(history.coverage)
        self.premises.update(history.premises)
        found = history.violation
        if found is not None:
            self.broken.append(
                BrokenHistory(history.seed, found.invariant, found.what, history.script)
            )

    def merge(self, other: CampaignResult) -> None:
        """Takes in a worker's sums."""
        self.histories += other.histories
        self.events += other.events
        self.changes += other.changes
        self.faults += other.faults
        self.coverage.update(other.coverage)
        self.premises.update(other.premises)
        self.broken.extend(other.broken)

    def to_json(self, invariants: tuple[str, ...], at_least: int) -> dict[str, Any]:
        """One document: counts, premises, the table, and every broken history with its script."""
        last = self.first_seed + self.histories - 1
        return {
            "version": 1,
            "seeds": [self.first_seed, last],
            "histories": self.histories,
            "events": self.events,
            "events_that_changed_the_state": self.changes,
            "faults": self.faults,
            "seconds": round(self.seconds, 1),
            "events_per_second": round(self.events / self.seconds) if self.seconds else 0,
            "premises": {name: self.premises[name] for name in invariants},
            "coverage": {
                row: {column: self.coverage[row, column] for column in COLUMNS} for row in ROWS
            },
            "pairs_met_less_often": {
                "than": at_least,
                "pairs": [list(pair) for pair in missing(self.coverage, at_least)],
            },
            "violations": [
                {
                    "seed": broken.seed,
                    "invariant": broken.invariant,
                    "what": broken.what,
                    "script": broken.script.to_json(),
                }
                for broken in self.broken
            ],
        }


def _turn(task: tuple[int, int, int]) -> CampaignResult:
    first, count, steps = task
    result = CampaignResult(first)
    for seed in range(first, first + count):
        result.add(simulate(seed, steps))
    return result


def run(
    first_seed: int,
    events: int,
    *,
    workers: int = 1,
    steps: int = EVENTS_A_HISTORY,
    most_broken: int = 10,
    progress: Callable[[CampaignResult], None] | None = None,
    clock: Callable[[], float],
    begins: Callable[[], None] | None = None,
) -> CampaignResult:
    """Histories from `first_seed` on until `events` were taken, or too many are broken.

    `clock` measures how long it took, in seconds.
    With several workers the seeds are the same, only their order of ending differs; `begins`
    is the first that each of them calls.
    """
    result = CampaignResult(first_seed)
    began = clock()

    def tasks() -> Iterator[tuple[int, int, int]]:
        seed = first_seed
        while result.events < events and len(result.broken) < most_broken:
            yield seed, _HISTORIES_A_TURN, steps
            seed += _HISTORIES_A_TURN

    def take(part: CampaignResult) -> None:
        result.merge(part)
        result.seconds = clock() - began
        if progress is not None:
            progress(result)

    if workers <= 1:
        for task in tasks():
            take(_turn(task))
        return result
    # Each process begins anew: nothing of a parent's threads or clients is inherited.
    with multiprocessing.get_context("spawn").Pool(workers, begins) as pool:
        under_way: list[Any] = []
        source = tasks()
        while True:
            while len(under_way) < workers * 2 and (task := next(source, None)) is not None:
                under_way.append(pool.apply_async(_turn, (task,)))
            if not under_way:
                return result
            take(under_way.pop(0).get())
