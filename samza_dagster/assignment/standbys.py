"""Standby containers: a buddy for each active, of standby tasks only (`TaskNameGrouperProxy`)."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.errors import InvalidInput
from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.model.naming import standby_container_id, standby_task_name

ENABLED = "job.hotstandby.enabled"
REPLICATION_COUNT = "job.hotstandby.replicationcount"
REPLICATION_FACTOR = "job.standbytasks.replication.factor"


def with_standbys(
    containers: Mapping[str, ContainerModel], replicas: int
) -> dict[str, ContainerModel]:
    """Return the active containers, and `replicas` standbys of each.

    A standby task has the inputs and the changelog partition of its active.

    Raises `InvalidInput` for a negative number, or a task name that can't have standbys.
    """
    if replicas < 0:
        raise InvalidInput(f"{replicas} standbys of each container", fix="a number from 0")
    standbys = (
        standby_container(active, replica)
        for active in containers.values()
        for replica in range(replicas)
    )
    return {**containers, **{standby.processor_id: standby for standby in standbys}}


def replicas_from_config(config: Mapping[str, str]) -> int:
    """Return the number of standbys of each active container; 0 when the job has none.

    `job.hotstandby.enabled` alone means one; `job.hotstandby.replicationcount` is their
    number; `job.standbytasks.replication.factor`, Samza's own, counts the active too.

    Raises `InvalidInput` for a value that is no number or out of range, and for two
    settings that disagree, both named.
    """
    enabled = _flag(config, ENABLED)
    count = _number(config, REPLICATION_COUNT, least=0)
    factor = _number(config, REPLICATION_FACTOR, least=1)
    said: dict[str, int] = {}
    if enabled is False:
        said[ENABLED] = 0
    elif enabled and count is None and factor is None:
        said[ENABLED] = 1
    if count is not None:
        said[REPLICATION_COUNT] = count
    if factor is not None:
        said[REPLICATION_FACTOR] = factor - 1
    if enabled and 0 in said.values():
        silent = next(key for key, value in said.items() if value == 0)
        raise _disagree(config, ENABLED, silent)
    first, *others = said or {ENABLED: 0}
    for other in others:
        if said[other] != said[first]:
            raise _disagree(config, first, other)
    return said.get(first, 0)


def standby_container(active: ContainerModel, replica: int) -> ContainerModel:
    """Return standby number `replica`, counted from 0, of an active container."""
    tasks = (
        TaskModel(
            task_name=standby_task_name(task.task_name, replica),
            system_stream_partitions=task.system_stream_partitions,
            changelog_partition=task.changelog_partition,
            task_mode=TaskMode.STANDBY,
        )
        for task in active.tasks.values()
    )
    return ContainerModel(
        processor_id=standby_container_id(active.processor_id, replica),
        tasks={task.task_name: task for task in tasks},
    )


def _flag(config: Mapping[str, str], key: str) -> bool | None:
    value = config.get(key, "").strip().lower()
    if not value:
        return None
    if value not in ("true", "false"):
        raise InvalidInput(f"{key} in the job's config", seen=repr(value), fix="true or false")
    return value == "true"


def _number(config: Mapping[str, str], key: str, *, least: int) -> int | None:
    value = config.get(key, "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdigit()) or int(value) < least:
        raise InvalidInput(
            f"{key} in the job's config", seen=repr(value), fix=f"a whole number from {least}"
        )
    return int(value)


def _disagree(config: Mapping[str, str], first: str, second: str) -> InvalidInput:
    return InvalidInput(
        "one number of standbys",
        seen=f"{first}={config[first]} and {second}={config[second]}",
        fix=f"{REPLICATION_FACTOR} = {REPLICATION_COUNT} + 1 (it counts the active too), or one of them alone",
    )
