"""Whether a run's process is gone, as run monitoring is told: never of one that may be alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import grpc
import pytest
from dagster._core.errors import (
    DagsterCodeLocationLoadError,
    DagsterLaunchFailedError,
    DagsterUserCodeUnreachableError,
)
from dagster._core.launcher.base import LaunchRunContext, WorkerStatus
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from placement_runs import placement_job

from samza_dagster.orchestration.deploy.instance import write_instance
from samza_dagster.orchestration.deploy.run_launcher import RunProcess, WatchedRunLauncher, is_alive

pytestmark = pytest.mark.dagster
NOW_S = time.time()
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRunLauncher]:
    """That of an instance with the settings that are written for it."""
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        yield instance.run_launcher


def run_of(
    launcher: WatchedRunLauncher,
    pid: int | None,
    host: str = "127.0.0.1",
    origin: RemoteJobOrigin | None = None,
) -> dg.DagsterRun:
    """A run whose code server is on `host`, and whose process said its id."""
    instance = launcher._instance
    tags = {".dagster/grpc_info": json.dumps({"host": host, "port": 1})}
    config = {"ops": {"plan_move_container": {"config": {"processor": "0", "destination": "h"}}}}
    run = instance.create_run_for_job(
        placement_job("move_container"),
        run_config=config,
        tags=tags,
        status=dg.DagsterRunStatus.STARTED,
        remote_job_origin=origin,
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


@dataclass
class Launched:
    """A run whose code server has just started a process for it, which said its id."""

    run: dg.DagsterRun
    process: subprocess.Popen[bytes]


@pytest.fixture
def launched(launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launched]:
    children: list[subprocess.Popen[bytes]] = []
    script = [sys.executable, "-S", "-c", "import sys\nsys.stdin.read()"]

    def start(*_: object) -> None:
        children.append(subprocess.Popen(script, stdin=subprocess.PIPE))

    run = run_of(launcher, None)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", start)
    launcher.launch_run(LaunchRunContext(run, workspace=None))
    (child,) = children
    launcher._instance.report_engine_event(f"Started process for run (pid: {child.pid}).", run)
    yield Launched(run, child)
    child.communicate()


def proc_of(tmp_path: Path, pid: int, *, clock_s: int = 0, boot: str = "", born: int = 0) -> Path:
    """What the kernel shows of a process once the wall clock was stepped by `clock_s`.

    `boot`: it is another boot; `born`: it started so many ticks after the process that has its id.
    """
    for name in (f"{pid}/stat", "stat", "sys/kernel/random/boot_id"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((Path("/proc") / name).read_text())
    stat = tmp_path / "stat"
    lines = stat.read_text().splitlines()
    booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    stat.write_text(f"btime {booted + clock_s}\n")
    fields = (tmp_path / f"{pid}/stat").read_text().split()
    fields[21] = str(int(fields[21]) + born)  # its name has no space
    (tmp_path / f"{pid}/stat").write_text(" ".join(fields))
    if boot:
        (tmp_path / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
    return tmp_path


@pytest.mark.longdagster
@pytest.mark.parametrize("clock_s", [0, 10, 86_400, -10, -86_400])
def test_a_step_of_the_clock_makes_no_live_run_a_dead_one(
    launcher: WatchedRunLauncher,
    launched: Launched,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    clock_s: int,
) -> None:
    """The kernel's time of boot moves with the wall clock; a second worker would begin beside it."""
    pid = launched.process.pid
    with monkeypatch.context() as stepped:
        stepped.setattr(WatchedRunLauncher, "proc", proc_of(tmp_path, pid, clock_s=clock_s))
        told = launcher.check_run_worker_health(launched.run)
        assert (told.status, told.run_worker_id) == (WorkerStatus.RUNNING, str(pid))
    launched.process.communicate()
    assert launcher.check_run_worker_health(launched.run).status is WorkerStatus.FAILED


@pytest.mark.longdagster
@pytest.mark.parametrize("other", [{"boot": "another"}, {"born": 300}, {"born": -100_000}])
@pytest.mark.parametrize("clock_s", [0, 86_400, -86_400])
def test_another_process_with_the_number_of_a_run_s_is_never_the_run(
    launcher: WatchedRunLauncher,
    launched: Launched,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    other: dict[str, Any],
    clock_s: int,
) -> None:
    """Of another boot, three seconds younger, or older; whatever the clock says."""
    seen = proc_of(tmp_path, launched.process.pid, clock_s=clock_s, **other)
    monkeypatch.setattr(WatchedRunLauncher, "proc", seen)
    monkeypatch.setattr(dg.DefaultRunLauncher, "terminate", says_no)
    assert launcher.check_run_worker_health(launched.run).status is WorkerStatus.FAILED
    assert not launcher.terminate(launched.run.run_id)
    assert launched.process.poll() is None


def test_a_launch_is_none_the_worse_when_its_times_cannot_be_kept(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process runs already: a launch that fails now would be tried again beside it."""

    def away(*_: object) -> None:
        raise OSError("the database is away")

    run = run_of(launcher, None)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", says_no)
    monkeypatch.setattr(type(launcher._instance), "report_engine_event", away)
    launcher.launch_run(LaunchRunContext(run, workspace=None))


class _Ended(Exception):
    """What gRPC says of a connection that ended after the call had been sent."""

    def details(self) -> str:
        return "Socket closed"

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE


class _TimedOut(_Ended):
    """What it says of one that is still there, and hasn't answered."""

    def details(self) -> str:
        return "Deadline Exceeded"

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED


def ends_in_the_launch(
    then: Callable[[], object] = lambda: None, why: type[_Ended] = _Ended
) -> Callable[..., None]:
    """A code server that has been asked, and then does this last of all."""

    def asked(*_: object) -> None:
        then()
        raise DagsterUserCodeUnreachableError("Could not reach user code server") from why()

    return asked


def test_a_process_that_begins_after_its_code_server_ended_has_been_launched(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on by itself: a run that is failed meanwhile would have to be launched again."""
    run = run_of(launcher, None)
    said = f"Started process for run (pid: {os.getpid()})."
    late = threading.Timer(1.0, lambda: launcher._instance.report_engine_event(said, run))
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", ends_in_the_launch(late.start))
    monkeypatch.setattr(type(launcher), "doubt_s", DEADLINE_S)
    starting(launcher, run)
    launcher.launch_run(LaunchRunContext(run, workspace=None))
    late.join()
    assert launcher.check_run_worker_health(run).run_worker_id == str(os.getpid())


def test_a_run_is_not_failed_before_its_retry_would_find_the_code_location(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster tries that once, by the daemon's newest look, which may have come while it was away."""
    looks: list[str] = []
    location = SimpleNamespace(client=SimpleNamespace(ping=str))

    def newest(name: str) -> object:
        looks.append(name)
        if len(looks) < 3:
            raise DagsterCodeLocationLoadError(f"{name} is away", load_error_infos=[])
        return location

    daemon = SimpleNamespace(
        create_request_context=lambda: SimpleNamespace(get_code_location=newest)
    )
    workspace: Any = SimpleNamespace(get_code_location=lambda _: location, process_context=daemon)
    code = RegisteredCodeLocationOrigin("samza")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(code, "all"), "move_container")
    run = run_of(launcher, None, origin=origin)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", ends_in_the_launch())
    monkeypatch.setattr(time, "sleep", lambda _: None)
    starting(launcher, run)
    with pytest.raises(DagsterLaunchFailedError):
        launcher.launch_run(LaunchRunContext(run, workspace=workspace))
    assert looks == ["samza"] * 3


def test_a_launch_of_which_nothing_is_heard_fails_and_is_not_tried_again(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`DagsterUserCodeUnreachableError` would have the queue start a second process."""
    run = run_of(launcher, None)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", ends_in_the_launch())
    monkeypatch.setattr(type(launcher), "doubt_s", 0.0)
    starting(launcher, run)
    with pytest.raises(DagsterLaunchFailedError, match="isn't tried again beside it"):
        launcher.launch_run(LaunchRunContext(run, workspace=None))


def test_a_launch_that_timed_out_is_not_waited_for_a_second_time(
    launcher: WatchedRunLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue launches nobody meanwhile. A process that has said by then that it is the run's counts."""
    asked = ends_in_the_launch(why=_TimedOut)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", asked)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    run = run_of(launcher, None)
    starting(launcher, run)
    with pytest.raises(DagsterLaunchFailedError):
        launcher.launch_run(LaunchRunContext(run, workspace=None))
    begun = run_of(launcher, os.getpid())
    starting(launcher, begun)
    launcher.launch_run(LaunchRunContext(begun, workspace=None))


def starting(launcher: WatchedRunLauncher, run: dg.DagsterRun) -> None:
    """As the queue says before it launches."""
    kind = dg.DagsterEventType.PIPELINE_STARTING.value
    event = dg.DagsterEvent(event_type_value=kind, job_name=run.job_name)
    launcher._instance.report_dagster_event(event, run_id=run.run_id)
    now = launcher._instance.get_run_by_id(run.run_id)
    assert now is not None
    assert now.status is dg.DagsterRunStatus.STARTING


def test_a_later_process_with_the_same_number_is_another() -> None:
    """As after a restart of the machine."""
    assert is_alive(RunProcess(os.getpid(), time.time()))
    assert not is_alive(RunProcess(os.getpid(), NOW_S - 86_400))


def test_a_zombie_has_ended(tmp_path: Path) -> None:
    """The kernel keeps its number until its parent has looked."""
    (tmp_path / "7").mkdir()
    fields = " ".join(["1"] * 18)
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    for state, alive in (("S", True), ("R", True), ("Z", False), ("X", False)):
        (tmp_path / "7" / "stat").write_text(f"7 (a) b) {state} {fields} 100 1\n")
        assert is_alive(RunProcess(7, 1001.0), tmp_path) is alive
    assert not is_alive(RunProcess(8, 1001.0), tmp_path)


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
