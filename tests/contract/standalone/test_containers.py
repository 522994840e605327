"""A standalone processor's containers, with a stub in the place of each: which end is told as a failure."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from samza_dagster.agent.ending import HOW_LEASE
from samza_dagster.agent.incarnation import Incarnation, load_all
from samza_dagster.agent.lease import read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.standalone.containers import Containers
from samza_dagster.standalone.group import ALL_MODES
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def work(number: int) -> ContainerModel:
    """One active task."""
    name = f"Partition {number}"
    task = TaskModel(task_name=name, system_stream_partitions=(), changelog_partition=number)
    return ContainerModel(processor_id="p1", tasks={name: task})


def model_of(own: ContainerModel) -> JobModel:
    """With `p1` alone."""
    return JobModel(config={}, containers={"p1": own})


WORK, OTHER = work(0), work(1)
MODEL = model_of(WORK)


class Rig:
    """Containers that sleep, and what was told of their ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failures: list[str] = []
        self.outlived: list[str] = []
        self.containers = Containers(
            directory,
            directory / "state",
            "host-1",
            config={},
            launch_of=self._launch_of,
            on_failure=self.failures.append,
            on_outlived=lambda: self.outlived.append("told"),
        )

    def _launch_of(self, model: JobModel, container_id: str, execution_id: str) -> Launch:
        stores = tuple(model.containers[container_id].tasks)
        return Launch(execution_id, container_id, ("sleep", "600"), {}, "{}", stores, 5.0, {})

    def newest(self) -> Incarnation | None:
        """Once its process is known."""
        found = max(load_all(self.directory), key=lambda each: each.sequence)
        return found if found.read_processes() else None

    def start_and_kill(self) -> str:
        """The execution id of a container that didn't end by its lease."""
        self.containers.renew(read_clocks(), 600.0)
        self.containers.start(WORK, MODEL, ALL_MODES)
        found = until("it runs", self.newest)
        assert found.container is not None
        found.container.send(signal.SIGKILL)
        return found.execution_id


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig]:
    made = Rig(tmp_path)
    try:
        yield made
    finally:
        made.containers.close()


def test_who_ends_by_itself_is_a_failure(rig: Rig) -> None:
    killed = rig.start_and_kill()
    (told,) = until("its end is told", lambda: rig.failures)
    assert killed in told


def test_who_outlives_its_lease_ends_and_is_no_failure(rig: Rig) -> None:
    """A processor that was paused beyond its session goes on when it is resumed, instead of ending."""
    rig.containers.renew(read_clocks(), 1.0 * PACE)
    rig.containers.start(WORK, MODEL, ALL_MODES)
    first = until("it has ended", lambda: (found := rig.newest()) and found.read_end() and found)
    assert (first.read_end() or {})["how"] == HOW_LEASE
    assert until("that is told", lambda: rig.outlived) == ["told"]
    killed = rig.start_and_kill()
    (told,) = until("the other's end is told", lambda: rig.failures)
    assert killed in told


@pytest.mark.parametrize("started", [WORK, OTHER], ids=["as expected", "another"])
def test_what_is_expected_waits_for_its_start_and_is_killed_when_another_comes(
    rig: Rig, started: ContainerModel
) -> None:
    """Its process is there before: a version that is agreed on finds it warm."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.containers.start(WORK, MODEL, ALL_MODES)
    before, ended = until("it runs", rig.newest), threading.Event()
    rig.containers.stop(ALL_MODES, ended.set)
    rig.containers.expect(WORK, MODEL)
    assert ended.wait(10 * PACE), "who waits keeps nobody waiting"
    expected = until(
        "it waits", lambda: (f := rig.newest()) and f.execution_id != before.execution_id and f
    )
    assert expected.parked
    rig.containers.start(started, model_of(started), ALL_MODES)
    runs = until("it is started", lambda: (f := rig.newest()) and not f.parked and f)
    assert (runs.execution_id == expected.execution_id) == (started == WORK)
    if started == OTHER:
        until("the other is dead", lambda: expected.container and expected.container.is_dead())


def test_standbys_start_once_the_active_tasks_that_start_too_have_checked_in(rig: Rig) -> None:
    """Four JVMs that started at once on two cores kept the tasks of a dead processor waiting for 7 s instead of 5."""
    standby = TaskModel(
        task_name="Standby-Partition 1-0",
        system_stream_partitions=(),
        changelog_partition=1,
        task_mode=TaskMode.STANDBY,
    )
    both = ContainerModel(processor_id="p1", tasks={**WORK.tasks, standby.task_name: standby})
    only, ended = frozenset({TaskMode.STANDBY}), threading.Event()
    rig.containers.renew(read_clocks(), 600.0)
    rig.containers.start(both, model_of(both), ALL_MODES)
    active = until("the active runs", rig.newest)
    rig.containers.stop(only, ended.set)
    assert ended.wait(10 * PACE), "what hasn't started keeps nobody waiting"
    assert [each.execution_id for each in load_all(rig.directory)] == [active.execution_id]
    rig.containers.start(both, model_of(both), only)
    until("it starts", lambda: (f := rig.newest()) and f.execution_id != active.execution_id)
