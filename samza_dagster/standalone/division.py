"""The division of a processor's tasks into containers. Pure.

A Samza container reads its tasks once, when it starts, and can't hold active and standby tasks. So
a processor has one container for its standby tasks, which starts anew when these change. It has as
many for its active tasks as needed for the remaining ones to go on: added tasks get a container of
their own, and if a container gives some up, the rest gets another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count

from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel

Tasks = Mapping[str, TaskModel]
Containers = tuple[ContainerModel, ...]
"""Each has its own id, and keeps its tasks for as long as it lives."""


def divided(
    processor_id: str, containers: Containers, given: Tasks, taken: Collection[str]
) -> Containers:
    """Return the containers for these tasks; no new one may have an id of `taken`.

    Each task is in one of them. A container stays as it is when all of its tasks do.
    """
    kept: list[ContainerModel] = []
    wanted: list[Tasks] = []
    for each in containers:
        staying = {name: task for name, task in each.tasks.items() if given.get(name) == task}
        of_mode = tasks_of(given, each.mode)
        if staying == each.tasks and (each.mode is TaskMode.ACTIVE or staying == of_mode):
            kept.append(each)
        elif each.mode is TaskMode.ACTIVE:
            wanted.append(staying)
    placed = {name for tasks in (*(each.tasks for each in kept), *wanted) for name in tasks}
    wanted += [
        {name: task for name, task in tasks_of(given, mode).items() if name not in placed}
        for mode in TaskMode
    ]
    return (*kept, *_new(processor_id, filter(None, wanted), {*taken, *ids_of(containers)}))


def merged(
    processor_id: str, containers: Containers, most: int, taken: Collection[str]
) -> Containers:
    """Return the containers, those with the fewest active tasks merged down to the limit."""
    actives = [each for each in containers if each.mode is TaskMode.ACTIVE]
    actives.sort(key=lambda each: (-len(each.tasks), each.processor_id))
    few = actives[max(most, 1) - 1 :]
    if len(few) < 2:
        return containers
    others = tuple(each for each in containers if each not in few)
    tasks = {name: task for each in few for name, task in each.tasks.items()}
    return (*others, *_new(processor_id, [tasks], {*taken, *ids_of(containers)}))


def served_model(
    model: JobModel, config: Mapping[str, str], processor_id: str, containers: Containers
) -> JobModel:
    """Return the JobModel served to these containers, with others' active and standby tasks apart.

    It has all tasks, as Samza counts the changelogs' partitions by those that it finds.
    """
    others = (
        new
        for each in model.containers.values()
        if each.processor_id != processor_id
        for new in divided(each.processor_id, (), each.tasks, ())
    )
    return JobModel(
        config=dict(config),
        containers={each.processor_id: each for each in (*containers, *others)},
        max_change_log_stream_partitions=model.max_change_log_stream_partitions,
    )


def tasks_of(tasks: Tasks, mode: TaskMode) -> dict[str, TaskModel]:
    """Return the tasks of this mode."""
    return {name: task for name, task in tasks.items() if task.task_mode is mode}


def _new(processor_id: str, wanted: Iterable[Tasks], taken: set[str]) -> Iterator[ContainerModel]:
    """Yield a container with a new id for each.

    No id has a `-`, which Samza takes for a standby's.
    """
    name = processor_id.replace("_", "__").replace("-", "_.")
    for tasks in wanted:
        is_standby = any(task.task_mode is TaskMode.STANDBY for task in tasks.values())
        ids = (f"{name}-{n}" if is_standby else f"{name}_{n}" if n else name for n in count())
        new = next(each for each in ids if each not in taken)
        taken.add(new)
        yield ContainerModel(processor_id=new, tasks=dict(tasks))


def ids_of(containers: Containers) -> frozenset[str]:
    """Return the id of each container."""
    return frozenset(each.processor_id for each in containers)
