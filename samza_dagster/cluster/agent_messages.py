"""The sync message of an agent, read on the coordinator's side.

See `docs/reference/agent-protocol.md`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from samza_dagster.cluster.interface import ContainerLaunch, ObservedContainer
from samza_dagster.errors import InvalidInput
from samza_dagster.model.placement_messages import HOST_LENGTH_MAX

VERSION = 1

Name = Annotated[str, Field(min_length=1, max_length=500)]
HostName = Annotated[str, Field(min_length=1, max_length=HOST_LENGTH_MAX)]
Amount = Annotated[int, Field(ge=0, le=10**9)]
Free = Annotated[int, Field(ge=-(10**9), le=10**9)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""What every reader of JSON takes exactly."""
LONGEST_WHY = 2_000


def _shortened(value: object) -> object:
    """Return the beginning of a reason: brokers limit the size of the records that contain it."""
    return value[:LONGEST_WHY] if isinstance(value, str) else value


Why = Annotated[str, BeforeValidator(_shortened)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Resources(_Message):
    """Resources of a host, in all and free; memory in MiB."""

    memory_mb: Amount
    cores: Amount
    free_memory_mb: Free
    free_cores: Free


class ReportedReservation(_Message):
    """A reservation for a request.

    `execution_id` once an incarnation uses it, `hold` where an engine holds it.
    """

    request_id: Name
    memory_mb: Amount
    cores: Amount
    execution_id: Name | None = None
    hold: Name | None = None


class ReportedContainer(_Message):
    """An incarnation in an agent's journal."""

    execution_id: Name
    processor_id: Name
    state: Annotated[str, Field(max_length=500)]
    pid: Count | None = None
    released: bool = False
    checked_in: bool = False
    exit_status: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    why: Why = ""
    stop_failed: Why = ""

    def observed(self) -> ObservedContainer:
        """Return it as the cluster's interface names it."""
        return ObservedContainer(
            execution_id=self.execution_id,
            processor_id=self.processor_id,
            state=self.state,
            pid=self.pid,
            checked_in=self.checked_in,
            exit_status=self.exit_status,
        )


class ReportedParked(_Message):
    """A container that was launched for a reservation and waits for its start.

    `ready` once its JVM asks for its JobModel.
    """

    execution_id: Name
    request_id: Name
    ready: bool = False


class Acknowledgement(_Message):
    """The outcome of a command: done, or why it wasn't."""

    id: Name
    ok: bool
    why: Why = ""


class Sync(_Message):
    """A whole report of an agent: its identity, its containers and its acknowledgements."""

    version: int
    host: HostName
    boot_id: Name
    instance: Name
    began_ms: Count
    sequence: Count
    wait_ms: Annotated[int, Field(ge=0, le=600_000)] = 0
    highest_epoch: Count = 0
    losses: Count
    fault_domain: Annotated[str, Field(max_length=500)] = ""
    journal: Name
    resources: Resources
    reservations: Annotated[list[ReportedReservation], Field(max_length=10_000)] = []
    containers: Annotated[list[ReportedContainer], Field(max_length=10_000)] = []
    parked: Annotated[list[ReportedParked], Field(max_length=10_000)] = []
    acknowledged: Annotated[list[Acknowledgement], Field(max_length=20_000)] = []


def parse_sync(body: bytes) -> Sync:
    """Parse a report. Raises `InvalidInput` that names the first unusable field."""
    try:
        sync = Sync.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole message)"
        raise InvalidInput("read an agent's sync", seen=f"field {field}: {first['msg']}") from error
    if abs(sync.version - VERSION) > 1:
        raise InvalidInput(
            "talk with an agent",
            seen=f"its protocol version {sync.version}, ours is {VERSION}",
            fix="an agent whose version is at most one away",
        )
    return sync


def launch_to_wire(launch: ContainerLaunch) -> dict[str, object]:
    """Return the `launch` object of a start command, or of a reserve, which has no JobModel."""
    model = {"job_model_json": launch.job_model_json} if launch.job_model_json else {}
    return {
        "execution_id": launch.execution_id,
        "processor_id": launch.processor_id,
        "command": list(launch.command),
        "environment": dict(launch.environment),
        **model,
        "store_directories": list(launch.store_directories),
        "stop_grace_s": launch.stop_grace_s,
        "files": dict(launch.files),
    }
