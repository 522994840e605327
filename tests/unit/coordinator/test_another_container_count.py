"""Another number of containers moves the fewest tasks, and a deployment that runs keeps its assignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from samza_dagster.coordinator import announcement
from samza_dagster.coordinator.deployment import Deployment
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_metadata import JobMetadata
from samza_dagster.model import TaskMode
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.unit
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
