"""A real Dagster: three processes, launched over GraphQL, ended by their recorded ids."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from samza_dagster.errors import ActionFailed, InvalidInput
from samza_dagster.sandbox import process
from samza_dagster.sandbox.dagster_stack import DagsterStack, processes_on
from tests.rig.pace import PACE

pytestmark = pytest.mark.stack
ANSWER, TICK = "DAGSTER_GRPC_TIMEOUT_SECONDS", "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"
DEFINITIONS = """
import dagster as dg

class Greeting(dg.Config):
    processor: str

@dg.op
def greet(context: dg.OpExecutionContext, config: Greeting) -> None:
    context.log.info(f"hello {config.processor}")

@dg.job(executor_def=dg.in_process_executor)
def greet_job():
    greet()

defs = dg.Definitions(jobs=[greet_job])
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterStack]:
    directory = tmp_path_factory.mktemp("stack")
    (directory / "greetings.py").write_text(DEFINITIONS)
    made = DagsterStack(directory / "home", directory / "greetings.py")
    made.start(timeout_s=150 * PACE)
    yield made
    made.stop()


def test_what_runs_isnt_started_again(stack: DagsterStack) -> None:
    """A second daemon would take the first one's runs."""
    before = stack.pids
    for name in before:
        with pytest.raises(InvalidInput, match="runs"):
            stack.restart(name)
    assert stack.pids == before


def test_a_run_is_launched_and_followed(stack: DagsterStack) -> None:
    """By Dagster's own queue and launcher."""
    run_id = stack.runs.launch("greet_job", {"ops": {"greet": {"config": {"processor": "0-0"}}}})
    assert stack.runs.wait(run_id, timeout_s=90 * PACE) == "SUCCESS"
    with dg.DagsterInstance.from_config(str(stack.home)) as instance:
        said = [entry.user_message for entry in instance.all_logs(run_id)]
    assert said.count("hello 0-0") == 1


def test_a_config_that_dagster_refuses_is_told(stack: DagsterStack) -> None:
    """The reason, not a status code."""
    with pytest.raises(InvalidInput, match="processor"):
        stack.runs.launch("greet_job", {"ops": {"greet": {"config": {"proc": "0"}}}})
    with pytest.raises(InvalidInput, match="absent_job"):
        stack.runs.launch("absent_job")


def test_a_code_server_is_ready_again_when_it_can_be_asked(stack: DagsterStack) -> None:
    """Not when the web server says what it loaded from the one that was killed."""
    record = stack.record("code-server")
    os.kill(record.pid, signal.SIGKILL)
    assert record.wait(30)
    stack.restart("code-server")
    stack.wait_ready(90 * PACE)
    run_id = stack.runs.launch("greet_job", {"ops": {"greet": {"config": {"processor": "0-1"}}}})
    assert stack.runs.wait(run_id, timeout_s=90 * PACE) == "SUCCESS"


def test_a_second_stack_on_the_same_home_is_refused(stack: DagsterStack, tmp_path: Path) -> None:
    """Two daemons on one home would take each other's runs."""
    file = tmp_path / "greetings.py"
    file.write_text(DEFINITIONS)
    with pytest.raises(InvalidInput, match="stop that one first"):
        DagsterStack(stack.home, file).start()
    assert processes_on(stack.home).live()


def test_another_process_ends_it_by_the_record(stack: DagsterStack) -> None:
    """All three groups are gone, and a second stop has nothing to do."""
    groups = processes_on(stack.home).processes()
    assert len({group.role for group in groups}) == 3
    assert DagsterStack.stop_recorded(stack.home)
    assert not any(each.is_group_alive for each in groups)
    assert not processes_on(stack.home).exists
    assert not DagsterStack.stop_recorded(stack.home)


def test_definitions_that_cannot_be_loaded_leave_nothing_running(tmp_path: Path) -> None:
    """The error carries the log's end."""
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('not loadable')\n")
    made = DagsterStack(tmp_path / "home", broken)
    with pytest.raises(ActionFailed, match="not loadable"):
        made.start(timeout_s=60 * PACE)
    assert made.pids == {}


def test_the_databases_are_whole_before_the_first_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three open them: created by two at once, one of the two fails."""
    file = tmp_path / "greetings.py"
    file.write_text(DEFINITIONS)
    home = tmp_path / "home"
    revisions: list[object] = []

    def no_process(*_: object) -> None:
        for database in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
            with contextlib.closing(sqlite3.connect(home / database)) as opened:
                revisions.append(opened.execute("select count(*) from alembic_version").fetchone())
        raise InvalidInput("start a process", seen="this test starts none")

    monkeypatch.setattr(DagsterStack, "_spawn", no_process)
    with pytest.raises(InvalidInput, match="starts none"):
        DagsterStack(home, file).start()
    assert revisions == [(1,)] * 3


def test_a_worker_that_is_slow_to_start_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine takes longer than Dagster's 60 s to import everything; the environment rules.

    A sensor isn't waited for longer: its ticks are made to end within 60 s.
    """
    seen: list[tuple[str, str]] = []

    def no_process(*_: object, environment: dict[str, str], **__: object) -> process.ProcessRecord:
        seen.append((environment[ANSWER], environment[TICK]))
        raise InvalidInput("start a process", seen="this test starts none")

    monkeypatch.setattr(process, "spawn", no_process)
    for name in (ANSWER, TICK):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "greetings.py").write_text(DEFINITIONS)
    for home, named in (("one", None), ("two", "61")):
        if named is not None:
            monkeypatch.setenv(ANSWER, named)
        with pytest.raises(InvalidInput, match="starts none"):
            DagsterStack(tmp_path / home, tmp_path / "greetings.py").start()
    assert seen == [("180", "60"), ("61", "60")]


@pytest.mark.parametrize(("after", "held"), [(0, False), (1, False), (2, True), (3, False)])
def test_a_stop_ends_a_start_that_is_under_way(tmp_path: Path, after: int, held: bool) -> None:
    """At once, with what it spawned last: by the kernel's word no process names the home.

    `held`: its daemon waits to be let go, and isn't started any more.
    """
    (tmp_path / "greetings.py").write_text(DEFINITIONS)
    made = DagsterStack(tmp_path / "home", tmp_path / "greetings.py")
    raised: list[Exception] = []
    let_go = threading.Event()
    if not held:
        let_go.set()

    def start() -> None:
        try:
            made.start(timeout_s=150 * PACE, before_daemon=let_go.wait)
        except ActionFailed as error:
            raised.append(error)

    starter = threading.Thread(target=start, daemon=True)
    starter.start()
    deadline = time.monotonic() + 60 * PACE
    while len(made.pids) < after:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made.stop()
    let_go.set()
    starter.join(60)
    assert not starter.is_alive()
    assert len(raised) == 1
    assert made.pids == {}
    assert not [each for each in _command_lines() if str(tmp_path) in each]


def _command_lines() -> list[str]:
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
