"""Two assignments of one job side by side: whether they differ, and which is spread better.

Pure.
"""

from __future__ import annotations

from collections import Counter

from samza_dagster.model import JobModel, TaskMode, TaskModel


def places_of(model: JobModel | None) -> dict[str, str]:
    """Return task → its processor."""
    containers = {} if model is None else model.containers
    return {name: pid for pid, each in containers.items() for name in each.tasks}


def actives_of(model: JobModel | None) -> list[TaskModel]:
    """Return the active tasks."""
    containers = {} if model is None else model.containers
    tasks = (task for each in containers.values() for task in each.tasks.values())
    return [task for task in tasks if task.task_mode is TaskMode.ACTIVE]


def inputs_of(model: JobModel | None) -> dict[tuple[str, int], str]:
    """Return topic and number of each input's partition → the task that reads it."""
    return {
        (each.stream, each.partition): task.task_name
        for task in actives_of(model)
        for each in task.system_stream_partitions
    }


def input_counts(model: JobModel | None) -> Counter[str]:
    """Return topic → the number of its partitions that a task reads."""
    return Counter(topic for topic, _ in inputs_of(model))


def uneven(model: JobModel) -> tuple[int, int, int]:
    """Return how bad a spread is: minus the placed copies, then the unevenness of actives and of all.

    A sequence of assignments that each improve on the last is therefore finite.
    """
    loads = [each.tasks.values() for each in model.containers.values()]
    actives = (sum(task.task_mode is TaskMode.ACTIVE for task in tasks) for tasks in loads)
    sizes = [len(tasks) for tasks in loads]
    return -sum(sizes), sum(n * n for n in actives), sum(n * n for n in sizes)
