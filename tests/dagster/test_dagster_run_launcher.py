"""Whether a run's process is gone, as run monitoring is told: never of one that may be alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher.base import WorkerStatus
from fake_placement import fake_move_container

from samza_dagster.orchestration.instance import write_instance
from samza_dagster.orchestration.run_launcher import WatchedRunLauncher, is_alive

pytestmark = pytest.mark.dagster
NOW_S = time.time()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRunLauncher]:
    """That of an instance with the settings that are written for it."""
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        yield instance.run_launcher


def run_of(launcher: WatchedRunLauncher, pid: int | None, host: str = "127.0.0.1") -> dg.DagsterRun:
    """A run whose code server is on `host`, and whose process said its id."""
    instance = launcher._instance
    tags = {".dagster/grpc_info": json.dumps({"host": host, "port": 1})}
    config = {"ops": {"plan_move_container": {"config": {"processor": "0", "destination": "h"}}}}
    run = instance.create_run_for_job(
        fake_move_container(), run_config=config, tags=tags, status=dg.DagsterRunStatus.STARTED
    )
    if pid is not None:
        instance.report_engine_event(f"Started process for run (pid: {pid}).", run)
    return run


def gone() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    return ended.pid


def test_a_run_whose_process_is_gone_is_told_as_failed(launcher: WatchedRunLauncher) -> None:
    """Run monitoring then ends the run, which frees its container group in the queue."""
    assert launcher.supports_check_run_worker_health
    told = launcher.check_run_worker_health(run_of(launcher, gone()))
    assert told.status is WorkerStatus.FAILED
    assert "is gone" in str(told.msg)


def test_a_run_whose_process_lives_is_told_as_running(launcher: WatchedRunLauncher) -> None:
    """By its id and its start."""
    told = launcher.check_run_worker_health(run_of(launcher, os.getpid()))
    assert told.status is WorkerStatus.RUNNING
    assert told.run_worker_id == str(os.getpid())


def test_nothing_is_said_of_a_run_on_another_machine(launcher: WatchedRunLauncher) -> None:
    """Its process id means nothing here."""
    told = launcher.check_run_worker_health(run_of(launcher, gone(), "code-7.example"))
    assert told.status is WorkerStatus.RUNNING


def test_nothing_is_said_of_a_run_whose_process_is_not_known(launcher: WatchedRunLauncher) -> None:
    """It may be about to say its id."""
    told = launcher.check_run_worker_health(run_of(launcher, None))
    assert told.status is WorkerStatus.RUNNING


def test_a_later_process_with_the_same_number_is_another() -> None:
    """As after a restart of the machine."""
    assert is_alive(os.getpid(), time.time())
    assert not is_alive(os.getpid(), NOW_S - 86_400)


def test_a_zombie_has_ended(tmp_path: Path) -> None:
    """The kernel keeps its number until its parent has looked."""
    (tmp_path / "7").mkdir()
    fields = " ".join(["1"] * 18)
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    for state, alive in (("S", True), ("R", True), ("Z", False), ("X", False)):
        (tmp_path / "7" / "stat").write_text(f"7 (a) b) {state} {fields} 100 1\n")
        assert is_alive(7, 1001.0, tmp_path) is alive
    assert not is_alive(8, 1001.0, tmp_path)


def says_no(*_: object) -> bool:
    """The server's successor: it doesn't know the run."""
    return False


def says_nothing(*_: object) -> bool:
    """No server: its successor isn't up yet."""
    raise DagsterUserCodeUnreachableError("connection refused")


@pytest.mark.parametrize("answer", [says_no, says_nothing])
def test_a_process_that_outlived_its_code_server_is_interrupted(
    launcher: WatchedRunLauncher,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[..., bool],
) -> None:
    """The run would be cancelled for ever: whoever asks is told so of no other."""
    monkeypatch.setattr(dg.DefaultRunLauncher, "terminate", answer)
    script = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nprint('up', flush=True)\nsignal.pause()"
    alone = subprocess.Popen(
        [sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert alone.stdout is not None
    assert alone.stdout.readline() == b"up\n"
    assert launcher.terminate(run_of(launcher, alone.pid).run_id)
    assert alone.wait(30) != 0
    alone.stdout.close()


def test_a_process_that_is_gone_is_not_said_to_be_interrupted(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code server's own answer stands."""
    run_id = run_of(launcher, gone()).run_id
    monkeypatch.setattr(dg.DefaultRunLauncher, "terminate", says_no)
    assert not launcher.terminate(run_id)
    monkeypatch.setattr(dg.DefaultRunLauncher, "terminate", says_nothing)
    with pytest.raises(DagsterUserCodeUnreachableError):
        launcher.terminate(run_id)
