"""The how-tos, run as they are written on a job of real Samza containers: their blocks of `sh`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig import pages
from tests.rig.demo_sandbox import processors
from tests.rig.pace import PACE

pytestmark = [pytest.mark.integration, pytest.mark.realfault]


@pytest.fixture
def follow(servers: str, tmp_path: Path) -> Callable[[str], str]:
    """Runs all commands of a page, which ends at the first that fails, beside the files of a code location."""
    for file in ("definitions.py", "samza_job.yaml"):
        shutil.copy(pages.ROOT / file, tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    named = {**demo_job.environment(servers), "PYTHONPATH": str(pages.ROOT)}

    def run(page: str) -> str:
        text = (pages.HOW_TOS / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
        assert blocks, f"{page} has no command that can be run"
        commands = "\n".join(["set -eux", *blocks])
        return pages.follow(commands, tmp_path, path, 400 * PACE, **named)

    return run


def test_containers_move_to_their_standbys_hosts(
    sandbox: Sandbox, follow: Callable[[str], str]
) -> None:
    """And the standbys to other ones: `0` by the command, `1` by Dagster's job."""
    before = processors(sandbox)
    follow("move.md")
    after = processors(sandbox)
    for active, standby in (("0", "0-0"), ("1", "1-0")):
        assert after[active]["host"] == before[standby]["host"]
        assert after[standby]["host"] not in (before[active]["host"], before[standby]["host"])


def test_an_active_fails_over(sandbox: Sandbox, follow: Callable[[str], str], judge: Judge) -> None:
    """Its standby's host has it, and nothing is missing."""
    before = processors(sandbox)
    follow("fail-over.md")
    assert processors(sandbox)["0"]["host"] == before["0-0"]["host"]
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict


def test_a_standby_comes_and_goes(sandbox: Sandbox, follow: Callable[[str], str]) -> None:
    """`0-1`, which the page removes again."""
    said = follow("add-a-standby.md")
    assert "0-1" in said
    assert sorted(processors(sandbox)) == ["0", "0-0", "1", "1-0"]


def test_a_host_is_emptied(sandbox: Sandbox, follow: Callable[[str], str], judge: Judge) -> None:
    """Its containers run elsewhere, and nothing is missing."""
    follow("drain.md")
    found = processors(sandbox)
    assert len(found) == 4
    assert "host-2" not in {each["host"] for each in found.values()}
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict


def test_a_job_is_bounced(sandbox: Sandbox, follow: Callable[[str], str]) -> None:
    """Each container is another process, on its host."""
    before = processors(sandbox)
    follow("bounce.md")
    after = processors(sandbox)
    for processor, one in before.items():
        assert after[processor]["host"] == one["host"]
        assert after[processor]["execution_id"] != one["execution_id"]
