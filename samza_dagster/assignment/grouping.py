"""Tasks to containers by any grouper, with checks of input and output for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, cast

from samza_dagster.assignment.by_locality import by_locality
from samza_dagster.assignment.contract import Grouper, TaskLocality, containers_of, in_order
from samza_dagster.assignment.samza_groupers import by_container_count, by_container_ids
from samza_dagster.errors import ActionFailed, InvalidInput, some_of
from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of

GROUPER = "task.name.grouper.factory"
ENTRY_POINTS = "samza_dagster.groupers"
_SAMZA = "org.apache.samza.container.grouper.task."
GROUPERS: Mapping[str, Grouper] = MappingProxyType(
    {
        "locality": by_locality,
        f"{_SAMZA}GroupByContainerCountFactory": by_container_count,
        f"{_SAMZA}GroupByContainerIdsFactory": by_container_ids,
    }
)


def group(
    tasks: Iterable[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
    grouper: Grouper = by_locality,
    *,
    actives_only: Set[str] = frozenset(),
) -> Mapping[str, ContainerModel]:
    """Return processor id → container by the grouper; processors in `actives_only` get no standby.

    Of Samza's groupers, which know none, standbys are placed by `by_locality`, around the actives. A
    standby that can't be placed legally is in none: `unplaced` names those. Raises `InvalidInput` that
    names the field for no task, no processor, an id twice, or a processor with an empty id or location.
    Raises `ActionFailed` for an illegal result of a grouper.
    """
    given = tuple(tasks)
    _require_usable(given, processor_locality)
    has_standbys = any(task.task_mode is TaskMode.STANDBY for task in given)
    more: dict[str, Any] = {"actives_only": actives_only} if actives_only and has_standbys else {}
    if has_standbys and grouper in (by_container_count, by_container_ids):
        actives = [task for task in given if task.task_mode is TaskMode.ACTIVE]
        some = processor_locality
        if grouper is by_container_count:  # which leaves no container without a task
            some = {each: some[each] for each in in_order(some)[: len(actives)]}
        grouped = grouper(actives, _of(actives, task_locality), some)
        more["placed"] = {name: pid for pid, each in grouped.items() for name in each.tasks}
        grouper = by_locality
    containers = grouper(given, task_locality, processor_locality, **more)
    _require_legal(given, processor_locality, containers, actives_only)
    return MappingProxyType(dict(containers))


def _of(
    tasks: Sequence[TaskModel], task_locality: Mapping[str, TaskLocality]
) -> dict[str, TaskLocality]:
    names = {task.task_name for task in tasks}
    return {name: known for name, known in task_locality.items() if name in names}


def as_before(
    tasks: Sequence[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
) -> dict[str, ContainerModel]:
    """Group each task to the processor where it ran last: the grouper of a running job."""
    own: dict[str, list[TaskModel]] = {}
    for task in tasks:
        own.setdefault(task_locality[task.task_name].processor_id, []).append(task)
    return containers_of(own, processor_locality)


def unplaced(
    tasks: Iterable[TaskModel], containers: Mapping[str, ContainerModel]
) -> tuple[str, ...]:
    """Return the standby tasks without a container, by name: there are too few locations."""
    placed = {name for container in containers.values() for name in container.tasks}
    return tuple(sorted(task.task_name for task in tasks if task.task_name not in placed))


def grouper_of(config: Mapping[str, str], default: Grouper) -> Grouper:
    """Return the grouper that `task.name.grouper.factory` names: Samza's, `locality`, or one that
    another package brings under the entry point `samza_dagster.groupers`.

    Raises `InvalidInput` for an unknown name.
    """
    name = config.get(GROUPER, "").strip()
    if not name:
        return default
    if name in GROUPERS:
        return GROUPERS[name]
    installed = entry_points(group=ENTRY_POINTS)
    if name in installed.names:
        return cast("Grouper", installed[name].load())
    raise InvalidInput(
        f"{GROUPER} in the job's config",
        seen=f"{name!r}, which is no grouper of this installation",
        fix=f"{some_of([*GROUPERS, *sorted(installed.names)])}; "
        f"or a package whose entry point {ENTRY_POINTS} has this name",
    )


def _require_usable(tasks: Sequence[TaskModel], processor_locality: Mapping[str, str]) -> None:
    if not processor_locality:
        raise InvalidInput(
            "processor_locality: processors for the tasks",
            seen="none",
            fix="at least one processor",
        )
    if not tasks:
        raise InvalidInput(
            "tasks for the processors", seen="no task", fix="inputs with at least one partition"
        )
    counted = Counter(task.task_name for task in tasks)
    if len(counted) < len(tasks):
        twice = sorted(name for name, times in counted.items() if times > 1)
        raise InvalidInput(
            "tasks: each name once", seen=f"{some_of(twice)} twice", fix="leave one out"
        )
    for processor, location in processor_locality.items():
        if not processor or not location:
            raise InvalidInput(
                "processor_locality: an id and a location of each processor",
                seen=f"processor {processor!r} at location {location!r}",
                fix=f"its location id, or {ANY_HOST} where that isn't known",
            )
    orphans = sorted(
        task.task_name
        for task in tasks
        if task.task_mode is TaskMode.STANDBY and active_task_of(task.task_name) not in counted
    )
    if orphans:
        raise InvalidInput(
            "tasks: the active of each standby", seen=f"none of {some_of(orphans)}", fix="add it"
        )


def _require_legal(
    tasks: Sequence[TaskModel],
    processor_locality: Mapping[str, str],
    containers: Mapping[str, ContainerModel],
    actives_only: Set[str],
) -> None:
    unknown = sorted(set(containers) - set(processor_locality))
    if unknown:
        raise _wrong("containers of processors that there are", some_of(unknown))
    placed = Counter(name for container in containers.values() for name in container.tasks)
    if strange := sorted(set(placed) - {task.task_name for task in tasks}):
        raise _wrong("tasks that there are", some_of(strange))
    if twice := sorted(name for name, times in placed.items() if times > 1):
        raise _wrong("each task in one container", some_of(twice))
    if missing := [name for name in unplaced(tasks, containers) if name == active_task_of(name)]:
        raise _wrong("a container for each active task", f"none for {some_of(missing)}")
    if wrong := sorted(
        name
        for processor in actives_only & set(containers)
        for name, task in containers[processor].tasks.items()
        if task.task_mode is TaskMode.STANDBY
    ):
        raise _wrong("standbys on processors that may have some", some_of(wrong))
    copies = Counter(
        (active_task_of(name), place)
        for processor, container in containers.items()
        for place in [_place(processor, processor_locality)]
        for name in container.tasks
    )
    if together := sorted({task for (task, _), times in copies.items() if times > 1}):
        raise _wrong("copies of a task at different locations", some_of(together))


def _place(processor: str, processor_locality: Mapping[str, str]) -> tuple[str, str]:
    location = processor_locality[processor]
    return ("", location) if location != ANY_HOST else (processor, "")


def _wrong(rule: str, seen: str) -> ActionFailed:
    return ActionFailed(f"group tasks: {rule}", seen=seen, fix="another grouper")
