"""Standalone groups for tests that look at anything but who gets which task, and processors that are at work."""

from __future__ import annotations

from collections.abc import Iterable, Set

from samza_dagster.model import ContainerModel, JobModel, TaskModel
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.work import ProcessorWork


def dealt(tasks: Iterable[str], group: GroupView, staying: Set[str]) -> JobModel:
    """Tasks in turn to processors in order of their ids."""
    del staying
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


def runs(*containers: ContainerModel) -> ProcessorWork:
    """A processor that runs these, by version 1 that was agreed on; all are at work."""
    ids = frozenset(each.processor_id for each in containers)
    return ProcessorWork(containers, 1, running=containers, at_work=ids)
