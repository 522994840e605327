"""Containers from tasks: Samza's `GroupByContainerCount` on a first deployment."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.errors import InvalidInput
from samza_dagster.model import ContainerModel, TaskModel


def group_by_container_count(tasks: Iterable[TaskModel], count: int) -> dict[str, ContainerModel]:
    """Deals the tasks, in order of name, to containers `0` … `count - 1` in turn.

    Raises `InvalidInput` for no container, no task, or a container without a task.
    """
    in_order = sorted(tasks, key=lambda task: task.task_name)
    asked = f"{count} containers for {len(in_order)} tasks"
    if count <= 0:
        raise InvalidInput(asked, fix="job.container.count of at least 1")
    if not in_order:
        raise InvalidInput(asked, seen="no task", fix="inputs with at least one partition")
    if len(in_order) < count:
        raise InvalidInput(
            asked,
            seen="containers that would have nothing to do",
            fix=f"job.container.count of at most {len(in_order)}",
        )
    return {
        str(number): ContainerModel(
            processor_id=str(number),
            tasks={task.task_name: task for task in in_order[number::count]},
        )
        for number in range(count)
    }
