"""What tests and benchmarks are made of, some of which only a night runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
IMPORTS = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"


def test_a_name_that_a_tool_takes_from_the_product_is_there(tmp_path: Path) -> None:
    """A renamed handler, of which a benchmark replaces a method, was missed first by night."""
    files = [*(ROOT / "tests" / "rig").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    names = sorted(".".join(f.relative_to(ROOT).with_suffix("").parts) for f in files)
    needed = {"SAMZA_DAGSTER_KILL_FILE": str(tmp_path / "kill")}
    command = [sys.executable, "-c", IMPORTS, *names]
    ran = subprocess.run(
        command, check=False, cwd=ROOT, env=os.environ | needed, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
