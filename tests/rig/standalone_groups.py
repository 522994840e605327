"""A grouper for tests of standalone groups that look at anything but who gets which task."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.model import ContainerModel, JobModel, TaskModel
from samza_dagster.standalone.group import GroupView


def dealt(tasks: Iterable[str], group: GroupView) -> JobModel:
    """Tasks in turn to processors in order of their ids."""
    ids = sorted(member.processor_id for member in group.members)
    containers = {
        pid: ContainerModel(
            processor_id=pid,
            tasks={
                name: TaskModel(
                    task_name=name, system_stream_partitions=(), changelog_partition=number
                )
                for number, name in enumerate(sorted(tasks))
                if number % len(ids) == index
            },
        )
        for index, pid in enumerate(ids)
    }
    return JobModel(config={}, containers=containers)
