"""A job whose processors have UUIDs, as Samza's standalone names them: read, shown and placed.

The two actives have their first eight digits in common, and the standby of the first has not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.assignment import standby_container
from samza_dagster.client import views
from samza_dagster.client.job_view import view_of_stream
from samza_dagster.client.legal_hosts import Placing
from samza_dagster.client.verdicts import peers_of
from samza_dagster.coordinator.extra_standbys import with_extras
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.lag import Bounds
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel, naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.snapshots.found import Found, Job, Place
from samza_dagster.snapshots.rows import with_readiness
from tests.unit.placement.scenes import Scene, own, running

pytestmark = pytest.mark.unit

ONE = "550e8400-e29b-41d4-a716-446655440000"
TWO = "550e8400-0d1c-4f6e-9a53-111111111111"
STANDBY = "93b1f6de-77aa-4b0c-8f43-000000000000"
GROUPS = {ONE: (ONE, STANDBY), TWO: (TWO,)}
HOSTS = {ONE: "host-1", STANDBY: "host-2", TWO: "host-3"}
SPUN_UP = f"{ONE}-0"


def container(processor_id: str, partition: int) -> ContainerModel:
    """An active of one task."""
    name = f"Partition {partition}"
    task = TaskModel(task_name=name, system_stream_partitions=(), changelog_partition=partition)
    return ContainerModel(processor_id=processor_id, tasks={name: task})


def job_model() -> JobModel:
    """Both actives, and the standby of the first under its own id."""
    one, two = container(ONE, 0), container(TWO, 1)
    standby = standby_container(one, 0).model_copy(update={"processor_id": STANDBY})
    return JobModel(config={}, containers={STANDBY: standby, ONE: one, TWO: two})


def view() -> views.JobView:
    """As the coordinator stream tells it."""
    tasks = {
        (pid, name): task.task_mode.value
        for pid, it in job_model().containers.items()
        for name, task in it.tasks.items()
    }
    return view_of_stream(
        "uuids",
        "1",
        config={"app.run.id": "run-1"},
        task_containers={name: pid for pid, name in tasks},
        task_modes={name: mode for (_, name), mode in tasks.items()},
        localities=HOSTS,
        requests={},
        responses={},
        now_ms=1,
    )


def snapshot(found: Found) -> Job:
    """As the coordinator stream tells it, with what else was found."""
    for pid, it in job_model().containers.items():
        for name, task in it.tasks.items():
            found.containers[name] = pid
            found.modes[name] = task.task_mode.value
    return Job("uuids", "1", found)


def scene() -> Scene:
    """The job, running."""
    return running(HOSTS, groups=GROUPS)


def test_the_tasks_tell_which_container_replicates_which() -> None:
    """In the JobModel, also of a standby that was spun up."""
    assert job_model().groups() == GROUPS
    assert with_extras(job_model(), [SPUN_UP]).groups()[ONE] == (ONE, STANDBY, SPUN_UP)


def test_a_uuid_alone_is_the_name_of_no_standby() -> None:
    """Where no job is at hand; of one that was spun up it is."""
    for processor_id in (ONE, TWO, STANDBY):
        assert not naming.is_standby(processor_id)
        assert naming.group_of(processor_id) == processor_id
    assert naming.is_standby(SPUN_UP)
    assert naming.group_of(SPUN_UP) == naming.group_of(naming.one_more_of(ONE)) == ONE


@pytest.mark.parametrize(("processor_id", "yields"), [(ONE, False), (STANDBY, True)])
def test_only_the_standby_yields_the_processor(processor_id: str, yields: bool) -> None:
    """Its tasks make it one."""
    template = LaunchTemplate(command=("java", "Main"), standby_niceness=10)
    launch = Launcher(template, "uuids", "1", job_model()).launch(processor_id, "e-1")
    assert launch is not None
    assert (launch.command[0] == "nice") == yields


def test_a_view_shows_modes_and_groups() -> None:
    """By the tasks; one that is to be is named for its active."""
    job = view()
    assert {pid: p.mode for pid, p in job.processors.items()} == {
        ONE: TaskMode.ACTIVE,
        TWO: TaskMode.ACTIVE,
        STANDBY: TaskMode.STANDBY,
    }
    groups = {pid: job.group_of(pid) for pid in (*job.processors, SPUN_UP)}
    assert groups == {ONE: ONE, TWO: TWO, STANDBY: ONE, SPUN_UP: ONE}
    assert [pid for pid in groups if job.is_standby(pid)] == [STANDBY, SPUN_UP]


def test_a_view_of_our_coordinator_has_the_groups_that_it_has() -> None:
    """Whatever the tasks are called."""
    state = scene().state
    job = replace(view(), processors={}, state=state)
    assert [job.group_of(pid) for pid in (ONE, STANDBY, TWO)] == [ONE, ONE, TWO]


def test_a_snapshot_shows_modes_and_groups() -> None:
    """By the tasks; the readiness of a standby names the active that it stands by."""
    job = snapshot(Found())
    assert {p: job.active_of(p) for p in (*HOSTS, SPUN_UP, "0-0")} == {
        ONE: ONE,
        STANDBY: ONE,
        TWO: TWO,
        SPUN_UP: ONE,
        "0-0": "0",
    }
    rows, _ = with_readiness(job, [], {}, Bounds(), {})
    assert [(row["processor_id"], row["active_id"]) for row in rows] == [(STANDBY, ONE)]


def test_a_snapshot_of_our_coordinator_has_the_groups_that_it_has() -> None:
    """Also of processors that have no tasks (any more); those of a former deployment are none."""
    place = Place("proc-1", "running", "host-1", "e-1", 1)
    groups, config = {"proc-1": {"proc-1": place, "spare": place}}, {"app.run.id": "run-1"}
    job = snapshot(Found(config, coordinated="run-1", groups=groups))
    assert [job.active_of(p) for p in ("proc-1", "spare", STANDBY)] == ["proc-1", "proc-1", ONE]
    assert [job.mode_of(p) for p in ("proc-1", "spare", "0", "0-0")] == [
        *("Active", "Standby", "Active", "Standby"),
    ]
    former = snapshot(Found(config, coordinated="run-0", groups=groups))
    assert (former.active_of("spare"), former.mode_of("spare")) == ("spare", "Active")


def test_a_client_keeps_a_standby_off_its_active_and_two_actives_not_apart() -> None:
    """The first eight digits are nothing to go by."""
    job, placing = view(), Placing(view())
    assert [p.processor_id for p in peers_of(job, job.processors[ONE])] == [STANDBY]
    assert peers_of(job, job.processors[TWO]) == ()
    assert placing.violation(ONE, "host-3") is None
    assert placing.violation(STANDBY, "host-1") is not None
    assert placing.violation(SPUN_UP, "host-2") is not None


def test_a_standby_that_is_spun_up_is_named_for_its_active() -> None:
    """And one that is given up is gone."""
    world = scene()
    world.submit(own(RequestKind.START_STANDBY, ONE, "host-4"))
    world.settle()
    world.submit(own(RequestKind.STOP_STANDBY, STANDBY, uuid="u2"))
    world.settle()
    assert list(world.group(ONE).processors) == [ONE, SPUN_UP]
