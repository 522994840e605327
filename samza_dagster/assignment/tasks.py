"""Tasks from input partitions: Samza's `GroupByPartition` and changelog numbering."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.errors import InvalidInput
from samza_dagster.model import SystemStreamPartition, TaskModel


def group_by_partition(
    inputs: Mapping[str, int],
    system: str | Mapping[str, str],
    *,
    changelog_partitions: Mapping[str, int] | None = None,
) -> tuple[TaskModel, ...]:
    """One task `Partition <i>` for partition i of every topic that has one.

    `inputs` is topic → number of partitions; `system` is that of all of them, or of each by its
    topic. Tasks come in order of name, as Samza compares names: `Partition 10` is before
    `Partition 2`. In that order a task that `changelog_partitions` (task name → partition, from an earlier
    deployment) doesn't know gets the partition after the highest (`JobModelCalculator`).

    Raises `InvalidInput` when there is no partition at all.
    """
    count = max(inputs.values(), default=0)
    if count <= 0:
        raise InvalidInput(
            "tasks for the job's inputs",
            seen=f"no partition in {dict(inputs)}",
            fix="inputs that exist and have at least one partition",
        )
    numbers = {f"Partition {number}": number for number in range(count)}
    known = changelog_partitions or {}
    highest = max(known.values(), default=-1)
    tasks: list[TaskModel] = []
    for name in sorted(numbers):
        if name in known:
            changelog_partition = known[name]
        else:
            highest += 1
            changelog_partition = highest
        tasks.append(
            TaskModel(
                task_name=name,
                system_stream_partitions=_partitions(inputs, system, numbers[name]),
                changelog_partition=changelog_partition,
            )
        )
    return tuple(tasks)


def _partitions(
    inputs: Mapping[str, int], system: str | Mapping[str, str], number: int
) -> tuple[SystemStreamPartition, ...]:
    return tuple(
        SystemStreamPartition(
            system=system if isinstance(system, str) else system[topic],
            stream=topic,
            partition=number,
        )
        for topic, count in sorted(inputs.items())
        if number < count
    )
