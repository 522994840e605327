"""A process is known by id, start time and boot: only the very one is ever ended."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samza_dagster.agent.procfs import ProcessHandle, ProcessName
from samza_dagster.errors import ActionFailed, InvalidInput, MissingPrerequisite
from samza_dagster.sandbox import process
from samza_dagster.sandbox.process import (
    ProcessRecord,
    spawn,
    stop_groups,
    with_default_signals,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.unit

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


# Sleeps briefly: a signal between Python's last look for one and the sleep waits for its end.
SLEEP = (
    "import time; print('up', flush=True); end = time.monotonic() + 60\n"
    "while time.monotonic() < end: time.sleep(0.05)"
)
LEAVES_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"


def _python(code: str, tmp_path: Path) -> ProcessRecord:
    return spawn("test", [sys.executable, "-c", code], log=tmp_path / "log")


def _wait_for_log(tmp_path: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sigkill_ends_one_that_ignores_sigterm(tmp_path: Path) -> None:
    """And the answer says that it didn't end by itself."""
    record = _python(STUBBORN, tmp_path)
    _wait_for_log(tmp_path, "up")
    assert not record.stop(grace_s=0.1)
    assert not record.is_alive


def test_a_later_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    """The start time differs, or the boot: it is a stranger. The very one ends by a SIGTERM."""
    record = _python("import time; time.sleep(60)", tmp_path)
    stranger = dataclasses.replace(record, start_ticks=record.start_ticks - 1)
    assert not stranger.is_alive
    assert not stranger.send(signal.SIGKILL)
    assert stranger.stop()
    assert not dataclasses.replace(record, boot="another").is_alive
    assert record.is_alive
    assert record.stop(grace_s=10)
    assert not record.is_alive
    with pytest.raises(ActionFailed):
        ProcessRecord.of("gone", record.pid)


def test_an_id_that_a_thread_of_a_stranger_has_by_now_names_nobody() -> None:
    """The kernel refuses a pidfd of it with ENOENT (EINVAL before 6.15): it isn't a process."""
    stay = threading.Event()
    stranger = threading.Thread(target=stay.wait)
    stranger.start()
    try:
        assert stranger.native_id is not None
        own = ProcessRecord.of("self", os.getpid())
        gone = dataclasses.replace(own, pid=stranger.native_id, start_ticks=own.start_ticks - 1)
        assert not gone.send(signal.SIGKILL)
        assert gone.wait(0)
        assert gone.stop()
        seen = ProcessHandle(ProcessName(gone.pid, gone.start_ticks, gone.boot))
        assert seen.is_dead()
        seen.send(signal.SIGKILL)
    finally:
        stay.set()
        stranger.join()


def test_survives_its_way_through_json() -> None:
    """What is read back is the same process."""
    own = ProcessRecord.of("self", os.getpid())
    assert ProcessRecord.from_json(own.to_json()) == own
    with pytest.raises(InvalidInput, match="start_ticks"):
        ProcessRecord.from_json({"role": "x", "pid": 1})


def test_stops_many_at_the_same_time(tmp_path: Path) -> None:
    """One that is slow to go costs its grace once, not once for each."""
    records = [_python(STUBBORN, tmp_path) for _ in range(3)]
    _wait_for_log(tmp_path, "up\nup\nup")
    started = time.monotonic()
    process.stop_all(records, grace_s=0.5)
    assert time.monotonic() - started < 3 * PACE
    assert not any(record.is_alive for record in records)


def test_tells_the_record_before_a_ctrl_c_comes_in_between(tmp_path: Path) -> None:
    """A process that was started is always on record."""
    told: list[ProcessRecord] = []

    def tell(record: ProcessRecord) -> None:
        signal.raise_signal(signal.SIGINT)
        told.append(record)

    with pytest.raises(KeyboardInterrupt):
        spawn(
            "test",
            [sys.executable, "-c", "import time; time.sleep(60)"],
            log=tmp_path / "log",
            on_spawn=tell,
        )
    assert len(told) == 1
    told[0].stop()


def test_names_a_program_that_is_not_there(tmp_path: Path) -> None:
    """Instead of a traceback."""
    with pytest.raises(MissingPrerequisite, match="no-such-program"):
        spawn("test", ["/no-such-program"], log=tmp_path / "log")


def test_what_a_dead_leader_left_behind_is_found_and_killed(tmp_path: Path) -> None:
    """Nobody can ask it to end, so the group is killed once the time is over."""
    leader = _python(LEAVES_A_CHILD, tmp_path)
    assert leader.wait(10)
    _wait_for_log(tmp_path, "up")
    assert leader.is_group_alive
    stop_groups([leader], timeout_s=0.1)
    assert not leader.is_group_alive


def test_a_group_of_another_boot_is_left_alone(tmp_path: Path) -> None:
    """After a reboot the same number means a stranger's group."""
    leader = _python(SLEEP, tmp_path)
    stranger = dataclasses.replace(leader, boot="another")
    assert not stranger.is_group_alive
    stop_groups([stranger], timeout_s=0.1)
    assert leader.is_group_alive
    stop_groups([leader], timeout_s=10)
    assert process.exit_status(leader) == -signal.SIGTERM


def test_sigint_ends_one_that_was_started_with_sigint_ignored(tmp_path: Path) -> None:
    """A background shell has it ignored, and Dagster ends its children by SIGINT."""
    command = with_default_signals([sys.executable, "-c", SLEEP])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with (
            ThreadPoolExecutor() as pool
        ):  # in the main thread it isn't ignored while one is started
            leader = pool.submit(spawn, "test", command, log=tmp_path / "log").result()
    finally:
        signal.signal(signal.SIGINT, before)
    _wait_for_log(tmp_path, "up")
    leader.send(signal.SIGINT)
    assert leader.wait(10)
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()
