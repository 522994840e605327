"""What the test run promises of its own commands: they end in time, and nothing of them lives on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import commands, suites
from tests.levels import Level, Outcome
from tests.rig.job import alive

pytestmark = pytest.mark.contract

ORPHAN = (
    "import subprocess, sys; "
    "print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True); "
)


def in_process_of_its_own(tmp_path: Path, code: str, within_s: float) -> list[str]:
    """The lines of what `commands.run` says of one."""
    return _said(
        tmp_path,
        f"from tests import commands\n"
        f"ran = commands.run([{sys.executable!r}, '-c', {code!r}], {within_s})\n"
        f"print(ran.status, ran.cut_off, len(ran.left_behind), *ran.left_behind)\n",
    )


def outcomes_of(
    tmp_path: Path,
    by_name: dict[str, tuple[float, str]],
    within_s: float,
    environment: dict[str, str] | None = None,
) -> dict[str, str]:
    """What becomes of suites, each by its seconds and its code, at a pace of 1."""
    return json.loads(
        _said(
            tmp_path,
            f"import json, sys\n"
            f"from tests import suites\n"
            f"suites.measured = lambda: 1.0\n"
            f"chosen = [suites.Suite(name, seconds, (sys.executable, '-c', code))\n"
            f"          for name, (seconds, code) in {by_name!r}.items()]\n"
            f"ran = suites.go_through(chosen, {within_s}, environment={environment!r})\n"
            f"print(json.dumps({{each.suite: each.verdict for each in ran}}))\n",
        )[-1]
    )


def _said(tmp_path: Path, program: str) -> list[str]:
    """A run adopts orphans for its whole process and ends all of its children: one of its own."""
    script = tmp_path / "run.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(commands.ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_process_with_other_children_runs_no_command() -> None:
    """The broker of a level's tests was ended by a test of a run beside it."""
    with subprocess.Popen(["sleep", "600"]) as other:
        with pytest.raises(RuntimeError, match="sleep 600"):
            commands.run([sys.executable, "-c", ""], 60.0)
        assert alive(other.pid)
        other.kill()


@pytest.mark.longcontract
def test_an_orphan_in_a_session_of_its_own_is_named_and_ended(tmp_path: Path) -> None:
    pid, told = in_process_of_its_own(tmp_path, ORPHAN, 60.0)
    assert told == "0 False 1 sleep 600"
    assert not alive_at_all(int(pid))


def test_what_is_cut_off_takes_its_orphans_along(tmp_path: Path) -> None:
    began = time.monotonic()
    pid, *_, told = in_process_of_its_own(tmp_path, ORPHAN + "import time; time.sleep(600)", 3.0)
    assert told.split()[1:] == ["True", "1", "sleep", "600"]
    assert time.monotonic() - began < 300
    assert not alive_at_all(int(pid))


def test_what_is_cut_off_below_make_is_told_too(tmp_path: Path) -> None:
    """make waits for its commands when it is interrupted: pytest has to be told by itself, or
    its failures are lost with it.
    """
    told = tmp_path / "told.py"
    told.write_text(
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: time.sleep(600)\n"
        "except KeyboardInterrupt: print('told')\n"
    )
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"all:\n\t@{sys.executable} {told}; true\n")
    code = f"import os; os.execvp('make', ['make', '-s', '-f', {str(makefile)!r}])"
    lines = in_process_of_its_own(tmp_path, code, 5.0)
    assert lines[0] == "told"
    assert lines[-1].split()[1:] == ["True", "0"]


def test_a_run_that_is_interrupted_ends_what_it_started(tmp_path: Path) -> None:
    """Ctrl-C left the brokers and Dagsters of the suite in hand running."""
    program = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tests import commands\n"
        f"commands.run([{sys.executable!r}, '-c', {ORPHAN + 'import time; time.sleep(600)'!r}], 600.0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(commands.ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        orphan = int(run.stdout.readline())
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) != 0
    assert not alive_at_all(orphan)


def test_an_orphan_that_ends_is_gone_while_its_command_goes_on(tmp_path: Path) -> None:
    """Adopted and not reaped it was a zombie, and tests that waited for its end failed."""
    code = (
        "import os, subprocess, time; "
        "pid = int(subprocess.check_output('sleep 1 > /dev/null & echo $!', shell=True)); "
        "over = time.monotonic() + 60\n"
        "while os.path.exists(f'/proc/{pid}') and time.monotonic() < over: time.sleep(0.05)\n"
        "print('gone' if time.monotonic() < over else 'a zombie')"
    )
    assert in_process_of_its_own(tmp_path, code, 90.0) == ["gone", "0 False 0"]


def test_what_ends_a_moment_after_its_command_is_not_left_behind(tmp_path: Path) -> None:
    """As Spark's JVM, which sees its standard input closed."""
    code = "import subprocess; subprocess.Popen(['sleep', '2'])"
    assert in_process_of_its_own(tmp_path, code, 60.0) == ["0 False 0"]


def alive_at_all(pid: int) -> bool:
    """By the kernel."""
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return alive(pid)


def test_a_suite_without_time_is_named_and_not_called_passed(tmp_path: Path) -> None:
    """Only what ran to its end decides."""
    by_name = {"long": (10_000.0, ""), "quick": (0.1, "raise SystemExit(3)")}
    outcomes = outcomes_of(tmp_path, by_name, 100.0)
    assert outcomes["long"].startswith("not run: ")
    assert outcomes["quick"].startswith("FAILED with 3")


def test_a_suite_that_hangs_has_failed_and_one_that_the_time_cuts_off_has_not_run(
    tmp_path: Path,
) -> None:
    """Three times what it needs is a fault of its own; the end of the whole time isn't."""
    hangs = {"hangs": (0.2, "import time; time.sleep(600)")}
    assert outcomes_of(tmp_path, hangs, 600.0)["hangs"].startswith("FAILED: hangs")
    cut = {"cut": (0.2, "import time; time.sleep(600)")}
    assert outcomes_of(tmp_path, cut, 0.5)["cut"].startswith("not run to its end: ")


def test_a_week_of_slices_sees_every_suite_and_each_fits_beside_make_test() -> None:
    """Half an hour on the reference machine, of which set-up and `make test` take 15 minutes and more."""
    parts = suites.slices(suites.SUITES)
    assert len(parts) == suites.DAYS
    assert sorted(s.name for part in parts for s in part) == sorted(s.name for s in suites.SUITES)
    assert max(sum(suite.seconds for suite in part) for part in parts) <= 860


def test_all_suites_of_a_release_fit_into_two_hours() -> None:
    """With a twentieth to spare, at their nightly sizes on the reference machine."""
    chosen = (*suites.SUITES, *suites.MEASUREMENTS)
    assert sum(suite.seconds for suite in chosen) <= 0.95 * 7_200


LEVEL = Level("a level", 10, ())


@pytest.mark.parametrize(
    ("outcome", "verdict", "is_bad"),
    [
        (Outcome(LEVEL, 1.0, 9.0), "ok", False),
        (Outcome(LEVEL, 5.0, 49.0), "ok", False),
        (Outcome(LEVEL, 1.0, 11.0), "FAILED: over its budget of 10 s", True),
        (Outcome(LEVEL, 5.0, 51.0), "FAILED: over its budget of 50 s", True),
        (Outcome(LEVEL, 5.0, 1.0, ("pytest",)), "FAILED: pytest", True),
        (Outcome(LEVEL, 5.0, 0.0, not_run="no time"), "NOT RUN: no time", True),
    ],
)
def test_only_a_level_that_ran_within_its_stretched_line_has_passed(
    outcome: Outcome, verdict: str, is_bad: bool
) -> None:
    """What wasn't run isn't green."""
    assert (outcome.verdict, outcome.is_bad) == (verdict, is_bad)


MAKEFILE = commands.ROOT / "Makefile"


def test_every_suite_that_make_test_has_no_time_for_is_among_the_long_ones() -> None:
    """`make killmatrix` is: its parts are a level of `make test` and a suite of these.

    `make test-yarn-long`, `test-beside-java`, `test-first-job` and `mutants-standalone` aren't: two hours have no room for them. `make docs-pictures`
    takes pictures in two tests of `make test-browser`.
    """
    recipes = re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", MAKEFILE.read_text(), re.MULTILINE)
    tests = {target for target, recipe in recipes if "-m pytest" in recipe}
    targets = {suite.command[1] for suite in (*suites.SUITES, *suites.MEASUREMENTS)}
    no_room = {"test-yarn-long", "test-beside-java", "test-first-job", "mutants-standalone"}
    no_suites = {"killmatrix", "docs-pictures", *no_room}
    assert tests - no_suites <= targets
    assert targets <= {target for target, _ in recipes}
