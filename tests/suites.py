"""The long suites: what `make test` has no time for, each in the size that a night has time for.

`python -m tests.suites --within 700` runs the slice of this day, as the command's end to end
check does: seven slices together are all suites of tests, so that a week sees each.
`python -m tests.suites --all` is `make release-check`: those and the measurements, within two
hours on the reference machine, one table at the end. The full sizes are targets of their own.

A suite begins when the time that it takes on a machine as slow as this one is left. What
wasn't begun, or was cut off with the whole time, is named as not run. A slice of a day passes
with that; a release doesn't. A suite that takes three times its own is cut off too, and has
failed: it hangs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from samza_dagster.interrupts import interrupts_raise
from tests import commands
from tests.rig.pace import VARIABLE, measured

DAYS = 7
_CUT_OFF = 3.0
"""So many times what it needs, as for a level (`tests.levels`)."""
_AT_FIRST_FAILURE = {"PYTEST_ADDOPTS": "-x"}
_RESULTS = commands.ROOT / "benchmarks" / "results" / "nightly"


@dataclass(frozen=True)
class Suite:
    """A target of the Makefile at its nightly size, and the seconds it takes on the reference machine.

    `result` is the file below `benchmarks/results/nightly` in which it leaves its figures; it fails
    by itself when one of them is out of its bound.
    """

    name: str
    seconds: float
    command: tuple[str, ...]
    result: str = ""


SUITES = (
    Suite("Dagster", 80, ("make", "test-dagster-long")),
    Suite("Dagster's processes killed", 520, ("make", "test-deploy", "SHARE={day}/2")),
    # 180 on the reference machine: Chromium draws with the processors that the job needs.
    Suite("browser", 200, ("make", "test-browser")),
    Suite("Dagster over real containers", 330, ("make", "cockpit-real")),
    Suite("kill matrix on real containers", 220, ("make", "killmatrix-real", "SHARE={day}/6")),
    # 578 alone, 988 and 877 beside other suites, as it mostly waits.
    Suite("kill matrix on stubs", 660, ("make", "killmatrix-further")),
    Suite("real faults", 370, ("make", "faults-real")),
    Suite("faults of standalone groups", 195, ("make", "test-standalone", "SHARE={day}/5")),
    Suite("YARN", 510, ("make", "test-yarn")),
    Suite("our coordinator on YARN, what is away", 150, ("make", "test-yarn-ours")),
    Suite("absences", 230, ("make", "absences", "SHARE={day}/10")),
    Suite("chaos", 300, ("make", "chaos", "FAULTS=20", "SEED={seed}"), "chaos.json"),
    Suite(
        *("chaos on three brokers", 370),
        ("make", "chaos", "BROKERS=3", "FAULTS=20", "SEED={seed}"),
        "chaos_three_brokers.json",
    ),
    Suite(
        *("chaos on YARN", 330),
        ("make", "chaos-yarn", "FAULTS=20", "SEED={seed}"),
        "chaos_yarn.json",
    ),
    # 190 where it does no harm; it ends with the harm, once that is seen not to heal.
    Suite(
        *("chaos without a fence", 230, ("make", "chaos-blind", "SEED={seed}")),
        "chaos_blind.json",
    ),
    Suite("simulator", 130, ("make", "simulate", "EVENTS=1000000"), "simulation.json"),
    Suite("small world", 240, ("make", "small-world", "STATES=300000"), "small_world.json"),
    Suite("packaging", 120, ("make", "test-packaging")),
    Suite("snapshots on real parts", 260, ("make", "test-spark-cluster")),
    Suite("grouping of tasks", 60, ("make", "test-assignment")),
    Suite(
        *("standalone groups", 80, ("make", "simulate-standalone", "STANDALONE_EVENTS=100000")),
        "standalone.json",
    ),
    Suite("planted bugs", 235, ("make", "mutants"), "mutants.json"),
)
"""Those that a week sees. The sizes of tests rotate by the day, so that more weeks see more."""

MEASUREMENTS = (
    Suite("YARN, its pages", 390, ("make", "test-yarn-page")),
    Suite("YARN, requests", 165, ("make", "test-yarn-requests", "REQUESTS=12", "SEED={seed}")),
    Suite("request to response", 90, ("make", "bench-response"), "response_latency.json"),
    Suite("a step of the reducer", 60, ("make", "bench-reducer"), "reducer_speed.json"),
    Suite("death to start", 120, ("make", "bench-failover"), "failover_reaction.json"),
    # Of one size: what the state's growth adds is told from the scatter of moves by twenty, in 84 minutes.
    Suite("downtime", 190, ("make", "bench-downtime", "SIZES=1", "MOVES=2"), "downtime.json"),
)  # fmt: skip
"""What a release is measured by besides, and what a week has no time for."""


def slices(suites: Sequence[Suite], days: int = DAYS) -> list[list[Suite]]:
    """The suites over so many days, about as long each: the longest first, to the emptiest day."""
    parts: list[list[Suite]] = [[] for _ in range(days)]
    for suite in sorted(suites, key=lambda each: -each.seconds):
        min(parts, key=lambda part: sum(each.seconds for each in part)).append(suite)
    return parts


@dataclass(frozen=True)
class Outcome:
    """What became of a suite: `passed`, `FAILED …`, or why it wasn't run to its end."""

    suite: str
    verdict: str
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """It ran, and something was wrong."""
        return self.verdict.startswith("FAILED")

    @property
    def has_passed(self) -> bool:
        """It ran to its end, and nothing was wrong."""
        return self.verdict == "passed"


def go_through(
    suites: Sequence[Suite],
    within_s: float,
    *,
    day: int = 1,
    environment: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Each in turn, as far as the time reaches. `day` is the year's, which shares and seeds follow."""
    over = time.monotonic() + within_s
    return [_outcome(suite, over - time.monotonic(), day, environment) for suite in suites]


def _outcome(
    suite: Suite, left_s: float, day: int, environment: Mapping[str, str] | None
) -> Outcome:
    pace = measured()
    os.environ[VARIABLE] = str(pace)
    needed_s = suite.seconds * pace
    if needed_s > left_s:
        return Outcome(suite.name, f"not run: {needed_s:.0f} s are needed, {left_s:.0f} are left")
    print(f"\n── {suite.name} (about {needed_s:.0f} s of {left_s:.0f}) ──", flush=True)
    result = _RESULTS / suite.result
    if suite.result:
        result.unlink(missing_ok=True)
    began = time.monotonic()
    hangs_s = _CUT_OFF * needed_s
    command = [_of_the_day(word, day) for word in suite.command]
    if suite.result:
        command.append(f"RESULT={result}")
    ran = commands.run(command, min(left_s, hangs_s), environment)
    seconds = time.monotonic() - began
    if ran.cut_off and hangs_s < left_s:
        verdict = "FAILED: hangs, cut off"
    elif ran.cut_off:
        verdict = "not run to its end: cut off"
    elif ran.status != 0:
        verdict = f"FAILED with {ran.status}"
    elif ran.left_behind:
        verdict = f"FAILED: left behind {'; '.join(ran.left_behind)}"
    else:
        verdict = "passed"
    return Outcome(suite.name, verdict, seconds)


def _of_the_day(word: str, day: int) -> str:
    """`SHARE={day}/3` is another third each week, since a suite comes on the same day of it."""
    week = day // DAYS
    share = re.fullmatch(r"(\w+=)\{day\}/(\d+)", word)
    if share:
        return f"{share[1]}{1 + week % int(share[2])}/{share[2]}"
    return word.format(seed=day)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Suite by suite."""
    shown = Table("suite", "outcome", "seconds")
    for outcome in outcomes:
        shown.add_row(outcome.suite, outcome.verdict, f"{outcome.seconds:.0f}")
    total = sum(outcome.seconds for outcome in outcomes)
    passed = sum(outcome.has_passed for outcome in outcomes)
    shown.add_row("all", f"{passed} of {len(outcomes)} passed", f"{total:.0f}")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when a suite failed; with --all also when one wasn't run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--all", action="store_true", help="every suite, and the measurements")
    parser.add_argument("--within", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--day", type=int, help="of the year, counted from 1; today by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there as well")
    asked = parser.parse_args(arguments)
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    day = asked.day or dt.datetime.now(dt.UTC).timetuple().tm_yday
    if asked.all:
        chosen: Sequence[Suite] = (*SUITES, *MEASUREMENTS)
        outcomes = go_through(chosen, asked.within, day=day)
    else:
        chosen = slices(SUITES)[day % DAYS]
        named = ", ".join(suite.name for suite in chosen)
        print(f"slice {day % DAYS + 1} of {DAYS}, of day {day} of the year: {named}", flush=True)
        # So that a failure is told before the time cuts its suite off.
        outcomes = go_through(chosen, asked.within, day=day, environment=_AT_FIRST_FAILURE)
    print()
    Console(width=None if sys.stdout.isatty() else 150).print(table(outcomes))
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"version": 1, "day": day, "suites": [asdict(each) for each in outcomes]}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    wanted = all(outcome.has_passed for outcome in outcomes)
    return 0 if wanted or not (asked.all or any(o.has_failed for o in outcomes)) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
