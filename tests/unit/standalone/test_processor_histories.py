"""Standalone processors in histories that nobody chose: one owner for a task, and none forgotten."""

from __future__ import annotations

import pytest

from samza_dagster.model import ContainerModel, JobModel, TaskModel
from samza_dagster.simulation.standalone_world import StandaloneWorld
from samza_dagster.standalone.group import GroupView

pytestmark = pytest.mark.unit

TASKS = frozenset(f"Partition {number}" for number in range(4))


def spread(group: GroupView) -> JobModel:
    """Tasks in turn to processors in order of their ids."""
    ids = sorted(member.processor_id for member in group.members)
    containers = {
        pid: ContainerModel(
            processor_id=pid,
            tasks={
                name: TaskModel(
                    task_name=name, system_stream_partitions=(), changelog_partition=number
                )
                for number, name in enumerate(sorted(TASKS))
                if number % len(ids) == index
            },
        )
        for index, pid in enumerate(ids)
    }
    return JobModel(config={}, containers=containers)


@pytest.mark.parametrize("seed", range(100))
def test_no_task_has_two_owners_and_none_is_forgotten(seed: int) -> None:
    """Whatever pauses, is cut off, crashes and comes back."""
    StandaloneWorld(seed, spread, TASKS).run(400)
