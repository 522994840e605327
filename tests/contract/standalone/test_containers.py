"""A standalone processor's containers, with a stub in the place of each: which end is told as a failure."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest

from samza_dagster.agent.ending import HOW_LEASE
from samza_dagster.agent.incarnation import HostedIncarnation, load_all
from samza_dagster.agent.lease import read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.errors import ActionFailed
from samza_dagster.model import ContainerModel, JobModel, TaskModel
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.containers import Containers
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def container(own: str, number: int) -> ContainerModel:
    """One active task."""
    name = f"Partition {number}"
    task = TaskModel(task_name=name, system_stream_partitions=(), changelog_partition=number)
    return ContainerModel(processor_id=own, tasks={name: task})


ONE, OTHER, MORE = container("p1", 0), container("p1", 1), container("p1_1", 1)
MODEL = JobModel(config={}, containers={})


def start(*containers: ContainerModel) -> StartWork:
    """These, and the processor is to have no others."""
    return StartWork(containers, containers, MODEL)


class Rig:
    """Containers that sleep, and what was told of their ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failures: list[str] = []
        self.outlived: list[str] = []
        self.at_work: list[str] = []
        self.served: dict[str, list[str]] = {}
        self.job = "orders"
        self.containers = Containers(
            directory,
            directory / "state",
            "host-1",
            processor_id="p1",
            config={},
            launch_of=self._launch_of,
            on_failure=self.failures.append,
            on_outlived=lambda: self.outlived.append("told"),
        )

    def _launch_of(self, model: JobModel, container_id: str, execution_id: str) -> Launch:
        stores = tuple(model.containers[container_id].tasks)
        places = {"PLACES": "{host} {agent_dir} {state_dir}"}
        job = json.dumps({"config": {"job.name": self.job}})
        self.served[container_id] = sorted(model.containers)
        return Launch(execution_id, container_id, ("sleep", "600"), places, job, stores, 5.0, {})

    def newest(self) -> HostedIncarnation | None:
        """Once its process is known."""
        found = max(load_all(self.directory), key=lambda each: each.sequence)
        return found if found.read_processes() else None

    def live(self) -> list[HostedIncarnation]:
        """Whose processes run."""
        return [
            each
            for each in load_all(self.directory)
            if each.read_processes() and not each.read_end()
        ]

    def start(self, *containers: ContainerModel) -> None:
        """Without waiting for them."""
        self.containers.start(start(*containers), self.at_work.append)

    def start_and_kill(self) -> str:
        """The execution id of a container that didn't end by its lease."""
        self.containers.renew(read_clocks(), 600.0)
        self.start(ONE)
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
    rig.start(ONE)
    first = until("it has ended", lambda: (found := rig.newest()) and found.read_end() and found)
    assert (first.read_end() or {})["how"] == HOW_LEASE
    assert until("that is told", lambda: rig.outlived) == ["told"]
    killed = rig.start_and_kill()
    (told,) = until("the other's end is told", lambda: rig.failures)
    assert killed in told


@pytest.mark.parametrize("started", [ONE, OTHER], ids=["as expected", "another"])
def test_what_is_expected_waits_for_its_start_and_is_killed_when_another_comes(
    rig: Rig, started: ContainerModel
) -> None:
    """Its process is there before: a version that is agreed on finds it warm."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE)
    before = until("it runs", rig.newest)
    ended: list[str] = []
    rig.containers.stop({"p1"}, ended.append)
    warm: list[str] = []
    rig.containers.expect(Expect((ONE,), (ONE,), MODEL), warm.append)
    until("who waits keeps nobody waiting", lambda: ended == ["p1"], seconds=10)
    expected = until(
        "it waits", lambda: (f := rig.newest()) and f.execution_id != before.execution_id and f
    )
    assert expected.parked
    rig.containers.expect(Expect((ONE,), (ONE,), MODEL), warm.append)
    assert warm == []
    ask(expected, until_answered=False)
    until("that it waits is told", lambda: warm == ["p1"])
    rig.start(started)
    rig.containers.expect(Expect((), (), MODEL), warm.append)
    runs = until("it is started", lambda: (f := rig.newest()) and not f.parked and f)
    assert (runs.execution_id == expected.execution_id) == (started == ONE)
    if started == OTHER:
        until("the other is dead", lambda: expected.container and expected.container.is_dead())


def test_of_several_containers_each_is_told_of_when_it_has_checked_in_and_when_it_has_ended(
    rig: Rig,
) -> None:
    """So what takes one's place needn't wait for the others."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE, MORE)
    ended: list[str] = []
    found = until("both run", lambda: len(all_ := rig.live()) == 2 and all_)
    for each in found:
        ask(each)
    until("both are at work", lambda: sorted(rig.at_work) == ["p1", "p1_1"])
    rig.containers.stop({"p1_1"}, ended.append)
    until("one has ended", lambda: ended == ["p1_1"])
    assert [each.processor_id for each in rig.live()] == ["p1"]
    assert rig.failures == []


def ask(found: HostedIncarnation, *, until_answered: bool = True) -> None:
    """As its container does: for its JobModel, then by its first heartbeat."""
    url = found.spec["environment"]["SAMZA_COORDINATOR_URL"]
    for page in ("", f"containerHeartbeat?executionContainerId={found.execution_id}"):
        with urllib.request.urlopen(url + page, timeout=10) as answer:
            if not until_answered:
                return
            assert answer.read()


def test_who_closes_leaves_nothing_running_and_tells_of_no_failure(rig: Rig) -> None:
    """Neither what runs nor what waits for a start; its directory is its user's alone."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE)
    rig.containers.expect(Expect((MORE,), (ONE, MORE), MODEL), rig.at_work.append)
    until("both are there", lambda: len(rig.live()) == 2)
    rig.containers.close()
    assert rig.live() == []
    assert (rig.failures, rig.outlived) == ([], [])
    assert rig.directory.stat().st_mode & 0o777 == 0o700


def test_a_container_knows_its_location_and_its_directories(rig: Rig) -> None:
    """And finds a file of hosts by which a JVM reports that location."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE)
    environment = until("it runs", rig.newest).spec["environment"]
    assert environment["PLACES"] == f"host-1 {rig.directory} {rig.directory / 'state'}"
    assert (rig.directory / "hosts").read_text().startswith("127.0.0.1 localhost")


def test_a_container_is_served_all_that_its_processor_is_to_have(rig: Rig) -> None:
    """It counts the changelogs' partitions by that."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.containers.start(StartWork((MORE,), (ONE, MORE), MODEL), rig.at_work.append)
    assert rig.served == {"p1_1": ["p1", "p1_1"]}


def test_no_container_starts_on_another_jobs_stores(rig: Rig) -> None:
    """Two jobs may have one name for them: it is said whose they are, and the other's runs on."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE)
    rig.job = "other"
    with pytest.raises(ActionFailed, match=r"start the container p1_1.*stores of job orders"):
        rig.start(container("p1_1", 0))
    until("the other's runs", rig.live)


def test_what_an_earlier_process_of_a_directory_left_running_ends_first(rig: Rig) -> None:
    """Nobody else ends it before its lease is over, and its tasks may be another's."""
    rig.containers.renew(read_clocks(), 600.0)
    rig.start(ONE)
    rig.containers.expect(Expect((MORE,), (ONE, MORE), MODEL), rig.at_work.append)
    left = until("both are there", lambda: len(all_ := rig.live()) == 2 and all_)
    again = Rig(rig.directory)
    try:
        assert all(each.container and each.container.is_dead() for each in left)
        again.containers.renew(read_clocks(), 600.0)
        again.start(ONE)
        until("it runs", again.live)
        assert again.failures == []
    finally:
        again.containers.close()
