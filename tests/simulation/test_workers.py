"""`python -m tests.simulation --workers`: its processes end with it, whatever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.rig.pace import PACE

pytestmark = pytest.mark.small_world


@pytest.mark.parametrize(
    "what", [["--small-world", "--states", "1000000"], ["--events", "9000000"]]
)
def test_workers_do_not_outlive_a_command_that_is_killed(what: list[str], tmp_path: Path) -> None:
    """They went on for an hour, each on a core of its own."""
    command = [sys.executable, "-m", "tests.simulation", *what, "--workers", "2"]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    deadline = time.monotonic() + 30 * PACE
    workers: list[psutil.Process] = []
    while len(workers) < 2:  # beside them Python's own resource tracker
        assert time.monotonic() < deadline
        assert process.poll() is None, (tmp_path / "out").read_text()
        children = psutil.Process(process.pid).children()
        workers = [c for c in children if "spawn_main" in " ".join(c.cmdline())]
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []
