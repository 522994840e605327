"""A standalone processor's containers, with a stub in the place of each: which end is told as a failure."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from samza_dagster.agent.ending import HOW_LEASE
from samza_dagster.agent.incarnation import Incarnation, load_all
from samza_dagster.agent.lease import read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.model import ContainerModel, JobModel, TaskModel
from samza_dagster.standalone.containers import Containers
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

WORK = ContainerModel(
    processor_id="p1",
    tasks={
        "Partition 0": TaskModel(
            task_name="Partition 0", system_stream_partitions=(), changelog_partition=0
        )
    },
)
MODEL = JobModel(config={}, containers={"p1": WORK})


class Rig:
    """Containers that sleep, and what was told of their ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failures: list[str] = []
        self.containers = Containers(
            directory,
            directory / "state",
            "host-1",
            config={},
            launch_of=lambda _model, container_id, execution_id: Launch(
                execution_id, container_id, ("sleep", "600"), {}, "{}", (), 5.0, {}
            ),
            on_failure=self.failures.append,
        )

    def newest(self) -> Incarnation | None:
        """Once its process is known."""
        found = max(load_all(self.directory), key=lambda each: each.sequence)
        return found if found.read_processes() else None

    def start_and_kill(self) -> str:
        """The execution id of a container that didn't end by its lease."""
        self.containers.renew(read_clocks(), 600.0)
        self.containers.start(WORK, MODEL)
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
    rig.containers.start(WORK, MODEL)
    first = until("it has ended", lambda: (found := rig.newest()) and found.read_end() and found)
    assert (first.read_end() or {})["how"] == HOW_LEASE
    killed = rig.start_and_kill()
    (told,) = until("the other's end is told", lambda: rig.failures)
    assert killed in told
