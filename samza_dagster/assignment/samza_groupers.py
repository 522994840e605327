"""The groupers of Samza 1.8.0, deprecated there, with the same results.

Where Samza goes through a Java set these go by name. Neither knows standbys: Samza gives
each container its standby containers afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from samza_dagster.assignment.contract import TaskLocality, containers_of, in_order, task_name
from samza_dagster.errors import InvalidInput
from samza_dagster.model import ContainerModel, TaskModel
from samza_dagster.model.naming import ANY_HOST


def by_container_count(
    tasks: Sequence[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
) -> dict[str, ContainerModel]:
    """Group as `GroupByContainerCount`: deal in turn; after a change of the number of containers,
    the last tasks of those that have too many go to those that have too few.

    Samza counts containers from 0; here they may have any ids. Locations don't matter.
    Raises `InvalidInput` for a container without a task.
    """
    processors = in_order(processor_locality)
    if len(tasks) < len(processors):
        raise InvalidInput(
            f"{len(processors)} containers for {len(tasks)} tasks",
            seen="containers that would have nothing to do",
            fix=f"job.container.count of at most {len(tasks)}",
        )
    in_turn = sorted(tasks, key=task_name)
    former: dict[str, list[TaskModel]] = {}
    for task in in_turn:
        former.setdefault(
            task_locality.get(task.task_name, TaskLocality()).processor_id, []
        ).append(task)
    known = set(task_locality) == {task.task_name for task in tasks} and _whole(former)
    if not known or len(former) == 1:
        return _dealt(in_turn, processors, processor_locality)
    if set(former) == set(processors):
        return containers_of(former, processor_locality)
    share, more = divmod(len(tasks), len(processors))
    shares = {each: share + (place < more) for place, each in enumerate(processors)}
    given_up: list[TaskModel] = []
    for processor in in_order(former):
        kept = shares.get(processor, 0)
        given_up += former[processor][kept:][::-1]
        del former[processor][kept:]
    grouped: dict[str, list[TaskModel]] = {}
    for processor in processors:
        own = former.get(processor, [])
        lacking = shares[processor] - len(own)
        grouped[processor] = own + given_up[:lacking]
        del given_up[:lacking]
    return containers_of(grouped, processor_locality)


def _whole(former: Mapping[str, object]) -> bool:
    """Return whether no numbered container is missing; Samza accepts no other assignment."""
    numbers = [each for each in former if each.isascii() and each.isdigit()]
    return "" not in former and (
        len(numbers) < len(former) or set(numbers) == {str(each) for each in range(len(former))}
    )


def by_container_ids(
    tasks: Sequence[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
) -> dict[str, ContainerModel]:
    """Group as `GroupByContainerIds`: with known locations, each task goes to the first processor at its last
    location that has less than its share, rounded down. The others go to the first processor with less
    than that, then in turn. Without locations (Samza: without host affinity): dealt in turn, by the
    order given.

    With more processors than tasks, the first by name have one each.
    """
    processors = list(processor_locality)
    if len(processors) > len(tasks):
        processors = sorted(processors)[: len(tasks)]
    in_turn = sorted(tasks, key=task_name)
    if all(processor_locality[each] == ANY_HOST for each in processors):
        return _dealt(in_turn, processors, processor_locality)
    processors.sort()
    share = len(tasks) // len(processors)
    grouped: dict[str, list[TaskModel]] = {each: [] for each in processors}
    left: list[TaskModel] = []
    for task in in_turn:
        last = task_locality.get(task.task_name, TaskLocality()).location_id
        there = (each for each in processors if last == processor_locality[each] != ANY_HOST)
        first = next((each for each in there if len(grouped[each]) < share), None)
        (left if first is None else grouped[first]).append(task)
    lacking = (each for each in processors for _ in range(share - len(grouped[each])))
    beyond = cycle(processors)
    for task in left:
        grouped[next(lacking, None) or next(beyond)].append(task)
    return containers_of(grouped, processor_locality)


def _dealt(
    tasks: Sequence[TaskModel], processors: Sequence[str], processor_locality: Mapping[str, str]
) -> dict[str, ContainerModel]:
    grouped = {each: tasks[place :: len(processors)] for place, each in enumerate(processors)}
    return containers_of(grouped, processor_locality)
