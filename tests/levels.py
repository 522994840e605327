"""Runs the levels of the test command, each within its budget (seconds, 2 cores).

`python -m tests.levels` runs all of them in order and goes on after a failure, so
that one run shows everything. A level that takes longer than its line has failed, and so
has one that leaves a process behind; at three times its line it is cut off. The lines are
for the reference machine; a slower one stretches them, as it is seen to be before and after
the level (`tests.rig.pace`).
Arguments name levels: `python -m tests.levels lint unit`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

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
    """Commands that together may take `budget_s` seconds."""

    name: str
    budget_s: int
    commands: tuple[tuple[str, ...], ...]


def _pytest(
    marker: str, where: str = "", *, workers: int = 0, share: str = "loadfile"
) -> tuple[str, ...]:
    """The tests of a marker, all below `tests/<where>` (by default its own name).

    To collect no more than that spares each process seconds. `workers`: for levels that
    mostly wait for other processes; a file stays on one, unless they `share` otherwise.
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
    Level("unit", 60, (_pytest("unit", workers=2, share="worksteal"),)),
    Level("simulator", 90, (_pytest("simulator", "simulation"),)),
    Level("small-world", 60, (_pytest("small_world", "simulation"),)),
    Level("contract", 180, (_pytest("contract and not longcontract", "contract", workers=4),)),
    Level("kill points", 150, (_pytest("killpoints", "contract", workers=2),)),
    Level(
        "dagster",
        60,
        (_pytest("dagster and not longdagster", "dagster", workers=2, share="worksteal"),),
    ),
    Level("stack", 120, (_pytest("stack", "dagster"),)),
    Level("spark", 75, (_pytest("spark"),)),
    Level(
        "integration",
        240,
        (_pytest("integration and not realfault and not absence", "integration"),),
    ),
    Level("e2e", 240, (_pytest("e2e"),)),
)


@dataclass(frozen=True)
class Outcome:
    """What one level did."""

    level: Level
    pace: float
    seconds: float
    failed: tuple[str, ...]
    passed_tests: int
    failed_tests: int

    @property
    def line_s(self) -> float:
        """The budget on this machine."""
        return self.level.budget_s * self.pace

    @property
    def verdict(self) -> str:
        """`ok`, or what went wrong."""
        if self.failed:
            return "FAILED: " + ", ".join(self.failed)
        if self.seconds > self.line_s:
            return f"FAILED: over its budget of {self.line_s:.0f} s"
        return "ok"


def _counted(output: str, word: str) -> int:
    found = re.findall(rf"(\d+) {word}", output.splitlines()[-1] if output.splitlines() else "")
    return int(found[-1]) if found else 0


def run(level: Level) -> Outcome:
    """Runs every command of a level, also after one has failed."""
    pace = measured()
    os.environ[VARIABLE] = str(pace)
    print(f"\n── {level.name} (budget {level.budget_s} s × {pace:g}) ──", flush=True)
    began = time.monotonic()
    failed: list[str] = []
    passed_tests = failed_tests = 0
    for command in level.commands:
        left_s = began + _CUT_OFF * pace * level.budget_s - time.monotonic()
        ran = commands.run(command, max(1.0, left_s))
        name = " ".join((Path(command[0]).name, *command[1:3]))
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


def main(names: list[str]) -> int:
    """Exit status 0 when every level asked for passed within its budget."""
    unknown = set(names) - {level.name for level in LEVELS}
    if unknown:
        print(f"no such level: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    outcomes = [run(level) for level in LEVELS if not names or level.name in names]
    print(f"\n{'level':<14}{'seconds':>9}{'pace':>6}{'budget':>8}  outcome")
    for outcome in outcomes:
        print(
            f"{outcome.level.name:<14}{outcome.seconds:>9.1f}{outcome.pace:>6.1f}"
            f"{outcome.line_s:>8.0f}  {outcome.verdict}"
        )
    bad = [outcome for outcome in outcomes if outcome.verdict != "ok"]
    passed = sum(outcome.passed_tests for outcome in outcomes)
    failed = sum(outcome.failed_tests for outcome in outcomes)
    print(f"total {sum(outcome.seconds for outcome in outcomes):.0f} s")
    print(f"{passed} passed, {max(failed, len(bad))} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
