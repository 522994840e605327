"""Runs what `make test` has no time for, one after the other, as far as the given time reaches.

`python -m tests.further --within 2000`: a suite begins when the time that it takes on a
machine as slow as this one is left. What wasn't begun, or was cut off with the whole time, is
named as not run; it says nothing of the product, so it doesn't decide the exit status. A suite
that takes three times its own is cut off too, and that has failed: it hangs. Those of pytest
end at their first failure, so that it is told before they can be cut off.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests import commands
from tests.rig.pace import VARIABLE, measured

_CUT_OFF = 3.0
"""So many times what it needs, as for a level (`tests.levels`)."""
_AT_FIRST_FAILURE = {"PYTEST_ADDOPTS": "-x"}


@dataclass(frozen=True)
class Suite:
    """A command and the seconds that it takes on the reference machine.

    Or what it took on a slow one, by that one's pace, where this is more.
    """

    name: str
    seconds: float
    command: tuple[str, ...]


SUITES = (
    Suite("Dagster", 80, ("make", "test-dagster-long")),
    Suite("kill matrix on real containers", 1_150, ("make", "killmatrix-real")),
    # 578 alone, 988 and 877 beside other suites, as it mostly waits; since then the fence and
    # the spares, 670 by one of four workers.
    Suite("kill matrix on stubs", 1_160, ("make", "killmatrix-further")),
    Suite("real faults", 640, ("make", "faults-real")),
    Suite("chaos", 400, ("make", "chaos", "FAULTS=14")),
    # 190 runs that are killed, 9 s of a processor each, two at a time: measured alone.
    Suite("deployed", 990, ("make", "test-deploy")),
    # 180 on the reference machine: Chromium draws with the processors that the job needs.
    Suite("browser", 600, ("make", "test-browser")),
    Suite("Dagster over real containers", 660, ("make", "cockpit-real")),
    Suite("absences", 2_350, ("make", "absences")),
)


def go_through(suites: Sequence[Suite], within_s: float) -> dict[str, str]:
    """Suite → `passed`, `FAILED …`, or why it wasn't run to its end."""
    over = time.monotonic() + within_s
    outcomes: dict[str, str] = {}
    for suite in suites:
        pace = measured()
        os.environ[VARIABLE] = str(pace)
        left_s, needed_s = over - time.monotonic(), suite.seconds * pace
        if needed_s > left_s:
            outcomes[suite.name] = f"not run: {needed_s:.0f} s are needed, {left_s:.0f} are left"
            continue
        print(f"\n── {suite.name} (about {needed_s:.0f} s of {left_s:.0f}) ──", flush=True)
        began = time.monotonic()
        hangs_s = _CUT_OFF * needed_s
        ran = commands.run(suite.command, min(left_s, hangs_s), _AT_FIRST_FAILURE)
        took = f"after {time.monotonic() - began:.0f} s"
        if ran.cut_off and hangs_s < left_s:
            outcomes[suite.name] = f"FAILED: hangs, cut off {took}"
        elif ran.cut_off:
            outcomes[suite.name] = f"not run to its end: cut off {took}"
        elif ran.status != 0:
            outcomes[suite.name] = f"FAILED with {ran.status} {took}"
        elif ran.left_behind:
            outcomes[suite.name] = f"FAILED: left behind {'; '.join(ran.left_behind)}"
        else:
            outcomes[suite.name] = f"passed {took}"
    return outcomes


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when a suite failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.further", description=__doc__)
    parser.add_argument("--within", type=float, required=True, metavar="SECONDS")
    outcomes = go_through(SUITES, parser.parse_args(arguments).within)
    print()
    for name, outcome in outcomes.items():
        print(f"{name:<32}{outcome}")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
