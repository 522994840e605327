"""Runs the levels of the test command, each within its budget (seconds, 2 cores).

`python -m tests.levels` runs all of them in order and goes on after a failure, so
that one run shows everything. A level that takes longer than its line has failed, and so
has one that leaves a process behind; at three times its line it is cut off. The lines are
for the reference machine; a slower one stretches them, as it is seen to be before and after
the level (`tests.rig.pace`).
Arguments name levels: `python -m tests.levels lint unit`.

`--within SECONDS` is for who cuts the run off then, and would be told nothing: a level whose
time isn't left any more is named as not run, and the run has failed: it says less.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.interrupts import interrupts_raise
from tests import commands
from tests.rig.pace import VARIABLE, measured
from tests.rig.pace import workers as fitting

# What `samza-dagster agent build` packs; it runs on this Python and any later one.
AGENT = ("samza_dagster/agent", "samza_dagster/__init__.py", "samza_dagster/version.py")
AGENT_PYTHON = "3.8"
BIN = Path(sys.executable).parent
_CUT_OFF = 3.0
"""So many times its line, and a level that hangs keeps nobody waiting."""


@dataclass(frozen=True)
class Level:
    """Commands that together may take `budget_s` seconds.

    `once` fills caches on a machine that has none yet; what that takes is no test's time.
    """

    name: str
    budget_s: int
    commands: tuple[tuple[str, ...], ...]
    once: tuple[str, ...] = ()


def _pytest(
    marker: str, where: str = "", *, workers: int = 0, share: str = "worksteal"
) -> tuple[str, ...]:
    """The tests of a marker, all below `tests/<where>` (by default its own name).

    To collect no more than that spares each process seconds. `workers`: for levels that
    wait for other processes, or have many tests; `share` by `loadscope` where a `conftest` says
    what stays on one.
    """
    parallel = ("-n", str(fitting(workers)), "--dist", share, "--no-loadscope-reorder")
    return (
        sys.executable,
        "-m",
        "pytest",
        f"tests/{where or marker}",
        "-q",
        "-m",
        marker,
        "--durations=5",
        *(parallel if workers else ()),
    )


LEVELS = (
    Level(
        "lint",
        75,
        (
            (str(BIN / "ruff"), "format", "--check", "."),
            (str(BIN / "ruff"), "check", "."),
            (str(BIN / "lint-imports"), "--no-cache"),
            (
                *(str(BIN / "vermin"), f"--target={AGENT_PYTHON}-", "--violations", "--quiet"),
                *("--no-tips", *AGENT),
            ),
            (str(BIN / "pyright"),),
        ),
    ),
    Level("unit", 110, (_pytest("unit", workers=2),), (sys.executable, "-m", "tests.rig.promtool")),
    Level("simulator", 90, (_pytest("simulator", "simulation"),)),
    Level("small-world", 60, (_pytest("small_world", "simulation"),)),
    Level(
        "dagster",
        120,
        (_pytest("dagster and not longdagster", "dagster", workers=3),),
    ),
    Level("stack", 120, (_pytest("stack", "dagster"),)),
    Level("spark", 75, (_pytest("spark"),)),
    Level(
        "integration",
        200,
        (
            _pytest(
                "integration and not realfault and not absence",
                "integration",
                workers=2,
                share="loadscope",
            ),
        ),
    ),
    Level("e2e", 240, (_pytest("e2e"),)),
    Level(
        "yarn",
        180,
        (
            _pytest("yarn and not longyarn", "integration/yarn"),
            _pytest("yarn and not longyarn", "integration/yarn_ours"),
        ),
        (sys.executable, "-m", "samza_dagster.sandbox.artifacts", "yarn", "samza-yarn"),
    ),
    Level(
        "contract",
        420,
        (
            _pytest(
                "(contract or killpoints) and not longcontract",
                "contract",
                workers=6,
                share="loadscope",
            ),
        ),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What one level did."""

    level: Level
    pace: float
    seconds: float
    failed: tuple[str, ...] = ()
    passed_tests: int = 0
    failed_tests: int = 0
    not_run: str = ""

    @property
    def line_s(self) -> float:
        """The budget on this machine."""
        return self.level.budget_s * self.pace

    @property
    def is_bad(self) -> bool:
        """Failed, over its line, or not run: a level that left no word hasn't passed."""
        return self.verdict != "ok"

    @property
    def verdict(self) -> str:
        """`ok`, or what went wrong."""
        if self.not_run:
            return f"NOT RUN: {self.not_run}"
        if self.failed:
            return "FAILED: " + ", ".join(self.failed)
        if self.seconds > self.line_s:
            return f"FAILED: over its budget of {self.line_s:.0f} s"
        return "ok"


def _counted(output: str, word: str) -> int:
    found = re.findall(rf"(\d+) {word}", output.splitlines()[-1] if output.splitlines() else "")
    return int(found[-1]) if found else 0


def run(level: Level, left_s: float = math.inf) -> Outcome:
    """Runs every command of a level, also after one has failed; not when it wouldn't fit."""
    pace = measured()
    os.environ[VARIABLE] = str(pace)
    if level.budget_s * pace > left_s:
        told = f"{level.budget_s * pace:.0f} s may be needed, {left_s:.0f} are left"
        return Outcome(level, pace, 0.0, not_run=told)
    print(f"\n── {level.name} (budget {level.budget_s} s × {pace:g}) ──", flush=True)
    failed: list[str] = []
    began = time.monotonic()
    if level.once and commands.run(level.once, max(1.0, left_s)).status != 0:
        failed.append(" ".join(level.once[1:]))
    left_s -= time.monotonic() - began
    began = time.monotonic()
    passed_tests = failed_tests = 0
    for command in level.commands:
        cut_off_s = min(left_s, _CUT_OFF * pace * level.budget_s)
        ran = commands.run(command, max(1.0, began + cut_off_s - time.monotonic()))
        name = " ".join((Path(command[0]).name, *command[1:3]))
        if ran.cut_off and time.monotonic() - began >= left_s:
            told = f"{name} was cut off after {time.monotonic() - began:.0f} s"
            return Outcome(level, pace, time.monotonic() - began, not_run=told)
        if ran.cut_off:
            failed.append(f"{name} was cut off")
        elif ran.status != 0:
            failed.append(name)
        failed += [f"left behind: {left}" for left in ran.left_behind]
        if "pytest" in command:
            passed_tests += _counted(ran.output.rstrip(), "passed")
            failed_tests += _counted(ran.output.rstrip(), "failed")
            failed_tests += _counted(ran.output.rstrip(), "error")
    seconds = time.monotonic() - began
    pace = max(pace, measured())
    return Outcome(level, pace, seconds, tuple(failed), passed_tests, failed_tests)


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when every level asked for passed within its budget."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.levels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="LEVEL")
    parser.add_argument("--within", type=float, default=math.inf, metavar="SECONDS")
    asked = parser.parse_args(arguments)
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    unknown = set(asked.names) - {level.name for level in LEVELS}
    if unknown:
        parser.error(f"no such level: {', '.join(sorted(unknown))}")
    over = time.monotonic() + asked.within
    outcomes = [
        run(level, over - time.monotonic())
        for level in LEVELS
        if not asked.names or level.name in asked.names
    ]
    print(f"\n{'level':<14}{'seconds':>9}{'pace':>6}{'budget':>8}  outcome")
    for outcome in outcomes:
        print(
            f"{outcome.level.name:<14}{outcome.seconds:>9.1f}{outcome.pace:>6.1f}"
            f"{outcome.line_s:>8.0f}  {outcome.verdict}"
        )
    bad = [outcome for outcome in outcomes if outcome.is_bad]
    passed = sum(outcome.passed_tests for outcome in outcomes)
    failed = sum(outcome.failed_tests for outcome in outcomes)
    print(f"total {sum(outcome.seconds for outcome in outcomes):.0f} s")
    not_run = sum(bool(outcome.not_run) for outcome in outcomes)
    told = f", {not_run} levels not run: this machine is too slow for the time given"
    print(f"{passed} passed, {max(failed, len(bad))} failed{told if not_run else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
