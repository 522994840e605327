"""Runs the levels of the test command, each within its budget (seconds, 2 cores).

`python -m tests.levels` runs all of them in order and goes on after a failure, so
that one run shows everything; a level that takes longer than its line has failed.
Arguments name levels: `python -m tests.levels lint unit`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What `samza-dagster agent build` packs; it runs on this Python and any later one.
AGENT = ("samza_dagster/agent", "samza_dagster/__init__.py", "samza_dagster/version.py")
AGENT_PYTHON = "3.8"
BIN = Path(sys.executable).parent


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
    parallel = ("-n", str(workers), "--dist", share, "--no-loadscope-reorder")
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
    seconds: float
    failed: tuple[str, ...]
    passed_tests: int
    failed_tests: int

    @property
    def verdict(self) -> str:
        """`ok`, or what went wrong."""
        if self.failed:
            return "FAILED: " + ", ".join(self.failed)
        if self.seconds > self.level.budget_s:
            return f"FAILED: over its budget of {self.level.budget_s} s"
        return "ok"


def _counted(output: str, word: str) -> int:
    found = re.findall(rf"(\d+) {word}", output.splitlines()[-1] if output.splitlines() else "")
    return int(found[-1]) if found else 0


def run(level: Level) -> Outcome:
    """Runs every command of a level, also after one has failed."""
    print(f"\n── {level.name} (budget {level.budget_s} s) ──", flush=True)
    began = time.monotonic()
    failed: list[str] = []
    passed_tests = failed_tests = 0
    for command in level.commands:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            print(line, end="", flush=True)
        if process.wait() != 0:
            failed.append(" ".join((Path(command[0]).name, *command[1:3])))
        if "pytest" in command:
            output = "".join(lines).rstrip()
            passed_tests += _counted(output, "passed")
            failed_tests += _counted(output, "failed") + _counted(output, "error")
    return Outcome(level, time.monotonic() - began, tuple(failed), passed_tests, failed_tests)


def main(names: list[str]) -> int:
    """Exit status 0 when every level asked for passed within its budget."""
    unknown = set(names) - {level.name for level in LEVELS}
    if unknown:
        print(f"no such level: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    outcomes = [run(level) for level in LEVELS if not names or level.name in names]
    print(f"\n{'level':<14}{'seconds':>9}{'budget':>8}  outcome")
    for outcome in outcomes:
        print(
            f"{outcome.level.name:<14}{outcome.seconds:>9.1f}{outcome.level.budget_s:>8}  {outcome.verdict}"
        )
    bad = [outcome for outcome in outcomes if outcome.verdict != "ok"]
    passed = sum(outcome.passed_tests for outcome in outcomes)
    failed = sum(outcome.failed_tests for outcome in outcomes)
    print(f"total {sum(outcome.seconds for outcome in outcomes):.0f} s")
    print(f"{passed} passed, {max(failed, len(bad))} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
