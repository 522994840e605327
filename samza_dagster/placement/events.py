"""What happened: the inputs of the reducer. Every event may come twice, late, or out of order.

`at_ms` is the leader's clock: it never goes back within a term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.placement.state import Lag, Limits, PlacementAsk


@dataclass(frozen=True, slots=True)
class JobDeployed:
    """A deployment begins: group → its processors (the active's id first), last known hosts.

    `grouping` is equal for deployments whose groups have the same tasks.
    """

    at_ms: int
    deployment_id: str
    groups: Mapping[str, tuple[str, ...]]
    last_seen_hosts: Mapping[str, str]
    limits: Limits
    grouping: str = ""


@dataclass(frozen=True, slots=True)
class CoordinatorRestarted:
    """A coordinator took over with this state; commands may have been lost after their commit."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A placement request was read from the coordinator stream or from our own topic.

    `no_start_because` says why no container of the job could start at present; empty
    when nothing is known that would keep one from it.
    """

    at_ms: int
    ask: PlacementAsk
    no_start_because: str = ""


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A request was answered and deleted without the reducer, in the commit of this step.

    It couldn't be read, or its group's queue had no room. That is its outcome: whatever
    comes under its UUID later is a duplicate.
    """

    at_ms: int
    uuid: str


@dataclass(frozen=True, slots=True)
class HostRegistered:
    """An agent named every incarnation that it has in its journal, dead ones included.

    It follows this coordinator from now on and refuses every earlier one. What it
    knows of each incarnation is reported after this, one by one. `journal` is the id of
    that journal, `boot_id` of its machine's boot; "" is unknown.
    """

    at_ms: int
    host: str
    execution_ids: frozenset[str]
    fault_domain: str = ""
    journal: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class HostLost:
    """No word from the host's agent for longer than the limit.

    `last_grant_ms` is when this leader last answered it: every lease that the host
    has of this leader ends within one lease of that.
    """

    at_ms: int
    host: str
    last_grant_ms: int


@dataclass(frozen=True, slots=True)
class ResourceAllocated:
    """The cluster holds the resource on `host`."""

    at_ms: int
    request_id: str
    host: str


@dataclass(frozen=True, slots=True)
class RequestExpired:
    """The cluster couldn't hold it in time; `why` is for a person."""

    at_ms: int
    request_id: str
    why: str


@dataclass(frozen=True, slots=True)
class ContainerLaunched:
    """The process exists."""

    at_ms: int
    execution_id: str
    host: str


@dataclass(frozen=True, slots=True)
class ContainerCheckedIn:
    """It runs, read its JobModel and sent a heartbeat."""

    at_ms: int
    execution_id: str
    host: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """No process of this incarnation exists, nor will one."""

    at_ms: int
    execution_id: str
    host: str
    why: str


@dataclass(frozen=True, slots=True)
class ContainerStopped:
    """Its agent saw the process dead, or answered a stop: it has no such process."""

    at_ms: int
    execution_id: str
    host: str
    exit_status: int | None


@dataclass(frozen=True, slots=True)
class StopFailed:
    """The process lives on in spite of SIGKILL."""

    at_ms: int
    execution_id: str
    host: str
    why: str


@dataclass(frozen=True, slots=True)
class PrincipalFenced:
    """The brokers acknowledged that they refuse this incarnation's principal."""

    at_ms: int
    execution_id: str


@dataclass(frozen=True, slots=True)
class LagObserved:
    """How far standbys are behind, as last measured; others keep their last sample."""

    at_ms: int
    lags: tuple[Lag, ...]


@dataclass(frozen=True, slots=True)
class StandbyStalled:
    """A standby's process is alive, but it applies nothing while its changelog grows.

    Said again for as long as it is so; `why` is for a person, `for_ms` how long it has been.
    """

    at_ms: int
    execution_id: str
    why: str
    for_ms: int = 0


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline may have been reached."""

    at_ms: int


Event = (
    JobDeployed
    | CoordinatorRestarted
    | RequestArrived
    | RequestRefused
    | HostRegistered
    | HostLost
    | ResourceAllocated
    | RequestExpired
    | ContainerLaunched
    | ContainerCheckedIn
    | StartFailed
    | ContainerStopped
    | StopFailed
    | PrincipalFenced
    | LagObserved
    | StandbyStalled
    | TimePassed
)
