"""Mutants that unit tests judge before the simulator does: of modules that only read.

No history runs differently for what is only shown, checked afterwards, or read from an older
record, nor for what a step costs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.mutants.patches import PLACEMENT, ROOT, Mutant

UNIT_TESTS = Path("tests") / "unit" / "placement"
FOUND_BY = "unit-tests"
LONGEST_RUN_S = 1_800
_FAILED, _ENDED_EARLY = 1, 2
_HISTORIES = (
    "test_told_histories.py",
    "test_verified_histories.py",
    "test_verification.py",
)
_READ_TWICE = "test_rules_read_twice.py"

JUDGED_BY_TESTS: dict[str, tuple[str, ...]] = {
    "audit.py": ("test_scenes.py", "test_stories.py"),
    "verification.py": _HISTORIES,
    "certificates.py": ("test_audit_records.py",),  # the judge computes digests alike
    "codec.py": ("test_placement_codec.py", "test_audit_records.py"),
    "reading.py": ("test_placement_codec.py", "test_audit_records.py"),
    "condition.py": ("test_condition.py",),
    "explain.py": ("test_explanations.py", "test_scenes.py", "test_stories.py"),
    "leases.py": ("test_leases.py",),  # what a coordinator grants between its steps
    "left_out.py": ("test_stories.py",),
    "host_limit.py": ("test_turns_at_hosts.py",),  # few histories have so many that choose
    # Groups that hold more at once than histories let them; what is asked between steps.
    "ownership.py": (_READ_TWICE, "test_is_starting.py"),
    "places.py": (_READ_TWICE, "test_places.py"),  # few jobs have so many standbys, and racks
    "responses.py": ("test_request_steps.py",),  # no history has too much to say
    "rules.py": (_READ_TWICE,),
    "texts.py": ("test_explanations.py", "test_scenes.py", "test_stories.py"),
    "state.py": ("test_placement_codec.py",),  # defaults of fields
}
"""Each of these modules, and the unit tests of what it reads."""


def hunt_by_tests(mutant: Mutant) -> dict[str, Any]:
    """What the simulator's hunt would tell, of the module's unit tests in a copy that has the bug.

    Raises `LookupError` when pytest ran no test.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        into = Path(name)
        _copy(into, mutant)
        tests = [str(UNIT_TESTS / test) for test in JUDGED_BY_TESTS[mutant.file]]
        quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *quiet, *tests],
                cwd=into,
                env=os.environ | {"PYTHONPATH": str(into), "PYTHONHASHSEED": "0"},
                capture_output=True,
                text=True,
                timeout=LONGEST_RUN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"invariant": "never-ends", "events": 0, "reached": True}
    if done.returncode not in (0, _FAILED, _ENDED_EARLY):
        raise LookupError(f"{mutant.name}: no unit test ran:\n{done.stdout}{done.stderr}")
    found = FOUND_BY if done.returncode else None
    return {"invariant": found, "what": done.stdout[-500:], "events": 0, "reached": True}


def _copy(into: Path, mutant: Mutant) -> None:
    """The product and its tests, linked; the reducer's room is a copy, with the bug."""
    package = into / "samza_dagster"
    package.mkdir()
    for source in (ROOT / "samza_dagster").iterdir():
        if source.name not in (PLACEMENT.name, "__pycache__"):
            (package / source.name).symlink_to(source)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / PLACEMENT, into / PLACEMENT, ignore=ignored)
    (into / PLACEMENT / mutant.file).write_text(mutant.text())
    for name in ("tests", "pyproject.toml"):
        (into / name).symlink_to(ROOT / name)
