"""The state of a job's placement: plain frozen data, nothing else.

Times are milliseconds of the leader's clock, given by events; the reducer has no clock.
Within one term that clock never goes back; between terms it may jump, so nothing
that was stored is compared with it before `CoordinatorRestarted` has renewed it.
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
        """Return a copy with some fields changed; raises `TypeError` for a field that it hasn't."""
        return replace(cast("Any", self), **changes)


class Phase(StrEnum):
    """Where a processor is between wanted and running."""

    WAITING = "waiting"  # nothing is asked for yet: its turn to start hasn't come
    REQUESTING = "requesting"  # a resource is requested, no process exists
    RESERVED = "reserved"  # the resource is held, what it replaces isn't known dead yet
    STARTING = "starting"  # a start was commanded, the container hasn't checked in
    RUNNING = "running"
    STOPPING = "stopping"


class Role(StrEnum):
    """Active processes input; standby only applies the changelog."""

    ACTIVE = "Active"
    STANDBY = "Standby"


class Ended(StrEnum):
    """How an incarnation lost its tasks (invariant 3): the only three ways there are."""

    DEAD = "dead"  # its agent saw the process dead, or the journal that it was started on lacks it
    FENCED = "fenced"  # the brokers refuse its principal
    LEASE = "lease"  # its lease has run out, by the leader's clock


class Fencing(StrEnum):
    """What takes the tasks from an incarnation that nobody has seen dead."""

    LEASE = "lease"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Incarnation(Evolving):
    """One start of a container. `epoch` grows over the job's whole life.

    `journal` is that of the agent that it was started by, `boot_id` the boot of its
    machine (`Host`).
    """

    epoch: int
    execution_id: str
    host: str
    request_id: str
    journal: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class End(Evolving):
    """How the last incarnation of a processor ended, for the next one's certificate."""

    execution_id: str
    epoch: int
    host: str
    how: Ended
    at_ms: int
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRequest(Evolving):
    """A resource asked of the cluster; `host` None is any host not excluded.

    One that is allocated isn't `confirmed` from when its host, or the coordinator, begins
    anew until the cluster says again that it is held. An `urgent` one ends with its host's
    first refusal: a standby is ready, so nobody waits for room.
    """

    request_id: str
    host: str | None
    excluded_hosts: tuple[str, ...]
    deadline_ms: int
    allocated_host: str | None = None
    confirmed: bool = True
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Processor(Evolving):
    """One container of the job, wanted running.

    `incarnation` is set from the start command until its process was seen dead or its
    host was lost. `deadline_ms` is when a start must have checked in, or when an
    unanswered stop is asked again; `start_deadline_ms` keeps the former while a start is
    being stopped, until it checks in after all. `attempts` counts tries since the last check-in,
    `failures` all of the job's life, `failed_at_ms` those within the retry window.
    `avoid_hosts` are where starts failed since the last check-in, or it stood still before
    that, the newest last. A processor not `wanted` is removed once it is dead. `extra` marks
    a standby that was spun up on request. `stalled_at_ms` is when a standby was stopped
    because it stood still, several times in a row. `unplaced` is whether an active has failed
    since it ran, and no failover to any host was counted for that; `sought` are the
    standbys whose place it sought since.
    """

    processor_id: str
    role: Role
    phase: Phase
    incarnation: Incarnation | None = None
    last_seen_host: str | None = None
    request: ResourceRequest | None = None
    failures: int = 0
    attempts: int = 0
    failed_at_ms: tuple[int, ...] = ()
    deadline_ms: int | None = None
    waiting_since_ms: int = 0
    not_before_ms: int = 0
    avoid_hosts: tuple[str, ...] = ()
    wanted: bool = True
    extra: bool = False
    last_end: End | None = None
    stalled_at_ms: tuple[int, ...] = ()
    start_deadline_ms: int | None = None
    unplaced: bool = False
    sought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Orphan(Evolving):
    """An incarnation on a host that fell silent: alive or dead, nobody knows.

    Until it is seen dead, no member of its group starts on that host. Until it `ended`
    (dead, fenced, or past `lease_ends_ms`) its processor isn't started anywhere. Once its
    host registers again it has leases anew, so `lease_ends_ms` is None. `ran` is whether
    it had checked in; `fencing` that its fence was commanded, after which it can't be taken
    back. `end` is how its processor's newest incarnation ended, as far as it is known, for
    a start that comes after the processor was removed. `elsewhere` is whether another machine
    bears its host's name, as that registered last.
    """

    processor_id: str
    incarnation: Incarnation
    lost_at_ms: int
    lease_ends_ms: int | None
    ran: bool
    fencing: bool = False
    ended: Ended | None = None
    end: End | None = None
    elsewhere: bool = False

    @property
    def left_behind(self) -> bool:
        """It owns nothing any more, and isn't on the machine that bears its host's name now.

        It may live on where it is, and stays fenced if it was. Its group is free of it.
        """
        return self.elsewhere and self.ended is not None


@dataclass(frozen=True, slots=True)
class PlacementAsk(Evolving):
    """A request as the reducer sees it; `expiry_ms` None means the job's default.

    `hold` makes a `place` wait, once its resource is held, for a `commit`; it is let
    go when `expiry_ms` have passed since. `refers_to` is the request that a commit,
    release or cancel is about. `own` says that it came through our own topic, and is
    answered there. `execution_id` is the incarnation that a fail-over is about, "" any.
    """

    uuid: str
    deployment_id: str
    processor_id: str
    destination_host: str
    timestamp_ms: int
    expiry_ms: int | None = None
    kind: RequestKind = RequestKind.PLACE
    hold: bool = False
    refers_to: str = ""
    own: bool = False
    execution_id: str = ""


class Stage(StrEnum):
    """Where a placement action stands."""

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
    """What a standby leaves to its active: the host that has its state."""

    standby_id: str
    host: str


@dataclass(frozen=True, slots=True)
class InFlight(Evolving):
    """What each action has, whatever it does now.

    `stopped` are the processors that were told to stop for it, and aren't known to live on.
    `message` and `response_ms` are those of the last response that was written.
    """

    ask: PlacementAsk
    stopped: tuple[str, ...] = field(default=(), kw_only=True)
    message: str = field(default="", kw_only=True)
    response_ms: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Swap(InFlight):
    """A standby gives way to its active, which runs on until then; a `Move` to its place follows.

    `request` is a new place for the standby. It is held before the standby is told to stop;
    a fail-over reserves none. `source_host` is the active's.
    """

    source_host: str
    place: StandbyPlace
    request: ResourceRequest | None

    @property
    def stage(self) -> Stage:
        """The stage that responses and views name."""
        reserves = self.request is not None and self.request.allocated_host is None
        return Stage.RESERVING_STANDBY if reserves else Stage.STOPPING_STANDBY

    @property
    def chosen_host(self) -> str | None:
        """The standby's new host, once it is held."""
        return None if self.request is None else self.request.allocated_host


@dataclass(frozen=True, slots=True)
class Move(InFlight):
    """A container's destination is reserved, and held for a commit if that was asked.

    Then the container is told to stop, and a `Start` follows. `place` is set when the
    destination is a standby's, which has given way. `chosen_host` is the host that the
    cluster chose for this action among several.
    """

    source_host: str
    request: ResourceRequest
    place: StandbyPlace | None = None
    chosen_host: str | None = None
    committed: bool = False

    @property
    def stage(self) -> Stage:
        """The stage that responses and views name."""
        if self.request.allocated_host is None:
            return Stage.RESERVING
        return Stage.STOPPING if self.ask.processor_id in self.stopped else Stage.HELD


@dataclass(frozen=True, slots=True)
class Restart(InFlight):
    """A container is told to stop with nothing reserved; a `Start` on its own host follows."""

    source_host: str

    stage: ClassVar[Stage] = Stage.STOPPING


@dataclass(frozen=True, slots=True)
class Start(InFlight):
    """A container that is down starts where its action, or the fail-over that it asked for, leads it.

    `source_host` is where it ran, if that is known.
    """

    source_host: str | None
    place: StandbyPlace | None = None
    chosen_host: str | None = None

    stage: ClassVar[Stage] = Stage.STARTING


@dataclass(frozen=True, slots=True)
class Fallback(InFlight):
    """The action has FAILED with its container down: the group is locked until that runs.

    `to_source` is whether it is led back to `source_host`, else to any host.
    """

    source_host: str | None
    to_source: bool

    @property
    def stage(self) -> Stage:
        """The stage that responses and views name."""
        return Stage.FALLBACK_SOURCE if self.to_source else Stage.FALLBACK_ANY


@dataclass(frozen=True, slots=True)
class SpinUp(InFlight):
    """One more standby for an active; a member of the group once its `request` is held."""

    standby_id: str
    request: ResourceRequest | None
    chosen_host: str | None = None

    @property
    def stage(self) -> Stage:
        """The stage that responses and views name."""
        return Stage.STARTING if self.request is None else Stage.RESERVING


@dataclass(frozen=True, slots=True)
class StopStandby(InFlight):
    """A standby is stopped for good; `stopping_already`: it was before, for another reason."""

    source_host: str | None
    stopping_already: bool

    stage: ClassVar[Stage] = Stage.STOPPING


Moving = Swap | Move | Restart | Start
"""What puts a container elsewhere, or starts it anew where it is."""
Action = Moving | Fallback | SpinUp | StopStandby
"""The one action in flight of a group, by what it does now."""


def request_of(action: Action | None) -> ResourceRequest | None:
    """Return what an action asks for or has reserved; its subject's own request isn't meant."""
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
    """An active on its way to the host of one of its standbys, which gives way.

    `tried` are the standbys whose place was sought since the active went down.
    """

    active_id: str
    standby_id: str
    host: str
    since_ms: int
    why: str
    tried: tuple[str, ...] = ()


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
    """A host that an agent registered.

    `registered` is whether it has with this coordinator; until it has, `silent_since_ms`
    is when the wait for it began, and it is lost after the limit. `alive` is what was
    last known. Two hosts of the same `fault_domain` may fail together; "" is unknown.
    `journal` is the id of the records that its agent goes by, `boot_id` of its machine's
    boot; "" until one has registered.
    """

    host: str
    alive: bool = True
    registered: bool = True
    silent_since_ms: int = 0
    fault_domain: str = ""
    journal: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Lag(Evolving):
    """How far a standby is behind; `ready_in_ms` is a forecast, None when there is none.

    It tells nothing once it is more than `good_for_ms` old.
    """

    processor_id: str
    records: int | None
    ready_in_ms: int | None
    at_ms: int
    good_for_ms: int = GOOD_FOR_MS


@dataclass(frozen=True, slots=True)
class Limits(Evolving):
    """Bounds of a job. Times in ms; memory in MiB per container.

    `host_timeout_ms`: silence after which a host is lost. `lease_bound_ms`: what is
    added to a lease for clocks that run apart. `retry_count` failures within
    `retry_window_ms` are flapping: the next starts pause longer.
    """

    container_memory_mb: int = 384
    container_cores: int = 1
    request_timeout_ms: int = 5_000
    start_timeout_ms: int = 60_000
    host_timeout_ms: int = 30_000
    lease_ms: int = 30_000
    lease_bound_ms: int = 4_000
    fencing: Fencing = Fencing.LEASE
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
    """Everything that a decision may depend on.

    `uuids` maps each remembered request to its place in the order of arrival; `refused` is
    the same for those that were answered without the reducer. Each has room of its own, so
    that what nobody can read displaces no outcome.
    `certificates` counts the audit records so far; `certificate_hash` is the last one's digest,
    `certificate_at_ms` its time (0: it was written by a release before this field).
    `grouping` is the deployment's. Incarnations with an epoch below `regrouped_epoch` are
    of a deployment that gave the tasks to other groups: nothing starts before they have
    ended; 0 when there are none.
    `lags` are the newest samples; they are read again after a restart, never stored.
    `index` finds groups by host, deadline and turn; it is derived from `groups`.
    """

    job: str
    deployment_id: str = ""
    groups: HashTrieMap[str, Group] = _NO_GROUPS
    hosts: HashTrieMap[str, Host] = _NO_HOSTS
    limits: Limits = Limits()
    next_epoch: int = 1
    next_request: int = 1
    now_ms: int = 0
    uuids: HashTrieMap[str, int] = _NO_PLACES
    next_uuid: int = 0
    certificates: int = 0
    certificate_hash: str = ""
    grouping: str = ""
    regrouped_epoch: int = 0
    lags: HashTrieMap[str, Lag] = _NO_LAGS
    refused: HashTrieMap[str, int] = _NO_PLACES
    next_refused: int = 0
    certificate_at_ms: int = 0
    index: Index = field(default=EMPTY, compare=False, repr=False)
