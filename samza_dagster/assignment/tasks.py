"""Tasks from input partitions: Samza's `GroupByPartition` and changelog numbering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from samza_dagster.errors import InvalidInput
from samza_dagster.model import SystemStreamPartition, TaskModel

Input = tuple[str, int]
"""A topic and the number of one of its partitions."""
NO_INPUTS: Mapping[Input, str] = MappingProxyType({})


def group_by_partition(
    inputs: Mapping[str, int],
    system: str | Mapping[str, str],
    *,
    changelog_partitions: Mapping[str, int] | None = None,
    previous: Mapping[Input, str] = NO_INPUTS,
) -> tuple[TaskModel, ...]:
    """Return a task `Partition <i>` for partition i of every topic that has one.

    `previous` is topic and partition → task, as it was: an input stays with its task. A new
    partition of a topic goes to the task of the partition that its keys were in before (SEP-5:
    partition modulo the former count).

    `inputs` is topic → number of partitions; `system` is that of all of them, or of each by its
    topic. Tasks come in order of name, as Samza compares names: `Partition 10` is before `Partition
    2`. In that order a task that `changelog_partitions` (task name → partition, from an earlier
    deployment) doesn't know gets the partition after the highest (`JobModelCalculator`).

    Raises `InvalidInput` when there is no partition at all.
    """
    if not any(count > 0 for count in inputs.values()):
        raise InvalidInput(
            "tasks for the job's inputs",
            seen=f"no partition in {dict(inputs)}",
            fix="inputs that exist and have at least one partition",
        )
    owned: dict[str, list[Input]] = {}
    former = Counter(topic for topic, _ in previous)
    for topic, partitions in sorted(inputs.items()):
        for number in range(partitions):
            before = (topic, number % former[topic]) if former[topic] else (topic, number)
            task = previous.get((topic, number)) or previous.get(before) or f"Partition {number}"
            owned.setdefault(task, []).append((topic, number))
    known = changelog_partitions or {}
    highest = max(known.values(), default=-1)
    tasks: list[TaskModel] = []
    for name in sorted(owned):
        if name in known:
            changelog_partition = known[name]
        else:
            highest += 1
            changelog_partition = highest
        tasks.append(
            TaskModel(
                task_name=name,
                system_stream_partitions=_partitions(owned[name], system),
                changelog_partition=changelog_partition,
            )
        )
    return tuple(tasks)


def _partitions(
    owned: Sequence[Input], system: str | Mapping[str, str]
) -> tuple[SystemStreamPartition, ...]:
    return tuple(
        SystemStreamPartition(
            system=system if isinstance(system, str) else system[topic],
            stream=topic,
            partition=number,
        )
        for topic, number in owned
    )
