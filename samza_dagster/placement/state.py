"""The state of a job's placement: plain frozen data, nothing else.

Times are milliseconds since the epoch, given by events; the heart has no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """Where a processor is between wanted and running."""

    WAITING = "waiting"  # nothing is asked for yet: its turn to start hasn't come
    REQUESTING = "requesting"  # a resource is requested, no process exists
    STARTING = "starting"  # a start was commanded, the container hasn't checked in
    RUNNING = "running"
    STOPPING = "stopping"


class Role(StrEnum):
    """Active processes input; standby only applies the changelog."""

    ACTIVE = "Active"
    STANDBY = "Standby"


@dataclass(frozen=True)
class Incarnation:
    """One start of a container. `epoch` grows over the job's whole life."""

    epoch: int
    execution_id: str
    host: str
    request_id: str


@dataclass(frozen=True)
class ResourceRequest:
    """A resource asked of the cluster; `host` None is any host not excluded."""

    request_id: str
    host: str | None
    excluded_hosts: tuple[str, ...]
    deadline_ms: int
    allocated_host: str | None = None


@dataclass(frozen=True)
class Processor:
    """One container of the job, wanted running.

    `incarnation` is set from the start command until its process was seen dead, so
    its host stays taken for that long. `deadline_ms` is when a start must have
    checked in, or when an unanswered stop is asked again. `attempts` counts tries
    since the last check-in, `failures` all of the job's life. `avoid_host` is where
    the last start failed. A processor not `wanted` is removed once it is dead.
    """

    processor_id: str
    role: Role
    phase: Phase
    incarnation: Incarnation | None = None
    last_seen_host: str | None = None
    request: ResourceRequest | None = None
    failures: int = 0
    attempts: int = 0
    deadline_ms: int | None = None
    waiting_since_ms: int = 0
    not_before_ms: int = 0
    avoid_host: str | None = None
    wanted: bool = True


class Stage(StrEnum):
    """Where a placement action stands."""

    RESERVING = "reserving"
    STOPPING = "stopping"
    STARTING = "starting"
    FALLBACK_SOURCE = "fallback-source"
    FALLBACK_ANY = "fallback-any"


@dataclass(frozen=True)
class PlacementAsk:
    """A request as the heart sees it; `expiry_ms` None means the job's default."""

    uuid: str
    deployment_id: str
    processor_id: str
    destination_host: str
    timestamp_ms: int
    expiry_ms: int | None = None


@dataclass(frozen=True)
class Action:
    """The one action in flight of a group.

    `status`, `message` and `response_ms` are the last response written. A fallback
    stage comes after FAILED: it keeps the group's lock until the container runs.
    """

    ask: PlacementAsk
    stage: Stage
    source_host: str | None
    reservation: ResourceRequest | None = None
    status: str = ""
    message: str = ""
    response_ms: int = 0


@dataclass(frozen=True)
class Group:
    """An active and its standbys: one lock, one queue in order of request timestamp."""

    group_id: str
    processors: Mapping[str, Processor]
    action: Action | None = None
    queue: tuple[PlacementAsk, ...] = ()
    sequence: int = 0


@dataclass(frozen=True)
class Host:
    """A host that an agent registered."""

    host: str
    alive: bool = True


@dataclass(frozen=True)
class Limits:
    """Bounds of a job. Times in ms; memory in MiB per container."""

    container_memory_mb: int = 384
    container_cores: int = 1
    request_timeout_ms: int = 5_000
    start_timeout_ms: int = 60_000
    max_concurrent_starts: int = 2
    max_concurrent_actions: int = 8
    remembered_uuids: int = 20_000
    host_affinity: bool = True


@dataclass(frozen=True)
class JobState:
    """Everything that a decision may depend on."""

    job: str
    deployment_id: str = ""
    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    hosts: Mapping[str, Host] = field(default_factory=dict[str, Host])
    limits: Limits = Limits()
    next_epoch: int = 1
    next_request: int = 1
    now_ms: int = 0
    uuids: tuple[str, ...] = ()
