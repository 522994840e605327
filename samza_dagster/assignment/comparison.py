"""Two assignments of one job side by side: whether they differ, and which is spread better. Pure."""

from __future__ import annotations

from collections import Counter

from samza_dagster.model import JobModel, TaskMode, TaskModel


def places_of(model: JobModel | None) -> dict[str, str]:
    """Task → its processor."""
    containers = {} if model is None else model.containers
    return {name: pid for pid, each in containers.items() for name in each.tasks}


def actives_of(model: JobModel | None) -> list[TaskModel]:
    """The active tasks."""
    containers = {} if model is None else model.containers
    tasks = (task for each in containers.values() for task in each.tasks.values())
    return [task for task in tasks if task.task_mode is TaskMode.ACTIVE]


def inputs_of(model: JobModel | None) -> dict[tuple[str, int], str]:
    """Topic and number of each input's partition → the task that reads it."""
    return {
        (each.stream, each.partition): task.task_name
        for task in actives_of(model)
        for each in task.system_stream_partitions
    }


def input_counts(model: JobModel | None) -> Counter[str]:
    """Topic → of how many partitions a task has the input."""
    return Counter(topic for topic, _ in inputs_of(model))


def uneven(model: JobModel) -> tuple[int, int, int]:
    """Less is better: copies that have a place, as their number below none; then how uneven actives are spread, and all copies.

    So of several assignments of which each is better than the last there is an end.
    """
    loads = [each.tasks.values() for each in model.containers.values()]
    actives = (sum(task.task_mode is TaskMode.ACTIVE for task in tasks) for tasks in loads)
    sizes = [len(tasks) for tasks in loads]
    return -sum(sizes), sum(n * n for n in actives), sum(n * n for n in sizes)
