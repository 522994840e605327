"""The state of a job's placement: plain frozen data, nothing else.

Times are milliseconds of the leader's clock, from events; the reducer has no clock. Within one
term that clock never goes back. Between terms it may jump, so nothing stored is compared with it
before `CoordinatorRestarted` has renewed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, cast

from rpds import HashTrieMap

from samza_dagster.lag import GOOD_FOR_MS
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.index import EMPTY, Index


class Evolving:
    """A record with `evolve`."""

    __slots__ = ()

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; raise `TypeError` for an unknown field."""
        return replace(cast("Any", self), **changes)


class Phase(StrEnum):
    """The phases of a processor, from wanted to running."""

    WAITING = "waiting"  # nothing is requested yet: its turn to start hasn't come
    REQUESTING = "requesting"  # a resource is requested, no process exists
    RESERVED = "reserved"  # the resource is held, the predecessor isn't known dead yet
    STARTING = "starting"  # a start was commanded, the container hasn't checked in
    RUNNING = "running"
    STOPPING = "stopping"


class Role(StrEnum):
    """Active processes input; standby only applies the changelog."""

    ACTIVE = "Active"
    STANDBY = "Standby"


class Ended(StrEnum):
    """The three ways in which an incarnation loses its tasks (invariant 3)."""

    DEAD = "dead"  # its agent saw the process dead, or the journal of its start lacks it
    FENCED = "fenced"  # the brokers refuse its principal
    LEASE = "lease"  # its lease has run out, by the leader's clock


class Fencing(StrEnum):
    """The means that takes the tasks from an incarnation that wasn't seen dead."""

    LEASE = "lease"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Incarnation(Evolving):
    """A start of a container."""

    epoch: int  # grows over the job's whole life
    execution_id: str
    host: str
    request_id: str
    journal: str = ""  # the journal of the agent that started it (`Host.journal`)
    boot_id: str = ""  # the boot of its machine (`Host.boot_id`)


@dataclass(frozen=True, slots=True)
class End(Evolving):
    """The end of a processor's last incarnation, for the next one's certificate."""

    execution_id: str
    epoch: int
    host: str
    how: Ended
    at_ms: int
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRequest(Evolving):
    """A request to the cluster for a resource."""

    request_id: str
    host: str | None  # None for any host that isn't excluded
    excluded_hosts: tuple[str, ...]
    deadline_ms: int
    allocated_host: str | None = None
    # False after a restart of the host or the coordinator, until the cluster reports again that the
    # allocated resource is held.
    confirmed: bool = True
    # The host's first refusal ends the request: a standby is ready, so don't wait for room.
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Processor(Evolving):
    """A container of the job."""

    processor_id: str
    role: Role
    phase: Phase
    # Set from the start command until the process was seen dead or the host was lost.
    incarnation: Incarnation | None = None
    last_seen_host: str | None = None
    request: ResourceRequest | None = None
    failures: int = 0  # over the job's life
    attempts: int = 0  # tries since the last check-in
    failed_at_ms: tuple[int, ...] = ()  # failures within the retry window
    # When a start must have checked in, or an unanswered stop is repeated.
    deadline_ms: int | None = None
    waiting_since_ms: int = 0
    not_before_ms: int = 0
    # Hosts where starts failed since the last check-in, or where it stalled; newest last.
    avoid_hosts: tuple[str, ...] = ()
    wanted: bool = True  # a processor that isn't wanted is removed once it is dead
    extra: bool = False  # a standby that was started on request
    last_end: End | None = None
    stalled_at_ms: tuple[int, ...] = ()  # when a standby was stopped because it stalled, in a row
    # The start's deadline while the start is being stopped, until it checks in.
    start_deadline_ms: int | None = None
    # An active has failed since it ran, and no failover to any host was counted for that.
    unplaced: bool = False
    sought: tuple[str, ...] = ()  # the standbys that an active has tried to displace since it ran


@dataclass(frozen=True, slots=True)
class Orphan(Evolving):
    """An incarnation on a host that fell silent, alive or dead.

    Until it is seen dead, no member of its group starts on that host. Until it `ended` (dead,
    fenced, or past `lease_ends_ms`), its processor starts nowhere.
    """

    processor_id: str
    incarnation: Incarnation
    lost_at_ms: int
    lease_ends_ms: int | None  # None once its host has registered again and renews its lease
    ran: bool  # it had checked in
    fencing: bool = False  # its fence was commanded, so it can't be taken back
    ended: Ended | None = None
    # The known end of its processor's newest incarnation, for a start after the processor was
    # removed.
    end: End | None = None
    elsewhere: bool = False  # another machine registered last under its host's name

    @property
    def left_behind(self) -> bool:
        """Return whether it owns nothing and isn't on the machine that has its host's name now."""
        # It may live on where it is, and stays fenced if it was. Its group is free of it.
        return self.elsewhere and self.ended is not None


@dataclass(frozen=True, slots=True)
class PlacementAsk(Evolving):
    """A request in the reducer's form."""

    uuid: str
    deployment_id: str
    processor_id: str
    destination_host: str
    timestamp_ms: int
    expiry_ms: int | None = None  # None for the job's default
    kind: RequestKind = RequestKind.PLACE
    # The held resource of a `place` waits for a `commit`, for `expiry_ms` at most.
    hold: bool = False
    refers_to: str = ""  # the request that a commit, release or cancel is about
    own: bool = False  # arrived through our own topic, and is answered there
    execution_id: str = ""  # the incarnation that a fail-over is about; "" for any


class Stage(StrEnum):
    """The stages of a placement action."""

    RESERVING_STANDBY = "reserving-standby"  # a new place for the standby that gives way
    STOPPING_STANDBY = "stopping-standby"
    RESERVING = "reserving"
    HELD = "held"  # reserved, and waits for its commit
    STOPPING = "stopping"
    STARTING = "starting"
    FALLBACK_SOURCE = "fallback-source"
    FALLBACK_ANY = "fallback-any"


@dataclass(frozen=True, slots=True)
class StandbyPlace(Evolving):
    """The host with a standby's state, which the standby leaves to its active."""

    standby_id: str
    host: str


@dataclass(frozen=True, slots=True)
class InFlight(Evolving):
    """The fields that every action has."""

    ask: PlacementAsk
    # Processors that were stopped for it, without those known to live on.
    stopped: tuple[str, ...] = field(default=(), kw_only=True)
    message: str = field(default="", kw_only=True)  # the text of the last response
    response_ms: int = field(default=0, kw_only=True)  # the time of the last response


@dataclass(frozen=True, slots=True)
class Swap(InFlight):
    """A standby gives way to its active, which runs on until then; a `Move` there follows."""

    source_host: str  # the active's host
    place: StandbyPlace
    # A new place for the standby, held before the standby stops. None for a fail-over.
    request: ResourceRequest | None

    @property
    def stage(self) -> Stage:
        """Return the stage that responses and views name."""
        reserves = self.request is not None and self.request.allocated_host is None
        return Stage.RESERVING_STANDBY if reserves else Stage.STOPPING_STANDBY

    @property
    def chosen_host(self) -> str | None:
        """Return the standby's new host, once it is held."""
        return None if self.request is None else self.request.allocated_host


@dataclass(frozen=True, slots=True)
class Move(InFlight):
    """A container's destination is reserved, and held for a commit on request.

    The container then stops, and a `Start` follows.
    """

    source_host: str
    request: ResourceRequest
    # The place of a standby that has given way, when that is the destination.
    place: StandbyPlace | None = None
    chosen_host: str | None = None  # the host that the cluster chose for this action among several
    committed: bool = False

    @property
    def stage(self) -> Stage:
        """Return the stage that responses and views name."""
        if self.request.allocated_host is None:
            return Stage.RESERVING
        return Stage.STOPPING if self.ask.processor_id in self.stopped else Stage.HELD


@dataclass(frozen=True, slots=True)
class Restart(InFlight):
    """A container stops with nothing reserved; a `Start` on its own host follows."""

    source_host: str

    stage: ClassVar[Stage] = Stage.STOPPING


@dataclass(frozen=True, slots=True)
class Start(InFlight):
    """A container that is down starts where its action or its fail-over leads it."""

    source_host: str | None  # the host where it ran, if known
    place: StandbyPlace | None = None
    chosen_host: str | None = None

    stage: ClassVar[Stage] = Stage.STARTING


@dataclass(frozen=True, slots=True)
class Fallback(InFlight):
    """The action has FAILED with its container down: the group is locked until that runs."""

    source_host: str | None
    to_source: bool  # the destination is `source_host`, else any host

    @property
    def stage(self) -> Stage:
        """Return the stage that responses and views name."""
        return Stage.FALLBACK_SOURCE if self.to_source else Stage.FALLBACK_ANY


@dataclass(frozen=True, slots=True)
class SpinUp(InFlight):
    """The start of one more standby; the standby is a member once its `request` is held."""

    standby_id: str
    request: ResourceRequest | None
    chosen_host: str | None = None

    @property
    def stage(self) -> Stage:
        """Return the stage that responses and views name."""
        return Stage.STARTING if self.request is None else Stage.RESERVING


@dataclass(frozen=True, slots=True)
class StopStandby(InFlight):
    """The stop of a standby for good."""

    source_host: str | None
    stopping_already: bool  # the standby was being stopped before, for another reason

    stage: ClassVar[Stage] = Stage.STOPPING


Moving = Swap | Move | Restart | Start
"""Actions that move a container, or restart it on its host."""
Action = Moving | Fallback | SpinUp | StopStandby
"""The action in flight of a group, one class per step."""


def request_of(action: Action | None) -> ResourceRequest | None:
    """Return an action's open or held resource; the request of its processor doesn't count."""
    return action.request if isinstance(action, (Swap, Move, SpinUp)) else None


def claimant_of(action: Swap | Move | SpinUp) -> str:
    """Return the processor that an action's request is for."""
    match action:
        case Swap():
            return action.place.standby_id
        case SpinUp():
            return action.standby_id
        case Move():
            return action.ask.processor_id


def subject_of(action: Action) -> str:
    """Return the processor that an action starts or stops in the end."""
    return action.standby_id if isinstance(action, SpinUp) else action.ask.processor_id


@dataclass(frozen=True, slots=True)
class Failover(Evolving):
    """An active on its way to the host of one of its standbys, which gives way."""

    active_id: str
    standby_id: str
    host: str
    since_ms: int
    why: str
    tried: tuple[str, ...] = ()  # the standbys that it has tried to displace since it went down


@dataclass(frozen=True, slots=True)
class Group(Evolving):
    """An active and its standbys: one lock, one queue in order of request timestamp."""

    group_id: str
    processors: Mapping[str, Processor]
    action: Action | None = None
    queue: tuple[PlacementAsk, ...] = ()
    failover: Failover | None = None
    orphans: tuple[Orphan, ...] = ()
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Host(Evolving):
    """A host that an agent registered."""

    host: str
    alive: bool = True  # as last known
    registered: bool = True  # with this coordinator
    # The begin of the wait for a registration; the host is lost after the limit.
    silent_since_ms: int = 0
    fault_domain: str = ""  # hosts of one domain may fail together; "" is unknown
    journal: str = ""  # the id of its agent's journal; "" until it has registered
    boot_id: str = ""  # the id of its machine's boot; "" until it has registered


@dataclass(frozen=True, slots=True)
class Lag(Evolving):
    """How far a standby is behind."""

    processor_id: str
    records: int | None
    ready_in_ms: int | None  # a forecast; None when there is none
    at_ms: int
    good_for_ms: int = GOOD_FOR_MS  # an older sample is worthless


@dataclass(frozen=True, slots=True)
class Limits(Evolving):
    """Bounds of a job. Times in ms; memory in MiB per container."""

    container_memory_mb: int = 384
    container_cores: int = 1
    request_timeout_ms: int = 5_000
    start_timeout_ms: int = 60_000
    host_timeout_ms: int = 30_000  # silence after which a host is lost
    lease_ms: int = 30_000
    lease_bound_ms: int = 4_000  # added to a lease for clocks that run apart
    fencing: Fencing = Fencing.LEASE
    # More failures within `retry_window_ms` are flapping: the next starts pause longer.
    retry_count: int = 8
    retry_window_ms: int = 300_000
    max_concurrent_starts: int = 2
    max_concurrent_actions: int = 8
    max_actions_per_host: int = 2
    max_standbys: int = 4
    remembered_uuids: int = 20_000
    host_affinity: bool = True


_NO_GROUPS: HashTrieMap[str, Group] = HashTrieMap()
_NO_HOSTS: HashTrieMap[str, Host] = HashTrieMap()
_NO_PLACES: HashTrieMap[str, int] = HashTrieMap()
_NO_LAGS: HashTrieMap[str, Lag] = HashTrieMap()


@dataclass(frozen=True, slots=True)
class JobState(Evolving):
    """Everything that a decision may depend on."""

    job: str
    deployment_id: str = ""
    groups: HashTrieMap[str, Group] = _NO_GROUPS
    hosts: HashTrieMap[str, Host] = _NO_HOSTS
    limits: Limits = Limits()
    next_epoch: int = 1
    next_request: int = 1
    now_ms: int = 0
    # Each remembered request, with its place in the order of arrival.
    uuids: HashTrieMap[str, int] = _NO_PLACES
    next_uuid: int = 0
    certificates: int = 0  # the number of audit records so far
    certificate_hash: str = ""  # the last audit record's digest
    grouping: str = ""  # the deployment's grouping of tasks
    # Incarnations below this epoch belong to a deployment with other groups of tasks: nothing
    # starts before they have ended. 0 without any.
    regrouped_epoch: int = 0
    # The newest samples, read again after a restart, never stored.
    lags: HashTrieMap[str, Lag] = _NO_LAGS
    # Requests answered without the reducer. Separate, so that they displace no outcome.
    refused: HashTrieMap[str, int] = _NO_PLACES
    next_refused: int = 0
    certificate_at_ms: int = 0  # the last audit record's time; 0 from a release before this field
    # Finds groups by host, deadline and turn; derived from `groups`.
    index: Index = field(default=EMPTY, compare=False, repr=False)
