"""Events: the inputs of the reducer. Each may arrive twice, late, or out of order.

`at_ms` is the leader's clock: it never goes back within a term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.placement.state import Lag, Limits, PlacementAsk


@dataclass(frozen=True, slots=True)
class JobDeployed:
    """A deployment begins."""

    at_ms: int
    deployment_id: str
    groups: Mapping[str, tuple[str, ...]]  # group → its processors, the active's id first
    last_seen_hosts: Mapping[str, str]
    limits: Limits
    grouping: str = ""  # equal for deployments with the same tasks in each group


@dataclass(frozen=True, slots=True)
class CoordinatorRestarted:
    """A coordinator took over with this state; commands may have been lost after their commit."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """The coordinator read a placement request from Samza's coordinator stream or our own topic."""

    at_ms: int
    ask: PlacementAsk
    # Why no container of the job could start at present; "" when nothing forbids it.
    no_start_because: str = ""


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The coordinator answered and deleted a request without the reducer, in this step's commit.

    The request was unreadable, or its group's queue was full. The refusal is its outcome: a later
    record under its UUID is a duplicate.
    """

    at_ms: int
    uuid: str


@dataclass(frozen=True, slots=True)
class HostRegistered:
    """An agent named every incarnation in its journal, dead ones included.

    The agent follows this coordinator from now on and refuses every earlier one. It reports on
    each incarnation after this event, one by one.
    """

    at_ms: int
    host: str
    execution_ids: frozenset[str]
    fault_domain: str = ""
    journal: str = ""  # the id of the agent's journal; "" is unknown
    boot_id: str = ""  # the id of its machine's boot; "" is unknown


@dataclass(frozen=True, slots=True)
class HostLost:
    """The host's agent was silent for longer than the limit."""

    at_ms: int
    host: str
    # When this leader last answered the agent. Every lease from this leader ends within one lease
    # of that.
    last_grant_ms: int


@dataclass(frozen=True, slots=True)
class ResourceAllocated:
    """The cluster holds the resource on `host`."""

    at_ms: int
    request_id: str
    host: str


@dataclass(frozen=True, slots=True)
class RequestExpired:
    """The cluster couldn't reserve the resource in time; `why` is for a person."""

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
    """The container runs, read its JobModel and sent a heartbeat."""

    at_ms: int
    execution_id: str
    host: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """This incarnation has no process, and never will."""

    at_ms: int
    execution_id: str
    host: str
    why: str


@dataclass(frozen=True, slots=True)
class ContainerStopped:
    """The agent saw the process dead, or answered a stop: it has no such process."""

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
    """Standbys' lags as last measured; standbys that aren't listed keep their last sample."""

    at_ms: int
    lags: tuple[Lag, ...]


@dataclass(frozen=True, slots=True)
class StandbyStalled:
    """A standby's process is alive, but applies nothing while its changelog grows.

    The observer repeats this for as long as it lasts; `why` is for a person.
    """

    at_ms: int
    execution_id: str
    why: str
    for_ms: int = 0  # how long it has lasted


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
