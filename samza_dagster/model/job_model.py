"""JobModel, ContainerModel and TaskModel: which processor runs which task.

The JSON is Samza's own (`SamzaObjectMapper`): names with hyphens, absent fields
left absent. Readers accept what older releases wrote: no `task-mode` (Active), no
`keyBucket` (-1), `container-id` beside or instead of `processor-id`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Set
from enum import StrEnum
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.naming import active_task_of, group_of


class TaskMode(StrEnum):
    """The role of a task: it processes, or it only keeps the state warm."""

    ACTIVE = "Active"
    STANDBY = "Standby"


def malformed(
    kind: str, error: ValidationError, named: Callable[[str], str] = str
) -> MalformedRecord:
    """Return pydantic's error as `MalformedRecord` that names the first field.

    `named` gives a field's name on the wire: pydantic tells our own of one that is missing.
    """
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(named(str(part)) for part in first["loc"]) or "(whole document)"
    return MalformedRecord(
        f"read a {kind}", seen=f"field {field}: {first['msg']}", fix=f"a {kind} as Samza writes it"
    )


def _with_hyphens(name: str) -> str:
    return name.replace("_", "-")


class WireModel(BaseModel):
    """An immutable model with Samza's JSON names as field aliases."""

    # Samza's `CamelCaseToDashesStrategy`. A generator, so that type checkers see our names.
    # Built at first use, so that an import alone, as in each run of Dagster, costs nothing.
    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        extra="ignore",
        alias_generator=_with_hyphens,
        defer_build=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object as Samza writes it; absent optional fields stay absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_json(self) -> str:
        """Return the JSON text as Samza writes it, without spaces."""
        return json.dumps(self.to_wire(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse Samza's JSON; raises `MalformedRecord` that names the first bad field."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise malformed(cls.__name__, error) from error


class SystemStreamPartition(WireModel):
    """A partition of one stream of one system; `key_bucket` -1 is the whole of it.

    The fields are in the order in which Samza writes them (a Java hash map's): the
    JSON text is a key of the coordinator stream, and compaction compares bytes.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    system: str
    partition: int = Field(ge=0)
    stream: str
    key_bucket: int = -1


class TaskModel(WireModel):
    """A task: its inputs, its changelog partition, its mode."""

    task_name: str
    system_stream_partitions: tuple[SystemStreamPartition, ...]
    changelog_partition: int
    task_mode: TaskMode = TaskMode.ACTIVE


class ContainerModel(WireModel):
    """The tasks of one processor. All active or all standby (one container can't mix).

    `location_id` is ours (SAMZA-1554) and never part of Samza's JSON.
    """

    processor_id: str
    tasks: dict[str, TaskModel]
    location_id: str | None = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _accept_container_id(cls, data: object) -> object:
        if not isinstance(data, dict) or "container-id" not in data:
            return cast("object", data)
        given = dict(cast("dict[str, Any]", data))
        old_id: object = given.pop("container-id")
        if given.get("processor-id") is None and isinstance(old_id, int | str):
            given["processor-id"] = str(old_id)
        return given

    @property
    def mode(self) -> TaskMode:
        """Return Standby when every task is a standby task, else Active."""
        if self.tasks and all(t.task_mode is TaskMode.STANDBY for t in self.tasks.values()):
            return TaskMode.STANDBY
        return TaskMode.ACTIVE


class JobModel(WireModel):
    """The config of a job and its containers, by processor id."""

    config: dict[str, str]
    containers: dict[str, ContainerModel]
    max_change_log_stream_partitions: int | None = None

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the active's processor id → it and its standbys."""
        tasks = {pid: container.tasks for pid, container in self.containers.items()}
        standbys = {p for p, c in self.containers.items() if c.mode is TaskMode.STANDBY}
        groups: dict[str, list[str]] = {pid: [pid] for pid in tasks if pid not in standbys}
        for processor_id, active_id in actives(tasks, standbys).items():
            if processor_id in standbys:
                groups.setdefault(active_id, []).append(processor_id)
        return {active_id: tuple(members) for active_id, members in groups.items()}


def actives(tasks: Mapping[str, Iterable[str]], standbys: Set[str]) -> dict[str, str]:
    """Return processor → the active of the same state, which runs the tasks that a standby replicates.

    `tasks` are the names of each processor's tasks, `standbys` the processors of standby tasks.
    If a standby's tasks don't identify its active, its name does.
    """
    runs = {task: pid for pid, names in tasks.items() if pid not in standbys for task in names}
    found = {pid: pid for pid in tasks}
    for processor_id in standbys:
        replicated = (runs.get(active_task_of(task)) for task in tasks[processor_id])
        named = group_of(processor_id)
        found[processor_id] = next(filter(None, replicated), named)
    return found
