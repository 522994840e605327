"""`python -m tests.simulation --small-world`: every interleaving of a small job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from samza_dagster.cli.output import notice, print_table
from samza_dagster.errors import InvalidInput
from tests.simulation.report import SimulationReport
from tests.simulation.worker_end import end_with_parent

if TYPE_CHECKING:
    from tests.simulation.explorer import Exploration

DEADLINE_S = 3_600.0
"""For each kind of trouble."""


def explore_small_world(
    states: int, workers: int, troubles: tuple[str, ...], report: SimulationReport
) -> int:
    """Returns 1 when a rule broke; the fewest moves that lead there are told.

    `troubles` are names of `TROUBLES`; none of them: each. Raises
    `InvalidInput` for another name.
    """
    from tests.simulation.explorer import explore_troubles
    from tests.simulation.small_world import TROUBLES

    names = [trouble.name for trouble in TROUBLES]
    for trouble in troubles:
        if trouble not in names:
            known = ", ".join(f"'{name}'" for name in names)
            raise InvalidInput("--trouble", seen=trouble, fix=f"one of {known}")

    def explored(name: str, seen: Exploration) -> None:
        if not report.quiet:
            notice(f"{name}: {seen.states:,} states in {seen.seconds:.0f} s")

    found = explore_troubles(
        [trouble for trouble in TROUBLES if not troubles or trouble.name in troubles],
        max_states=states,
        deadline_s=DEADLINE_S,
        workers=workers,
        finished=explored,
        clock=time.monotonic,
        begins=end_with_parent,
    )
    document = {
        "version": 1,
        "small_worlds": {name: _as_json(seen) for name, seen in found.items()},
    }
    report.end(document, lambda: _show(found))
    for name, seen in found.items():
        if seen.finding is not None:
            notice(f"\n{name} breaks {seen.finding.invariant}: {seen.finding.what}")
            for number, move in enumerate(seen.finding.path, start=1):
                notice(f"  {number:2d}  {move}")
    return 1 if any(seen.finding is not None for seen in found.values()) else 0


def _show(found: Mapping[str, Exploration]) -> None:
    print_table(
        "Two actives, a standby each, three hosts",
        ("trouble", "states", "transitions", "depth", "ends", "closed", "seconds"),
        [
            (
                name,
                f"{seen.states:,}",
                f"{seen.transitions:,}",
                str(seen.depth),
                str(len(seen.outcomes)),
                "yes" if seen.closed else f"no, {seen.frontier:,} open",
                f"{seen.seconds:.1f}",
            )
            for name, seen in found.items()
        ],
    )


def _as_json(seen: Exploration) -> dict[str, Any]:
    finding = seen.finding
    return {
        "states": seen.states,
        "transitions": seen.transitions,
        "depth": seen.depth,
        "open": seen.frontier,
        "closed": seen.closed,
        "quiescent": seen.quiescent,
        "outcomes": len(seen.outcomes),
        "seconds": round(seen.seconds, 2),
        "premises": dict(seen.premises),
        "violation": None
        if finding is None
        else {
            "invariant": finding.invariant,
            "what": finding.what,
            "moves": [str(move) for move in finding.path],
        },
    }
