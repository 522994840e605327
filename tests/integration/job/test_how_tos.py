"""The how-tos, run as they are written on a job of real Samza containers: their blocks of `sh`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
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
    return shell("\n".join(blocks), servers)


def shell(script: str, servers: str) -> str:
    """Runs it in a directory of its own, with the files of a code location."""
    with tempfile.TemporaryDirectory() as directory:
        for file in ("definitions.py", "samza_job.yaml"):
            shutil.copy(ROOT / file, directory)
        done = subprocess.run(
            ["bash", "-eux", "-c", script],
            cwd=directory,
            env={
                **os.environ,
                **demo_job.environment(servers),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400 * PACE,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_containers_move_to_their_standbys_hosts(sandbox: Sandbox, servers: str) -> None:
    """And the standbys to other ones: `0` by the command, `1` by Dagster's job."""
    before = processors(sandbox)
    follow("move.md", servers)
    after = processors(sandbox)
    for active, standby in (("0", "0-0"), ("1", "1-0")):
        assert after[active]["host"] == before[standby]["host"]
        assert after[standby]["host"] not in (before[active]["host"], before[standby]["host"])


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


def test_a_host_is_emptied(sandbox: Sandbox, servers: str, judge: Judge) -> None:
    """Its containers run elsewhere, and nothing is missing."""
    follow("drain.md", servers)
    found = processors(sandbox)
    assert len(found) == 4
    assert "host-2" not in {each["host"] for each in found.values()}
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict


def test_a_job_is_bounced(sandbox: Sandbox, servers: str) -> None:
    """Each container is another process, on its host."""
    before = processors(sandbox)
    follow("bounce.md", servers)
    after = processors(sandbox)
    for processor, one in before.items():
        assert after[processor]["host"] == one["host"]
        assert after[processor]["execution_id"] != one["execution_id"]
