"""Where a group's parts lie in ZooKeeper, and how they are written: Samza 1.8's own layout.

What the design document of host affinity (SAMZA-1554) calls `localityData` and `barriers/{version}`
was released as `taskLocality` and `versionBarriers/barrier_{version}`: the released names are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.model import JobModel, SystemStreamPartition, TaskMode
from samza_dagster.model.naming import active_task_of
from samza_dagster.standalone.group import LocalStores, Member, Pin, Running

PROTOCOL_VERSION = "1.0"
_LAYOUT_VERSION = "2.0"
_GENERATION = "jobModelGeneration"
Inputs = tuple[SystemStreamPartition, ...]
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class GroupPaths:
    """The nodes of one job's group, all below `root`."""

    root: str

    @classmethod
    def of(cls, config: Mapping[str, str]) -> GroupPaths:
        """Of a job by its config: `app.name`, `app.id`, `job.name`, `job.id`, as `ZkJobCoordinatorFactory` reads them.

        Raises `InvalidInput` for a job without a name.
        """
        name, job_id = config.get("job.name", ""), config.get("job.id") or "1"
        if not name:
            raise InvalidInput("a group in ZooKeeper", seen="no job.name", fix="set job.name")
        app = f"app-{config.get('app.name') or name}-{config.get('app.id') or job_id}"
        return cls(f"/{app}/{name}-{job_id}-{_LAYOUT_VERSION}-coordinationData")

    @property
    def processors(self) -> str:
        """Below it each registered processor has an ephemeral node, numbered by ZooKeeper."""
        return f"{self.root}/processors"

    @property
    def version(self) -> str:
        """Holds the newest version of the JobModel that was published."""
        return f"{self.root}/{_GENERATION}/jobModelVersion"

    @property
    def agreed_version(self) -> str:
        """Holds the newest version that the group has agreed on."""
        return f"{self.root}/{_GENERATION}/activeJobModelVersion"

    @property
    def models(self) -> str:
        """Below it each version's JobModel, in segments."""
        return f"{self.root}/{_GENERATION}/jobModels"

    @property
    def barriers(self) -> str:
        """Below it each version's barrier."""
        return f"{self.root}/{_GENERATION}/jobModelUpgradeBarrier/versionBarriers"

    @property
    def task_locality(self) -> str:
        """Below it the location of each task, by the task's name."""
        return f"{self.root}/taskLocality"

    @property
    def standby_locality(self) -> str:
        """The same of standby tasks: ours alone, as Samza has none."""
        return f"{self.root}/standbyTaskLocality"

    @property
    def standby_processors(self) -> str:
        """Below it each processor that may hold standbys announces itself: ours alone, as Samza has none."""
        return f"{self.root}/standbyProcessors"

    @property
    def placement(self) -> str:
        """Below it, in a metadata store, placement requests and responses: ours alone, as all that follow."""
        return f"{self.root}/placement"

    @property
    def pins(self) -> str:
        """Below it the location where a task is to be, by the task's name."""
        return f"{self.root}/pins"

    @property
    def restarts(self) -> str:
        """Below it the request by which a processor is to restart its containers, by the processor's id."""
        return f"{self.root}/restarts"

    @property
    def running(self) -> str:
        """Below it each processor's ephemeral node says which version it runs, by its sequence."""
        return f"{self.root}/running"

    def barrier_state(self, version: int) -> str:
        """`NEW`, `DONE` or `TIMED_OUT`."""
        return f"{self.barriers}/barrier_{version}/barrier_state"

    def barrier_participants(self, version: int) -> str:
        """Below it each processor that has joined, by its id."""
        return f"{self.barriers}/barrier_{version}/barrier_participants"


def member_data(processor_id: str, location: str) -> bytes:
    """What a processor's node holds. Raises `InvalidInput` for a space in either: Samza splits there."""
    for name, value in (("processor id", processor_id), ("location", location)):
        if not value or any(character.isspace() for character in value):
            raise InvalidInput(
                f"{name} of a standalone processor", seen=repr(value), fix="a name without spaces"
            )
    return f"{location} {processor_id}".encode()


def member_of(sequence: str, data: bytes) -> Member:
    """Reads a processor's node. Raises `MalformedRecord` for one that isn't of this form."""
    parts = data.decode(errors="replace").split(" ")
    if len(parts) != 2 or not all(parts):
        raise MalformedRecord(
            f"read the processor {sequence}", seen=repr(data), fix="<host name> <processor id>"
        )
    return Member(sequence, parts[1], parts[0])


def announcement_data(processor_id: str, stores: LocalStores) -> bytes:
    """What a processor of ours says of itself; Samza's own node for it has no place for more."""
    found = {"processor_id": processor_id, **stores._asdict()}
    return json.dumps(found).encode()


def announcement_of(data: bytes) -> tuple[str, LocalStores]:
    """The processor's id and its stores. Raises `MalformedRecord` for what isn't of this form."""

    def read(found: dict[str, Any]) -> tuple[str, LocalStores]:
        stores = (tuple(map(str, found[name])) for name in LocalStores._fields)
        return str(found["processor_id"]), LocalStores(*stores)

    return _read("what a processor says of itself", data, read)


def model_data(model: JobModel) -> bytes:
    """A version's JobModel as it is published: standby tasks without their inputs, which are their actives'.

    Samza's leader counts the partitions of the last version (SEP-5): with inputs there twice it
    takes a topic for one that has lost half of its partitions, and ends.
    """
    return _with_inputs(model, lambda _: ()).to_json().encode()


def model_of(data: bytes) -> JobModel:
    """Reads what `model_data` wrote, or Samza's leader. Raises `MalformedRecord`."""
    model = JobModel.from_json(data)
    inputs = {
        name: task.system_stream_partitions
        for container in model.containers.values()
        for name, task in container.tasks.items()
        if task.task_mode is TaskMode.ACTIVE
    }
    return _with_inputs(model, lambda name: inputs.get(active_task_of(name), ()))


def _with_inputs(model: JobModel, of_standby: Callable[[str], Inputs]) -> JobModel:
    containers = {
        processor_id: container.model_copy(
            update={
                "tasks": {
                    name: task
                    if task.task_mode is TaskMode.ACTIVE
                    else task.model_copy(update={"system_stream_partitions": of_standby(name)})
                    for name, task in container.tasks.items()
                }
            }
        )
        for processor_id, container in model.containers.items()
    }
    return model.model_copy(update={"containers": containers})


def version_of(data: bytes | None) -> int:
    """A version as its node holds it; 0 without one. Raises `MalformedRecord` for no number."""
    if not data:
        return 0
    text = data.decode(errors="replace")
    if not text.isascii() or not text.isdigit():
        raise MalformedRecord("read a version of the JobModel", seen=repr(text), fix="a number")
    return int(text)


def pin_data(pin: Pin) -> bytes:
    """What the node of a pinned task holds."""
    return json.dumps(pin._asdict()).encode()


def pin_of(task: str, data: bytes | None) -> Pin:
    """Reads a pin. Raises `MalformedRecord` for one that isn't of this form."""
    return _read(
        f"the pin of {task}", data, lambda found: Pin(str(found["location"]), str(found["uuid"]))
    )


def restart_data(uuid: str) -> bytes:
    """What the node of a processor that is to be restarted holds."""
    return json.dumps({"uuid": uuid}).encode()


def restart_of(processor_id: str, data: bytes | None) -> str:
    """The request by which a processor is to be restarted. Raises `MalformedRecord` as `pin_of`."""
    return _read(f"the restart of {processor_id}", data, lambda found: str(found["uuid"]))


def running_data(running: Running) -> bytes:
    """What a processor says that runs its part of a version."""
    return json.dumps(running._asdict()).encode()


def running_of(sequence: str, data: bytes | None) -> Running:
    """Reads that. Raises `MalformedRecord` as `pin_of`."""

    def read(found: dict[str, Any]) -> Running:
        restart, silent_ms = found["restart"], found["silent_ms"]
        return Running(
            int(found["version"]),
            None if restart is None else str(restart),
            None if silent_ms is None else int(silent_ms),
            str(found.get("trouble", "")),
        )

    return _read(f"what the processor {sequence} runs", data, read)


def _read(what: str, data: bytes | None, read: Callable[[dict[str, Any]], _Read]) -> _Read:
    try:
        return read(json.loads(data or b""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedRecord(
            f"read {what}", seen=repr(data), fix="a JSON object as a processor writes it"
        ) from error
