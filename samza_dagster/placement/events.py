"""What happened: the inputs of the heart. Every event may come twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.placement.state import Limits, PlacementAsk


@dataclass(frozen=True)
class JobDeployed:
    """A deployment begins: group → its processors (the active's id first), last known hosts."""

    at_ms: int
    deployment_id: str
    groups: Mapping[str, tuple[str, ...]]
    last_seen_hosts: Mapping[str, str]
    limits: Limits


@dataclass(frozen=True)
class CoordinatorRestarted:
    """A coordinator took over with this state; commands may have been lost after their commit."""

    at_ms: int


@dataclass(frozen=True)
class RequestArrived:
    """A placement request was read from the coordinator stream.

    `no_start_because` says why no container of the job could start at present; empty
    when nothing is known that would keep one from it.
    """

    at_ms: int
    ask: PlacementAsk
    no_start_because: str = ""


@dataclass(frozen=True)
class HostRegistered:
    """An agent named every incarnation that it has on its books, dead ones included."""

    at_ms: int
    host: str
    execution_ids: frozenset[str]


@dataclass(frozen=True)
class HostLost:
    """No word from the host's agent for longer than the lease."""

    at_ms: int
    host: str


@dataclass(frozen=True)
class ResourceAllocated:
    """The cluster holds the resource on `host`."""

    at_ms: int
    request_id: str
    host: str


@dataclass(frozen=True)
class RequestExpired:
    """The cluster couldn't hold it in time; `why` is for a person."""

    at_ms: int
    request_id: str
    why: str


@dataclass(frozen=True)
class ContainerLaunched:
    """The process exists."""

    at_ms: int
    execution_id: str
    host: str


@dataclass(frozen=True)
class ContainerCheckedIn:
    """It runs, read its JobModel and sent a heartbeat."""

    at_ms: int
    execution_id: str
    host: str


@dataclass(frozen=True)
class StartFailed:
    """No process of this incarnation exists, nor will one."""

    at_ms: int
    execution_id: str
    host: str
    why: str


@dataclass(frozen=True)
class ContainerStopped:
    """Its agent saw the process dead."""

    at_ms: int
    execution_id: str
    host: str
    exit_status: int | None


@dataclass(frozen=True)
class StopFailed:
    """The process lives on in spite of SIGKILL."""

    at_ms: int
    execution_id: str
    host: str
    why: str


@dataclass(frozen=True)
class TimePassed:
    """A deadline may have been reached."""

    at_ms: int


Event = (
    JobDeployed
    | CoordinatorRestarted
    | RequestArrived
    | HostRegistered
    | HostLost
    | ResourceAllocated
    | RequestExpired
    | ContainerLaunched
    | ContainerCheckedIn
    | StartFailed
    | ContainerStopped
    | StopFailed
    | TimePassed
)
