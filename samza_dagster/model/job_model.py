"""JobModel, ContainerModel and TaskModel: which processor runs which task.

The JSON is Samza's own (`SamzaObjectMapper`): names with hyphens, absent fields
left absent. Readers accept what older releases wrote: no `task-mode` (Active), no
`keyBucket` (-1), `container-id` beside or instead of `processor-id`.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from samza_dagster.errors import MalformedRecord


class TaskMode(StrEnum):
    """The role of a task: it processes, or it only keeps the state warm."""

    ACTIVE = "Active"
    STANDBY = "Standby"


class WireModel(BaseModel):
    """Immutable model whose field aliases are Samza's JSON names."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore")

    def to_wire(self) -> dict[str, Any]:
        """The JSON object as Samza writes it; absent optional fields stay absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_json(self) -> str:
        """The JSON text as Samza writes it, without spaces."""
        return json.dumps(self.to_wire(), separators=(",", ":"), ensure_ascii=False)


class SystemStreamPartition(WireModel):
    """One partition of one stream of one system; `key_bucket` -1 is the whole of it."""

    system: str
    stream: str
    partition: int = Field(ge=0)
    key_bucket: int = Field(default=-1, alias="keyBucket")


class TaskModel(WireModel):
    """One task: its inputs, its changelog partition, its mode."""

    task_name: str = Field(alias="task-name")
    system_stream_partitions: tuple[SystemStreamPartition, ...] = Field(
        alias="system-stream-partitions"
    )
    changelog_partition: int = Field(alias="changelog-partition")
    task_mode: TaskMode = Field(default=TaskMode.ACTIVE, alias="task-mode")


class ContainerModel(WireModel):
    """The tasks of one processor. All active or all standby (one container can't mix).

    `location_id` is ours (SAMZA-1554) and never part of Samza's JSON.
    """

    processor_id: str = Field(alias="processor-id")
    tasks: dict[str, TaskModel]
    location_id: str | None = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _accept_container_id(cls, data: Any) -> Any:
        if isinstance(data, dict) and "container-id" in data:
            given: dict[str, Any] = {k: v for k, v in data.items() if k != "container-id"}  # pyright: ignore[reportUnknownVariableType]
            if given.get("processor-id") is None:
                given["processor-id"] = str(data["container-id"])  # pyright: ignore[reportUnknownArgumentType]
            return given
        return data  # pyright: ignore[reportUnknownVariableType]

    @property
    def mode(self) -> TaskMode:
        """Standby when every task is a standby task, else Active."""
        if self.tasks and all(t.task_mode is TaskMode.STANDBY for t in self.tasks.values()):
            return TaskMode.STANDBY
        return TaskMode.ACTIVE


class JobModel(WireModel):
    """The config of a job and its containers, by processor id."""

    config: dict[str, str]
    containers: dict[str, ContainerModel]
    max_change_log_stream_partitions: int | None = Field(
        default=None, alias="max-change-log-stream-partitions"
    )

    @classmethod
    def from_json(cls, text: str | bytes) -> JobModel:
        """Reads a JobModel as Samza serves it.

        Raises `MalformedRecord` that names the first field that can't be read.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "(whole document)"
            raise MalformedRecord(
                "read a JobModel",
                seen=f"field {field}: {first['msg']}",
                fix="a JobModel as Samza writes it",
            ) from error
