"""Runs inside of a copy of the product: seeds until a rule is broken, or the bound is reached.

    python hunt.py FIRST_SEED STEPS EVENTS [--for=NAME] [--seeds=3,17,…]

Prints one JSON object. The bound is in events that the reducer takes, so that a busy machine
finds the same. A history that doesn't end (by CPU time) and a reducer that raises are found too.
With `--for` a history that another judge breaks is no find: the hunt goes on, and what was found
first is told only if the one named finds nothing. With `--seeds` no other seeds are tried.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time
import traceback
from types import FrameType
from typing import Any

LONGEST_HISTORY_S = 20
# Many short and diverse histories first: most bugs show at once, or only after long.
SHORT_HISTORIES = 18
SHORT_STEPS = 90
NEVER_ENDS = "never-ends"
DOES_NOT_LOAD = "does-not-load"


class Endless(Exception):
    """One history took longer than any should."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise Endless


def hunt(
    first: int,
    steps: int,
    most: int,
    *,
    only: tuple[int, ...] | None = None,
    named: str = "",
) -> dict[str, Any]:
    """What was found: invariant, seed, events of the whole hunt; invariant None if nothing was."""
    try:
        from tests.simulation.driver import simulate
    except Exception:
        return {"invariant": DOES_NOT_LOAD, "what": traceback.format_exc(limit=-2), "events": 0}
    signal.signal(signal.SIGPROF, _ring)
    began, tried, events, premises = time.process_time(), 0, 0, dict[str, int]()
    other: dict[str, Any] | None = None
    for seed in itertools.count(first) if only is None else only:
        if events >= most:
            break
        tried += 1
        signal.setitimer(signal.ITIMER_PROF, LONGEST_HISTORY_S)
        try:
            history = simulate(seed, _steps(seed - first, steps))
        except Endless:
            return {"invariant": NEVER_ENDS, "what": "", "seed": seed, "events": events}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        events += max(1, history.events)
        for name, count in history.premises.items():
            premises[name] = premises.get(name, 0) + count
        if history.violation is not None:
            found = {
                "invariant": history.violation.invariant,
                "what": history.violation.what,
                "seed": seed,
                "events": events,
                "cpu_seconds": round(time.process_time() - began, 2),
            }
            if named in ("", found["invariant"]):
                return found
            other = other or found
    return other or {"invariant": None, "events": events, "seeds": tried, "premises": premises}


def _steps(number: int, steps: int) -> int:
    return min(steps, SHORT_STEPS) if number < SHORT_HISTORIES else steps


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
    numbers = int(arguments[0]), int(arguments[1]), int(arguments[2])
    seeds = [a.partition("=")[2] for a in sys.argv if a.startswith("--seeds=")]
    only = tuple(int(seed) for seed in seeds[0].split(",") if seed) if seeds else None
    names = [a.partition("=")[2] for a in sys.argv if a.startswith("--for=")]
    print(json.dumps(hunt(*numbers, only=only, named="".join(names))))
