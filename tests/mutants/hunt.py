"""Runs inside of a copy of the product: seeds until a rule is broken, or the bound is reached.

    python hunt.py EVENTS JUDGE SEED

Prints one JSON object. The bound is in events that the reducer takes, so that a busy machine
finds the same. A history that doesn't end (by CPU time) and a reducer that raises are found too.
A history that another than the named judge breaks is no find: the hunt goes on, and what was found
first is told only if the one named finds nothing. With "" any judge will do. With a seed no
other is tried, with "" each from 1 on.
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
SHORT_STEPS, STEPS = 90, 250
NEVER_ENDS = "never-ends"
DOES_NOT_LOAD = "does-not-load"


class Endless(Exception):
    """One history took longer than any should."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise Endless


def hunt(most: int, named: str, only: int | None) -> dict[str, Any]:
    """What was found: invariant, seed, events of the whole hunt; invariant None if nothing was."""
    try:
        from tests.simulation.driver import simulate
    except Exception:
        return {"invariant": DOES_NOT_LOAD, "what": traceback.format_exc(limit=-2), "events": 0}
    signal.signal(signal.SIGPROF, _ring)
    began, events = time.process_time(), 0
    other: dict[str, Any] | None = None
    for seed in itertools.count(1) if only is None else (only,):
        if events >= most:
            break
        signal.setitimer(signal.ITIMER_PROF, LONGEST_HISTORY_S)
        try:
            history = simulate(seed, SHORT_STEPS if seed <= SHORT_HISTORIES else STEPS)
        except Endless:
            return {"invariant": NEVER_ENDS, "what": "", "seed": seed, "events": events}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        events += max(1, history.events)
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
    return other or {"invariant": None, "events": events}


if __name__ == "__main__":
    most, named, only = sys.argv[1:]
    print(json.dumps(hunt(int(most), named, int(only) if only else None)))
