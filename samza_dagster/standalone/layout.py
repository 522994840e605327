"""The paths and formats of a group in ZooKeeper: Samza 1.8's own layout.

What the design document of host affinity (SAMZA-1554) calls `localityData` and `barriers/{version}`
was released as `taskLocality` and `versionBarriers/barrier_{version}`: the released names are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from samza_dagster.assignment.comparison import actives_of
from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.model import JobModel, SystemStreamPartition, TaskMode, TaskModel
from samza_dagster.model.naming import active_task_of
from samza_dagster.standalone.group import LocalStores, Member, Pin, Running

PROTOCOL_VERSION = "1.0"
_LAYOUT_VERSION = "2.0"
Inputs = tuple[SystemStreamPartition, ...]
_Read = TypeVar("_Read")


class GroupPaths:
    """The nodes of one job's group, all below `root`.

    Of Samza: below `processors` each registered processor has an ephemeral node, numbered by
    ZooKeeper. `version` holds the newest version of the JobModel that was published,
    `agreed_version` the newest that the group has agreed on. Each version has its JobModel below
    `models`, in segments, and its barrier below `barriers`. `task_locality` has each task's
    location.

    Ours alone: `standby_locality` has that of standby tasks. Below `standby_processors` each processor that
    may hold standbys announces itself. `placement` is a metadata store with placement requests and
    responses. `pins` has the location where a task is to be, `restarts` the request by which a processor is
    to restart its containers. Below `running` each processor's ephemeral node, by its sequence, says which
    version it runs.
    """

    def __init__(self, root: str) -> None:
        generation = f"{root}/jobModelGeneration"
        self.root = root
        self.processors = f"{root}/processors"
        self.version = f"{generation}/jobModelVersion"
        self.agreed_version = f"{generation}/activeJobModelVersion"
        self.models = f"{generation}/jobModels"
        self.barriers = f"{generation}/jobModelUpgradeBarrier/versionBarriers"
        self.task_locality = f"{root}/taskLocality"
        self.standby_locality = f"{root}/standbyTaskLocality"
        self.standby_processors = f"{root}/standbyProcessors"
        self.placement = f"{root}/placement"
        self.pins = f"{root}/pins"
        self.restarts = f"{root}/restarts"
        self.running = f"{root}/running"

    @classmethod
    def of(cls, config: Mapping[str, str]) -> GroupPaths:
        """Return the paths of a job by its config, as `ZkJobCoordinatorFactory` reads names and ids.

        Raises `InvalidInput` for a job without a name.
        """
        name, job_id = config.get("job.name", ""), config.get("job.id") or "1"
        if not name:
            raise InvalidInput("a group in ZooKeeper", seen="no job.name", fix="set job.name")
        app = f"app-{config.get('app.name') or name}-{config.get('app.id') or job_id}"
        return cls(f"/{app}/{name}-{job_id}-{_LAYOUT_VERSION}-coordinationData")

    def barrier_state(self, version: int) -> str:
        """Return the node with `NEW`, `DONE` or `TIMED_OUT`."""
        return f"{self.barriers}/barrier_{version}/barrier_state"

    def barrier_participants(self, version: int) -> str:
        """Return the node that has each joined processor below it, by its id."""
        return f"{self.barriers}/barrier_{version}/barrier_participants"


def member_data(processor_id: str, location: str) -> bytes:
    """Return the data of a processor's node.

    Raises `InvalidInput` for a space in either: Samza splits there.
    """
    for name, value in (("processor id", processor_id), ("location", location)):
        if not value or any(character.isspace() for character in value):
            raise InvalidInput(
                f"{name} of a standalone processor", seen=repr(value), fix="a name without spaces"
            )
    return f"{location} {processor_id}".encode()


def member_of(sequence: str, data: bytes) -> Member:
    """Read a processor's node. Raises `MalformedRecord` for one that isn't of this form."""
    parts = data.decode(errors="replace").split(" ")
    if len(parts) != 2 or not all(parts):
        raise MalformedRecord(
            f"read the processor {sequence}", seen=repr(data), fix="<host name> <processor id>"
        )
    return Member(sequence, parts[1], parts[0])


def announcement_data(processor_id: str, stores: LocalStores) -> bytes:
    """Return the announcement of a processor of ours.

    Samza's own node for it has no place for more.
    """
    return document_data({"processor_id": processor_id, **stores._asdict()})


def announcement_of(data: bytes) -> tuple[str, LocalStores]:
    """Parse an announcement: the processor's id and its stores. Raises `MalformedRecord`."""

    def read(found: dict[str, Any]) -> tuple[str, LocalStores]:
        stores = (tuple(map(str, found[name])) for name in LocalStores._fields)
        return str(found["processor_id"]), LocalStores(*stores)

    return _read("what a processor says of itself", data, read)


def model_data(model: JobModel) -> bytes:
    """Return the published form of a JobModel: standby tasks without their actives' inputs.

    Samza's leader counts the partitions of the last version (SEP-5): with inputs there twice it
    takes a topic for one that has lost half of its partitions, and ends.
    """
    return _with_inputs(model, lambda _: ()).to_json().encode()


def model_of(data: bytes) -> JobModel:
    """Read what `model_data` wrote, or Samza's leader. Raises `MalformedRecord`."""
    model = JobModel.from_json(data)
    inputs = {each.task_name: each.system_stream_partitions for each in actives_of(model)}
    return _with_inputs(model, lambda name: inputs.get(active_task_of(name), ()))


def _with_inputs(model: JobModel, of_standby: Callable[[str], Inputs]) -> JobModel:
    def read(name: str, task: TaskModel) -> TaskModel:
        is_active, inputs = task.task_mode is TaskMode.ACTIVE, of_standby(name)
        return task if is_active else task.model_copy(update={"system_stream_partitions": inputs})

    containers = {
        pid: each.model_copy(update={"tasks": {n: read(n, t) for n, t in each.tasks.items()}})
        for pid, each in model.containers.items()
    }
    return model.model_copy(update={"containers": containers})


def version_of(data: bytes | None) -> int:
    """Parse a version's node; 0 without one. Raises `MalformedRecord` for no number."""
    if not data:
        return 0
    text = data.decode(errors="replace")
    if not text.isascii() or not text.isdigit():
        raise MalformedRecord("read a version of the JobModel", seen=repr(text), fix="a number")
    return int(text)


def document_data(document: Mapping[str, object]) -> bytes:
    """Return the node's data for a pinned task, a processor to restart, or what a processor runs."""
    return json.dumps(document).encode()


def pin_of(task: str, data: bytes | None) -> Pin:
    """Read a pin. Raises `MalformedRecord` for one that isn't of this form."""
    return _read(
        f"the pin of {task}", data, lambda found: Pin(str(found["location"]), str(found["uuid"]))
    )


def restart_of(processor_id: str, data: bytes | None) -> str:
    """Read the request that restarts a processor. Raises `MalformedRecord` as `pin_of`."""
    return _read(f"the restart of {processor_id}", data, lambda found: str(found["uuid"]))


def running_of(sequence: str, data: bytes | None) -> Running:
    """Read a processor's report of what it runs. Raises `MalformedRecord` as `pin_of`."""

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
