"""Tasks, processors and where tasks ran, as the tests of groupers write them."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.assignment import TaskLocality
from samza_dagster.model import ContainerModel, SystemStreamPartition, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, standby_task_name


def tasks(count: int, replicas: int = 0) -> list[TaskModel]:
    """`T0`, `T1`, … and their standbys."""
    return [
        TaskModel(
            task_name=f"T{number}" if replica is None else standby_task_name(f"T{number}", replica),
            system_stream_partitions=(
                SystemStreamPartition(system="k", stream="in", partition=number),
            ),
            changelog_partition=number,
            task_mode=TaskMode.ACTIVE if replica is None else TaskMode.STANDBY,
        )
        for number in range(count)
        for replica in (None, *range(replicas))
    ]


def numbered(count: int) -> dict[str, str]:
    """Containers of a cluster before anything is known of their hosts."""
    return {str(number): ANY_HOST for number in range(count)}


def names(containers: Mapping[str, ContainerModel]) -> dict[str, list[str]]:
    """Processor → its tasks."""
    return {processor: list(container.tasks) for processor, container in containers.items()}


def ran_on(processors: Mapping[str, str]) -> dict[str, TaskLocality]:
    """`{"0": "T0 T2"}` as task locality."""
    return {
        name: TaskLocality(processor)
        for processor, held in processors.items()
        for name in held.split()
    }


def locality(
    containers: Mapping[str, ContainerModel], processors: Mapping[str, str]
) -> dict[str, TaskLocality]:
    """What the containers leave behind."""
    return {
        name: TaskLocality(processor, processors[processor])
        for processor, container in containers.items()
        for name in container.tasks
    }
