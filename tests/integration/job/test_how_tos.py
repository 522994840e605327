"""The how-tos, run as they are written on a job of real Samza containers: their blocks of `sh`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import processors
from tests.rig.pace import PACE

pytestmark = [pytest.mark.integration, pytest.mark.realfault]

ROOT = Path(__file__).parents[3]
HOW_TOS = ROOT / "docs" / "howto"


def follow(page: str, servers: str) -> str:
    """Runs all commands of a page in one shell, which ends at the first that fails."""
    text = (HOW_TOS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} has no command that can be run"
    done = subprocess.run(
        ["bash", "-eux", "-c", "\n".join(blocks)],
        env={
            **os.environ,
            **demo_job.environment(servers),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180 * PACE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_a_container_moves_to_its_standbys_host(sandbox: Sandbox, servers: str) -> None:
    """And the standby to another one."""
    before = processors(sandbox)
    follow("move.md", servers)
    after = processors(sandbox)
    assert after["0"]["host"] == before["0-0"]["host"]
    assert after["0-0"]["host"] not in (before["0"]["host"], before["0-0"]["host"])


def test_an_active_fails_over(sandbox: Sandbox, servers: str, judge: Judge) -> None:
    """Its standby's host has it, and nothing is missing."""
    before = processors(sandbox)
    follow("fail-over.md", servers)
    assert processors(sandbox)["0"]["host"] == before["0-0"]["host"]
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict


def test_a_standby_comes_and_goes(sandbox: Sandbox, servers: str) -> None:
    """`0-1`, which the page removes again."""
    said = follow("add-a-standby.md", servers)
    assert "0-1" in said
    assert sorted(processors(sandbox)) == ["0", "0-0", "1", "1-0"]
