"""Dagster's own processes are killed during runs, on SQLite and on PostgreSQL.

Each row is a run of `move_container` that is held at a boundary between two ops while one of
Dagster's processes gets SIGKILL. In the end its container has been placed once, by one request.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
import yaml
from served_placement import DESTINATION, Gate, PlacementServer, requests_of, wide_world

from samza_dagster.orchestration.instance import POSTGRES_URL, Storage, write_instance
from samza_dagster.sandbox.dagster_stack import DagsterStack
from tests.rig.postgres import PASSWORD, Postgres
from tests.rig.waiting import until

pytestmark = pytest.mark.deploy
DEFINITIONS = """
import sys
sys.path.insert(0, {tests!r})
from served_placement import served_definitions
defs = served_definitions({socket!r})
"""
RETRIED = {"dagster/max_retries": "1"}
# Who is killed, where its run is held, the run's tags; the place in the list is the processor.
WORKER_ROWS = (
    ("worker", "plan|reserve", RETRIED),
    ("worker", "reserve|stop", RETRIED),
    ("worker", "stop|move", RETRIED),
    ("worker", "move|verify", {}),  # nobody retries it: re-executed by hand
)
SERVER_ROWS = (
    ("webserver", "reserve|stop", {}),
    ("daemon", "reserve|stop", {}),
    ("code-server", "reserve|stop", {}),
    ("code-server and worker", "stop|move", {}),  # as when their machine restarts
)
ROWS = (*WORKER_ROWS, *SERVER_ROWS)
QUEUED = str(len(ROWS))  # the processor of a run that is launched while there is no daemon
NAMES = [f"{who} at {boundary}" for who, boundary, _ in ROWS]
DEADLINE_S = 900.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    made = Postgres()
    yield made
    made.close()


@dataclass
class Killed:
    """What the kills on one storage left: the world, and the runs of each row."""

    stack: DagsterStack
    server: PlacementServer
    roots: list[str] = field(default_factory=list)
    queued: str = ""
    command_lines: list[str] = field(default_factory=list)

    def launch(self, processor: str, tags: dict[str, str]) -> str:
        config = {"processor": processor, "destination": DESTINATION}
        return self.stack.runs.launch(
            "move_container", {"ops": {"plan_move_container": {"config": config}}}, tags
        )

    def kill(self, name: str) -> None:
        """SIGKILL, as the kernel gives it when memory is short; seen dead."""
        record = self.stack.record(name)
        os.kill(record.pid, signal.SIGKILL)
        assert record.wait(30)

    def last(self, instance: dg.DagsterInstance, root: str) -> dg.DagsterRun:
        """The newest run of a chain of retries and re-executions."""
        chain = instance.get_runs(dg.RunsFilter(tags={"dagster/root_run_id": root}))
        run = chain[0] if chain else instance.get_run_by_id(root)
        assert run is not None
        return run

    def over(self, processor: str) -> bool:
        """Whether the world has started a container where it was sent."""
        return self.server.world.starts.get(processor, 0) > 0

    def go(self) -> None:
        """All rows, one after another in one stack: its start is what takes the time."""
        gates = [self.server.gate(str(n), boundary) for n, (_, boundary, _) in enumerate(ROWS)]
        self.roots = [self.launch(str(n), tags) for n, (_, _, tags) in enumerate(ROWS)]
        for gate, name in zip(gates, NAMES, strict=True):
            until(
                f"the run for the {name} came to its boundary",
                gate.arrived.is_set,
                seconds=DEADLINE_S,
            )
        self.command_lines = [Path(f"/proc/{g.pid}/cmdline").read_bytes().decode() for g in gates]
        self._kill_workers(gates[: len(WORKER_ROWS)])
        web, daemon, code, both = range(len(WORKER_ROWS), len(ROWS))
        self._kill_server("webserver", gates[web], str(web))
        self._kill_server("code-server", gates[code], str(code), also=gates[both])
        self.stack.wait_ready(DEADLINE_S)  # a run is launched by the web server
        # Nobody's child any more: run monitoring sees that it is gone.
        assert self.stack.runs.wait(self.roots[both], timeout_s=DEADLINE_S) == "FAILURE"
        self.stack.runs.reexecute(self.roots[both])
        self._kill_daemon(gates[daemon], str(daemon))
        for root in (*self.roots, self.queued):
            self._wait_success(root)

    def _kill_workers(self, gates: list[Gate]) -> None:
        for gate in gates:
            os.kill(gate.pid, signal.SIGKILL)
            gate.open(forget=True)
        for root, (_, _, tags) in zip(self.roots, WORKER_ROWS, strict=False):
            if not tags:
                assert self.stack.runs.wait(root, timeout_s=DEADLINE_S) == "FAILURE"
                self.stack.runs.reexecute(root)
        for root in self.roots[: len(WORKER_ROWS)]:
            self._wait_success(root)

    def _kill_server(self, name: str, gate: Gate, processor: str, also: Gate | None = None) -> None:
        """`also`: a run whose process dies with the server."""
        self.kill(name)
        if also is not None:
            os.kill(also.pid, signal.SIGKILL)
            also.open(forget=True)
        gate.open()
        until(
            f"the run went on without the {name}", lambda: self.over(processor), seconds=DEADLINE_S
        )
        self.stack.restart(name)

    def _kill_daemon(self, gate: Gate, processor: str) -> None:
        self.kill("daemon")
        self.queued = self.launch(QUEUED, {})
        gate.open()
        until(
            "the run went on without the daemon", lambda: self.over(processor), seconds=DEADLINE_S
        )
        assert not requests_of(self.server.world, QUEUED)
        self.stack.restart("daemon")

    def _wait_success(self, root: str) -> None:
        with dg.DagsterInstance.from_config(str(self.stack.home)) as instance:
            until(
                f"run {root} or one that went on with it ended well",
                lambda: self.last(instance, root).status is dg.DagsterRunStatus.SUCCESS,
                seconds=DEADLINE_S,
            )


def patient(settings: Path) -> None:
    """A machine that is busy with other tests takes minutes to start a run: no start times out.

    And several runs start at a time, and monitoring looks more often.
    """
    read = yaml.safe_load(settings.read_text())
    read["run_coordinator"]["config"] |= {"dequeue_use_threads": True, "dequeue_num_workers": 8}
    read["run_monitoring"]["start_timeout_seconds"] = int(DEADLINE_S)
    read["run_monitoring"]["poll_interval_seconds"] = 5
    settings.write_text(yaml.safe_dump(read))


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables of this process, which opens the instance too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def killed(request: pytest.FixtureRequest) -> Iterator[Killed]:
    storage: Storage = request.param
    variables: dict[str, str] = {}
    if storage == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        variables[POSTGRES_URL] = server.database("killed")
    directory = Path(tempfile.mkdtemp(prefix="deploy-"))  # a socket's path is short
    world = PlacementServer(wide_world(len(ROWS) + 1), directory / "world")
    definitions = directory / "placed.py"
    tests = str(Path(__file__).parent)
    definitions.write_text(DEFINITIONS.format(tests=tests, socket=str(world.path)))
    patient(write_instance(directory / "home", storage=storage))
    variables["DAGSTER_GRPC_TIMEOUT_SECONDS"] = str(int(DEADLINE_S))
    stack = DagsterStack(directory / "home", definitions, env=variables)
    try:
        with environment(**variables):
            stack.start(timeout_s=DEADLINE_S)
            made = Killed(stack, world)
            made.go()
            yield made
    finally:
        stack.stop()
        world.close()
        shutil.rmtree(directory)


@pytest.mark.parametrize("row", range(len(ROWS)), ids=NAMES)
def test_a_run_ends_in_one_placement_whatever_was_killed(killed: Killed, row: int) -> None:
    """One request, one commit, one start, on the host that was asked for."""
    world, processor = killed.server.world, str(row)
    (request,) = requests_of(world, processor)
    assert list(world.committed).count(request.uuid) == 1
    assert world.starts[processor] == 1
    assert world.at[processor] == DESTINATION
    assert world.released == {}
    with dg.DagsterInstance.from_config(str(killed.stack.home)) as instance:
        root = killed.roots[row]
        last = killed.last(instance, root)
        assert last.status is dg.DagsterRunStatus.SUCCESS
        assert (last.run_id != root) == ("worker" in ROWS[row][0])


def test_only_what_a_dead_worker_asked_is_asked_again(killed: Killed) -> None:
    """An outsider counted: the ops before the boundary weren't carried out a second time."""
    calls = killed.server.calls
    boundaries = ("plan|reserve", "reserve|stop", "stop|move", "move|verify")
    for row in range(len(ROWS)):
        assert [calls[str(row), boundary] for boundary in boundaries[:2]] == [1, 1]


def test_a_run_launched_without_a_daemon_starts_when_it_is_back(killed: Killed) -> None:
    """The queue is in the storage."""
    assert killed.server.world.at[QUEUED] == DESTINATION
    assert killed.server.world.starts[QUEUED] == 1


def test_no_command_line_and_no_log_has_the_password(killed: Killed) -> None:
    """A run's process gets the name of the variable, not what it holds."""
    logs = "".join(log.read_text() for log in (killed.stack.home / "logs").glob("*.log"))
    for secret in (PASSWORD, quote(PASSWORD, safe="")):
        assert secret not in logs
        assert not [line for line in killed.command_lines if secret in line]


def test_the_storage_is_whole_before_the_first_process_starts(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by three at once, PostgreSQL's may end with two heads too, and can't be migrated then."""
    url = postgres.database("prepared")
    write_instance(tmp_path, storage="postgres")
    stack = DagsterStack(tmp_path, tmp_path / "none.py", env={POSTGRES_URL: url})
    monkeypatch.setattr(stack, "_spawn", lambda _: pytest.fail("before the storage was looked at"))
    with pytest.raises(pytest.fail.Exception, match="before the storage"):
        stack.start(timeout_s=DEADLINE_S)
    heads = postgres.execute("select version_num from alembic_version", "prepared")
    assert len(heads) == 1
    found = postgres.execute(
        "select count(*) from information_schema.tables where table_schema = 'public'"
        " and table_name in ('runs', 'event_logs', 'jobs', 'job_ticks')",
        "prepared",
    )
    assert found == [(4,)]
