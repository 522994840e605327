"""A group outlives its leader, and is ended whole."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from samza_dagster.sandbox import process
from samza_dagster.sandbox.process import ProcessRecord, spawn_with_default_signals
from samza_dagster.sandbox.process_group import is_group_alive, stop_groups

pytestmark = pytest.mark.unit

# Sleeps briefly: a signal between Python's last look for one and the sleep waits for its end.
SLEEP = (
    "import time; print('up', flush=True); end = time.monotonic() + 60\n"
    "while time.monotonic() < end: time.sleep(0.05)"
)
LEAVES_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"


def _python(code: str, log: Path) -> ProcessRecord:
    return spawn_with_default_signals(
        "test", [sys.executable, "-c", code], log=log, environment=os.environ
    )


def _wait_for_log(log: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_dead_leader_left_behind_is_found_and_killed(tmp_path: Path) -> None:
    """Nobody can ask it to end, so the group is killed once the time is over."""
    leader = _python(LEAVES_A_CHILD, tmp_path / "log")
    assert leader.wait(10)
    _wait_for_log(tmp_path / "log", "up")
    assert is_group_alive(leader)
    stop_groups([leader], timeout_s=0.1)
    assert not is_group_alive(leader)


def test_a_group_of_another_boot_is_left_alone(tmp_path: Path) -> None:
    """After a reboot the same number means a stranger's group."""
    leader = _python(SLEEP, tmp_path / "log")
    stranger = dataclasses.replace(leader, boot="another")
    assert not is_group_alive(stranger)
    stop_groups([stranger], timeout_s=0.1)
    assert is_group_alive(leader)
    stop_groups([leader], timeout_s=10)
    assert process.exit_status(leader) == -signal.SIGTERM


def test_sigint_ends_one_that_was_started_with_sigint_ignored(tmp_path: Path) -> None:
    """A background shell has it ignored, and Dagster ends its children by SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        leader = _python(SLEEP, tmp_path / "log")
    finally:
        signal.signal(signal.SIGINT, before)
    _wait_for_log(tmp_path / "log", "up")
    leader.send(signal.SIGINT)
    assert leader.wait(10)
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()
