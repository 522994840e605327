"""Dagster's own processes are killed during runs, on SQLite and on PostgreSQL.

A row is a run in a world of its own, and one of Dagster's processes that gets SIGKILL when
the run has come to a point. The worker is killed at every op boundary of each placement job,
within the ops that ask more than once, and after the last op. In the end the job is where it
was to be, by one request for each step and one start of each container; an outsider has
counted them.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from judged_run import written
from killed_rows import ROWS, Row
from killed_stack import (
    DEADLINE_S,
    DEQUEUED,
    NO_ROWS,
    QUEUED,
    Killed,
    patient,
    row_key,
)
from served_placement import PlacementServer

from samza_dagster.orchestration.instance import POSTGRES_URL, Storage, write_instance
from samza_dagster.sandbox.dagster_stack import DagsterStack
from tests.rig.postgres import PASSWORD, Postgres
from tests.share import Share

pytestmark = pytest.mark.deploy
KILLED = Share.told().part(ROWS)
TESTS = Path(__file__).parent
DEFINITIONS = """
import sys
sys.path.insert(0, {tests!r})
from served_client import served_repository
served = served_repository({socket!r}, {jobs!r})
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    made = Postgres()
    yield made
    made.close()


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables of this process, which opens the instance too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def ended(storage: Storage, **variables: str) -> Iterator[Killed]:
    """One stack with all rows of its storage, once every row is over and the stack is stopped."""
    judged_runs = {row_key(n): row.judged_run for n, row in enumerate(KILLED)}
    judged_runs |= NO_ROWS
    directory = Path(tempfile.mkdtemp(prefix="deploy-"))  # a socket's path is short
    server = PlacementServer({k: e.world() for k, e in judged_runs.items()}, directory / "worlds")
    definitions = directory / "placed.py"
    jobs = {key: judged_run.job for key, judged_run in judged_runs.items()}
    told = {"tests": str(TESTS), "socket": str(server.path), "jobs": jobs}
    definitions.write_text(DEFINITIONS.format(**told))
    held = [row for row in KILLED if row.who != "worker"]
    patient(write_instance(directory / "home", storage=storage), len(held))
    for limit in ("DAGSTER_GRPC_TIMEOUT_SECONDS", "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"):
        variables[limit] = str(int(DEADLINE_S))
    stack = DagsterStack(directory / "home", definitions, env=variables)
    made = Killed(stack, server, KILLED)
    try:
        with environment(**variables):
            stack.start(timeout_s=DEADLINE_S)
            made.go()
        stack.stop()
        yield made
    finally:
        stack.stop()
        server.close()
        shutil.rmtree(directory)


def judge(killed: Killed, row: Row) -> None:
    key = row_key(list(killed.rows).index(row))
    end = killed.ends[key]
    assert killed.server.gates[key].arrived.is_set()
    assert end.status is dg.DagsterRunStatus.SUCCESS, end.why
    row.judged_run.judge(killed.server.worlds[key], end.root)
    assert (end.run_id != end.root) == row.ends_as_another
    assert ("No steps needed to be retried" in killed.refused.get(key, "")) == row.whole
    if row.point.is_boundary:  # what ops before it have done isn't done a second time
        assert set(written(killed.server, key).values()) == {1}


def judge_launched_once(killed: Killed, key: str) -> None:
    end = killed.ends[key]
    assert (end.status, end.run_id) == (dg.DagsterRunStatus.SUCCESS, end.root), end.why
    NO_ROWS[key].judge(killed.server.worlds[key], end.root)


class Kills:
    """What is judged on each storage. Its class is what one process of two takes."""

    @pytest.mark.parametrize("row", KILLED, ids=str)
    def test_a_run_ends_in_one_placement_whatever_was_killed(
        self, killed: Killed, row: Row
    ) -> None:
        """Each request asked once and done, each container started once and where it was to be."""
        judge(killed, row)

    def test_nobody_asked_what_no_client_may(self, killed: Killed) -> None:
        """As a second commit of what is committed, by another id."""
        assert killed.server.faults == []

    def test_a_run_launched_without_a_daemon_starts_when_it_is_back(self, killed: Killed) -> None:
        """The queue is in the storage."""
        judge_launched_once(killed, QUEUED)

    def test_a_run_dequeued_without_a_code_server_starts_when_it_is_back(
        self, killed: Killed
    ) -> None:
        """The run itself, which nobody launches again."""
        judge_launched_once(killed, DEQUEUED)

    def test_no_command_line_and_no_log_has_the_password(self, killed: Killed) -> None:
        """A run's process gets the name of the variable, not what it holds."""
        logs = "".join(log.read_text() for log in (killed.stack.home / "logs").glob("*.log"))
        command_lines = [gate.command_line for gate in killed.server.gates.values()]
        assert all(command_lines)
        for secret in (PASSWORD, quote(PASSWORD, safe="")):
            assert secret not in logs
            assert not [line for line in command_lines if secret in line]


class TestOnSqlite(Kills):
    """Files of DAGSTER_HOME."""

    @pytest.fixture(scope="class")
    def killed(self) -> Iterator[Killed]:
        yield from ended("sqlite")


class TestOnPostgres(Kills):
    """A server, whose password nobody tells."""

    @pytest.fixture(scope="class")
    def killed(self, postgres: Postgres) -> Iterator[Killed]:
        yield from ended("postgres", **{POSTGRES_URL: postgres.database("killed")})


def test_every_row_has_a_name_of_its_own() -> None:
    """So that a failure tells which one it was."""
    assert len({str(row) for row in ROWS}) == len(ROWS)


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
