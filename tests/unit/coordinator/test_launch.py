"""What is deployed and launched: containers' programs, another count of them, extra standbys, restores that are safe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.assignment import group, group_by_partition, with_standbys
from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator import announcement
from samza_dagster.coordinator.deployment import Deployment, plan
from samza_dagster.coordinator.extra_standbys import assignment_records, with_extras
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.job_metadata import JobMetadata, job_model_records
from samza_dagster.model import JobModel, TaskMode
from samza_dagster.model.naming import ANY_HOST
from samza_dagster.sandbox import demo_job
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.stream_model import job_model, write

pytestmark = pytest.mark.unit


def command_of(processor_id: str, **template: int) -> tuple[str, ...]:
    """As launched for a processor of the demo."""
    model = demo_job.job_model("127.0.0.1:9092")
    launcher = Launcher(LaunchTemplate(command=("java", "Main"), **template), "job", "1", model)
    launch = launcher.launch(processor_id, "job-1-x-000001")
    assert launch is not None
    return launch.command


def test_standbys_yield_the_processor_to_actives_where_the_template_says_so() -> None:
    """`nice` becomes the container: no shell, one process."""
    assert command_of("0-0", standby_niceness=10) == ("nice", "-n", "10", "java", "Main")
    assert command_of("0", standby_niceness=10) == ("java", "Main")


def test_all_containers_are_alike_unless_the_template_says_otherwise() -> None:
    """No surprise for a host that has room for all."""
    assert command_of("0-0") == command_of("0") == ("java", "Main")


def test_what_is_launched_ahead_is_the_same_program() -> None:
    """A parked process is used by a start with the same command alone."""
    template = LaunchTemplate(command=("java", "Main"), standby_niceness=5)
    launcher = Launcher(template, "job", "1", demo_job.job_model("127.0.0.1:9092"))
    ahead, start = launcher.ahead("0-0", "e-1"), launcher.launch("0-0", "e-1")
    assert ahead is not None
    assert start is not None
    assert ahead.command == start.command


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "sleep 41; true"),
        ("/bin/bash", "-lc", "java Main"),
        ("dash", "-e", "-c", "java Main; executed=1"),
    ],
)
def test_a_shell_that_would_outlive_its_warden_beside_the_jvm_is_refused(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """The kernel ends the warden's child alone: killed with the agent, it leaves the JVM behind."""
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({"command": command}))
    with pytest.raises(InvalidInput, match=r"field command: .*exec") as raised:
        LaunchTemplate.read(path)
    assert str(path) in raised.value.asked


@pytest.mark.parametrize(
    "command",
    [
        ("java", "-c", "Main"),
        ("sh", "-c", "exec java Main"),
        ("bash", "-c", "ulimit -n 9999 && exec java Main"),
        ("/opt/orders/bin/run-class.sh", "Main"),
        ("sh", "/opt/orders/bin/run-class.sh", "-c", "Main"),
    ],
)
def test_a_shell_that_becomes_the_jvm_is_none(command: tuple[str, ...], tmp_path: Path) -> None:
    """What a script file does isn't known: that it execs is the rule that it keeps."""
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({"command": command}))
    assert LaunchTemplate.read(path).command == command


# Another number of containers moves the fewest tasks, and a deployment that runs keeps its assignment.

AUTHOR = Author("host", "user", 1, "test")
PARTITIONS = {"in": 12}


class Job:
    """A job's coordinator stream and the record that its coordinator keeps of the deployment."""

    def __init__(self, **config: str) -> None:
        self.store = MemoryMetadataStore()
        self.metadata = JobMetadata(self.store)
        self.records: dict[str, Mapping[str, Any]] = {}
        self.config = {"job.name": "j", "task.inputs": "kafka.in", **config}

    def deploy(self, **config: str) -> Deployment:
        """What a coordinator that begins to lead does: plan, record, announce."""
        self.config |= config
        deployment, record = announcement.deployment_to_lead(
            self.config, self.records, PARTITIONS, self.metadata, now_ms=1
        )
        if record is not None:
            self.records[record[0]] = record[1]
        for each in announcement.announcement(deployment, self.metadata, AUTHOR):
            if each.value is None:
                self.store.remove(each.namespace, each.key)
            else:
                self.store.put(each.namespace, each.key, each.value)
        return deployment

    def report(self, processor_id: str, host: str) -> None:
        """A container has reported its host."""
        made = stream.set_container_host(AUTHOR, processor_id, host)
        assert made.value is not None
        self.store.put(made.namespace, made.key, made.value)


def assigned(deployment: Deployment) -> dict[str, str]:
    """Active task → its container."""
    return {
        name: processor_id
        for processor_id, container in deployment.job_model.containers.items()
        for name, task in container.tasks.items()
        if task.task_mode is TaskMode.ACTIVE
    }


def moved(before: Deployment, after: Deployment) -> int:
    """How many tasks have another container."""
    then, now = assigned(before), assigned(after)
    return sum(then[name] != now[name] for name in now)


@pytest.mark.parametrize("grouper", ["", "locality"])
@pytest.mark.parametrize(("count", "fewest"), [("4", 3), ("2", 4)])
@pytest.mark.parametrize("standbys", ["1", "2"])
def test_another_container_count_moves_the_fewest_tasks(
    grouper: str, count: str, fewest: int, standbys: str
) -> None:
    """Dealt anew, nine of twelve went from three containers to another of four."""
    job = Job(**{"task.name.grouper.factory": grouper, "job.container.count": "3"})
    job.config["job.standbytasks.replication.factor"] = standbys
    before = job.deploy()
    for number in range(3):
        job.report(str(number), f"host-{number}")
    assert moved(before, job.deploy(**{"job.container.count": count})) == fewest


def test_a_deployment_that_runs_keeps_its_assignment_whatever_its_containers_have_reported_since() -> (
    None
):
    """The next leader goes on with what runs: it asks no grouper, which would look at hosts of today."""
    job = Job(**{"task.name.grouper.factory": "locality", "job.container.count": "3"})
    job.deploy()
    grown = job.deploy(**{"job.container.count": "4"})
    for number, host in enumerate(["b", "a", "b", "a"]):
        job.report(str(number), host)
    assert job.deploy().job_model == grown.job_model


def test_the_record_of_a_former_release_has_no_assignment() -> None:
    """Its deployment is grouped as that release did, without what was before."""
    job = Job(**{"job.container.count": "3"})
    before = job.deploy()
    kept = {k: v for k, v in job.records["deployment"].items() if k != "assigned"}
    job.records["deployment"] = kept
    assert job.deploy().job_model == before.job_model


def test_the_same_config_after_another_coordinators_deployment_is_a_new_one() -> None:
    job = Job()
    first = job.deploy()
    assert job.deploy().deployment_id == first.deployment_id
    theirs = stream.set_config(AUTHOR, "app.run.id", "samzas")
    assert theirs.value is not None
    job.store.put(theirs.namespace, theirs.key, theirs.value)
    assert job.deploy().deployment_id not in (first.deployment_id, "samzas")


# Standbys that were spun up on request, in the JobModel and in the coordinator stream.


def planned(replicas: int) -> JobModel:
    tasks = group_by_partition({"in": 4}, "kafka")
    containers = with_standbys(group(tasks, {}, {"0": ANY_HOST, "1": ANY_HOST}), replicas)
    return JobModel(config={}, containers=containers, max_change_log_stream_partitions=4)


def test_an_extra_standby_shadows_its_active() -> None:
    """Task names, inputs and changelog partitions as if the job had planned it."""
    model = with_extras(planned(1), {"0-1"})
    assert model.containers["0-1"] == planned(2).containers["0-1"]
    assert model.containers["0-1"].mode is TaskMode.STANDBY


@pytest.mark.parametrize("unknown", ["7-0", "0-x", "0-", "0", "1-0"])
def test_what_has_no_active_or_is_planned_changes_nothing(unknown: str) -> None:
    """A group that a new deployment lacks, and ids of no standby."""
    assert with_extras(planned(1), {unknown}) == planned(1)


ids = st.frozensets(st.sampled_from(["0-0", "0-1", "0-2", "1-0", "1-1", "1-3", "5-0"]))


@given(st.lists(ids, min_size=1, max_size=5), st.integers(0, 2))
def test_the_stream_always_describes_the_present_job_model(
    history: list[frozenset[str]], replicas: int
) -> None:
    """Whatever comes and goes: read back, it is the plan and the extra standbys there are."""
    store = MemoryMetadataStore()
    plan = planned(replicas)
    write(store, job_model_records(plan, AUTHOR, deployment_id="d"))
    before: frozenset[str] = frozenset()
    for after in history:
        write(store, assignment_records(plan, before, after, AUTHOR))
        assert job_model(store).containers == with_extras(plan, after).containers
        before = after


def test_nothing_is_written_when_nothing_changes() -> None:
    """Not even a record that says the same."""
    same: tuple[StreamRecord, ...] = ()
    assert assignment_records(planned(1), frozenset({"0-1"}), frozenset({"0-1"}), AUTHOR) == same


# What containers are served never has Samza empty a warm store.

CONFIG = {"job.name": "j", "task.inputs": "kafka.in"}
FACTOR = "job.standbytasks.replication.factor"
TRANSACTIONAL = "task.transactional.state.restore.enabled"


def served(**more: str) -> dict[str, str]:
    """The config as containers get it."""
    return plan({**CONFIG, **more}, {"in": 1}, "run-1").config


@pytest.mark.parametrize("set_to", [None, "false", "False", "off"])
def test_a_job_without_standbys_is_served_the_restore_that_keeps_stores(set_to: str | None) -> None:
    """Samza's own default empties them, so it is spelled out, whatever spelling of no was set."""
    config = served(**({} if set_to is None else {TRANSACTIONAL: set_to}))
    assert config[TRANSACTIONAL] == "false"


@pytest.mark.parametrize("set_to", ["true", "True", " true "])
@pytest.mark.parametrize("standbys", [{}, {FACTOR: "1"}, {"job.hotstandby.enabled": "false"}])
def test_the_restore_that_empties_stores_is_refused_where_there_are_no_standbys(
    set_to: str, standbys: dict[str, str]
) -> None:
    """By name, with the smallest change. A restart would restore everything, and an extra standby
    that was spun up would have been warm for nothing.
    """
    with pytest.raises(InvalidInput, match="without standbys") as refused:
        served(**{TRANSACTIONAL: set_to}, **standbys)
    assert TRANSACTIONAL in refused.value.asked
    assert refused.value.seen == repr(set_to)
    assert refused.value.fix == f"leave it out, or {TRANSACTIONAL}=false"


def test_with_standbys_the_factor_that_turns_it_off_is_served() -> None:
    """Also where only our own settings say that there are standbys: Samza knows its own alone."""
    config = served(**{TRANSACTIONAL: "true", "job.hotstandby.replicationcount": "1"})
    assert config[FACTOR] == "2"


def test_a_coordinator_that_is_to_serve_it_is_refused_as_it_starts(tmp_path: Path) -> None:
    """Not when it takes over, weeks later."""
    config = {**CONFIG, TRANSACTIONAL: "true"}
    with pytest.raises(InvalidInput, match="without standbys"):
        Leadership(
            LeaderSettings(
                Connection("a:1", "j"),
                config,
                LaunchTemplate(command=("c",)),
                LocalAgents(tmp_path / "u", "t"),
            )
        )
