from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.defs_state.base import set_defs_state_storage
from dagster._core.storage.event_log import in_memory as events_in_memory
from dagster._core.storage.runs import in_memory as runs_in_memory
from judged_runs import drained_world
from placement_runs import WORLDS, Run, definitions_over
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import SingletonThreadPool

from samza_dagster.orchestration.instance import write_instance
from samza_dagster.orchestration.operations import runner, step
from samza_dagster.orchestration.ticks import elapsed_ms
from tests.rig.stepped_job import SteppedJob


@event.listens_for(Engine, "connect")
def _set_up(connection: Any, _record: object) -> None:
    """No test cuts the power: what SQLite writes needn't be on the disk when it goes on."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = ON")


def _engine(address: str, **_given: object) -> Engine:
    return create_engine(address, poolclass=SingletonThreadPool)


def _runs(storage: runs_in_memory.InMemoryRunStorage) -> AbstractContextManager[Connection]:
    return storage._engine.begin()


@contextmanager
def _events(storage: events_in_memory.InMemoryEventLogStorage) -> Iterator[Connection]:
    with storage._db_lock, storage._engine.begin() as connection:
        yield connection


@pytest.fixture(scope="session", autouse=True)
def instances_made_soon() -> Iterator[None]:
    """An instance in memory has one connection a thread, and migrations are read once.

    Dagster opens and sets up another connection for each statement: a fifth of what a run took.
    It reads its migrations for each database: two thirds of what an instance took.
    """
    read: dict[str | None, ScriptDirectory] = {}
    from_config = ScriptDirectory.from_config

    def migrations(config: Config) -> ScriptDirectory:
        where = config.get_main_option("script_location")
        return read.get(where) or read.setdefault(where, from_config(config))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", migrations)
        for module in (runs_in_memory, events_in_memory):
            patch.setattr(module, "create_engine", _engine)
        patch.setattr(runs_in_memory.InMemoryRunStorage, "connect", _runs)
        patch.setattr(events_in_memory.InMemoryEventLogStorage, "_connect", _events)
        yield


@pytest.fixture(autouse=True)
def forgotten_instance() -> Iterator[None]:
    """No test's instance outlives it.

    A context made with an instance enters it a second time, and Dagster then forgets to take
    back the first: definitions that a later test loads would ask its deleted database.
    """
    with set_defs_state_storage(None):
        yield


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[SteppedJob]:
    """The demo job's containers, under the test's own name and as the re-executed jobs' world."""
    name = request.node.name
    WORLDS[name] = WORLDS["reexecuted"] = SteppedJob.demo()
    yield WORLDS[name]
    WORLDS.clear()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks again after some milliseconds: what is awaited is played, and there."""

    def now_ms() -> int:
        return elapsed_ms() + max((world.late_ms for world in WORLDS.values()), default=0)

    monkeypatch.setattr(step, "elapsed_ms", now_ms)
    monkeypatch.setattr(runner, "POLL_S", 0.002)
    monkeypatch.setattr(runner, "LOOK_MS", 10)
    monkeypatch.setattr(runner, "LAG_MS", 10)


@pytest.fixture
def full_host(world: SteppedJob) -> None:
    """host-1 has 0 (warm standby), 1 (a standby far behind), 2 (no store) and 3's standby."""
    full = drained_world()
    world.hosts, world.at, world.lag_now = full.hosts, full.at, full.lag_now
    world.container_memory_mb = full.container_memory_mb


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def own_instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory of this test's own."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def run(request: pytest.FixtureRequest, instance: dg.DagsterInstance) -> Run:
    """Runs a placement job over the test's world, in its instance."""

    def made(job: str, **config: Any) -> dg.ExecuteInProcessResult:
        definition = definitions_over(request.node.name).get_job_def(job)
        return definition.execute_in_process(
            run_config={"ops": {f"plan_{job}": {"config": config}}},
            instance=instance,
            raise_on_error=False,
        )

    return made


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DAGSTER_HOME whose databases have their tables: Dagster takes 0.2 s to make them."""
    home = tmp_path_factory.mktemp("migrated")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert not instance.get_run_ids()
        assert not list(instance.all_instigator_state())
    return home


@pytest.fixture(scope="session")
def dagster_home(migrated: Path) -> Callable[[Path], Path]:
    """Makes of an empty directory a DAGSTER_HOME on SQLite, without a run or a tick."""

    def made(home: Path) -> Path:
        shutil.copytree(migrated, home, dirs_exist_ok=True, ignore=lambda *_: {"dagster.yaml"})
        write_instance(home)
        return home

    return made
