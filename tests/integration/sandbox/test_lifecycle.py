"""The sandbox as a user meets it: up, Ctrl-C, a kill, down; the kernel says what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samza_dagster.directories import artifacts_directory
from samza_dagster.sandbox import graphql
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.ports import free_ports
from tests.integration.sandbox.conftest import processes_of
from tests.rig.pace import PACE

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "samza_dagster.cli.main", "sandbox"]
JOBS = "{ repositoriesOrError { ... on RepositoryConnection { nodes { jobs { name } } } } }"
SMALL = ["--state-mb", "0.5", "--rate", "50", "--actives", "1", "--hosts", "2"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of its own that shares the jars."""
    (tmp_path / "artifacts").symlink_to(artifacts_directory(), target_is_directory=True)
    return tmp_path


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "SAMZA_DAGSTER_HOME": str(home)}


def _run(home: Path, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=_environment(home), capture_output=True, text=True, timeout=timeout_s * PACE, check=False
    )  # fmt: skip


def _up_until(home: Path, phase: str) -> subprocess.Popen[str]:
    """`sandbox up`, returned as the named phase begins."""
    child = subprocess.Popen(
        [*COMMAND, "up", *SMALL], env=_environment(home), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith(phase):
            return child
    raise AssertionError(f"{phase!r} never began")


def _end(child: subprocess.Popen[str], number: signal.Signals) -> int:
    child.send_signal(number)
    _, told = child.communicate(timeout=60 * PACE)
    print(told)  # pytest shows it beside a status that is another one
    return child.returncode


@pytest.mark.parametrize("phase", ["broker", "fill", "containers"])
def test_ctrl_c_at_any_moment_leaves_nothing_running(home: Path, phase: str) -> None:
    """Before, during and after the containers exist."""
    child = _up_until(home, phase)
    assert _end(child, signal.SIGINT) == 130
    assert processes_of(home) == []


@pytest.mark.realfault
def test_down_ends_what_a_killed_up_left_behind(home: Path) -> None:
    """SIGKILL gives it no chance to clean: the record does."""
    child = _up_until(home, "state processed")
    assert _end(child, signal.SIGKILL) == -signal.SIGKILL
    assert processes_of(home)
    result = _run(home, "down", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["ended"] >= 4
    assert processes_of(home) == []


def test_up_status_judge_down(home: Path) -> None:
    """All processors run, standbys are warm, nothing is lost, and it goes as one."""
    result = _run(home, "up", *SMALL, "--detach", "--json")
    try:
        assert result.returncode == 0, result.stderr
        facts = json.loads(result.stdout)
        assert facts["state"] == "up"
        assert {p: (each["mode"], each["state"]) for p, each in facts["processors"].items()} == {
            "0": ("Active", "running"),
            "0-0": ("Standby", "running"),
        }
        assert len({each["host"] for each in facts["processors"].values()}) == 2
        assert facts["deployment_id"]
        assert _run(home, "up").returncode == 2  # there is one already
        judge = Judge(facts["bootstrap_servers"])
        first = judge.judge(deadline_s=30 * PACE)
        deadline = time.monotonic() + 30 * PACE
        while (later := judge.judge(deadline_s=30 * PACE)).completed <= first.completed:
            assert time.monotonic() < deadline, "the load goes on"
        judge.close()
        assert later.is_good, later
    finally:
        down = _run(home, "down")
    assert down.returncode == 0, down.stderr
    assert processes_of(home) == []
    assert json.loads(_run(home, "status", "--json").stdout)["state"] == "down"


@pytest.mark.realfault
def test_dagster_is_opened_on_a_sandbox_by_one_command(home: Path) -> None:
    """Its jobs are there; Ctrl-C ends it alone, and `down` ends one that runs."""
    up = _run(home, "up", *SMALL, "--detach")
    try:
        assert up.returncode == 0, up.stderr
        assert "samza-dagster sandbox dagster" in up.stdout
        before = processes_of(home)
        for ends in (lambda c: c.send_signal(signal.SIGINT), lambda _: _run(home, "down")):
            port = free_ports(1)[0]
            child = subprocess.Popen(
                [*COMMAND, "dagster", "--port", str(port)], env=_environment(home),
                stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
            assert child.stdout is not None
            url = child.stdout.readline().strip()
            assert url == f"http://127.0.0.1:{port}"
            assert json.loads(_run(home, "status", "--json").stdout)["dagster_url"] == url
            jobs = {
                job["name"]
                for repository in graphql.ask(url, JOBS)["repositoriesOrError"]["nodes"]
                for job in repository["jobs"]
            }
            assert {"move_with_standby", "rolling_bounce", "drain_host"} <= jobs
            ends(child)
            child.wait(60 * PACE)
            assert set(processes_of(home)) <= set(before)
            assert json.loads(_run(home, "status", "--json").stdout)["dagster_url"] is None
    finally:
        _run(home, "down")
    assert processes_of(home) == []
