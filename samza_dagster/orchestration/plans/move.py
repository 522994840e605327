"""The plan of a placement run, decided before the first request. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from samza_dagster.client import JobView, ProcessorView
from samza_dagster.client.legal_hosts import Placing, roomiest
from samza_dagster.errors import Refused, some_of
from samza_dagster.model.naming import DESTINATION_WORDS, STANDBY
from samza_dagster.orchestration.config import CatchUp

ACTIVE = "active"
LOST = "lost"
RUNNING = "running"
LAST_SEEN_STATE = "last-seen"
"""Of a container under Samza's own AM: where it reported last; whether it runs isn't told."""
OURS = "samza_dagster"


class Kind(StrEnum):
    """The kind of a step: a request, or a wait."""

    PLACE = "place"
    FAIL_OVER = "fail-over"
    START_STANDBY = "start-standby"
    STOP_STANDBY = "stop-standby"
    WAIT_WARM = "wait-warm"
    WAIT_PROCESSING = "wait-processing"
    WAIT_REPORT = "wait-report"
    WAIT_BACK = "wait-back"


@dataclass(frozen=True)
class UnitLimits:
    """Bounds of the work on a container, in seconds."""

    request_expiry_s: float
    timeout_s: float
    verify_timeout_s: float
    catch_up: CatchUp

    @property
    def lag_s(self) -> float:
        """How long a lag is waited for; 0: it isn't."""
        return self.catch_up.timeout_s

    def is_shown_by_work(self, mode: str) -> bool:
        """Return whether the lag needs no report: an active processes only with its stores restored."""
        return self.verify_timeout_s > 0 and mode == ACTIVE


@dataclass(frozen=True)
class HostRow:
    """A host and the containers on it, for the map before and after."""

    host: str
    state: str
    containers: tuple[str, ...]

    @property
    def cells(self) -> tuple[tuple[str, bool, str], ...]:
        """Its containers as (processor id, active, state)."""
        words = [(*text.rsplit(" ", 2), "", "")[:3] for text in self.containers]
        return tuple((ident, mode == ACTIVE, state) for ident, mode, state in words)


@dataclass(frozen=True)
class MovePlan:
    """An action: a processor, from where, to where; with a standby when it must make room.

    `destination` is a host name or one of Samza's words. `coordinator` is the coordinator that reported
    the job's state when the plan was made. `kind` is `place`, `fail-over` or
    `start-standby`, whose `processor` is the active. `keep_standby`: the standby that was
    spun up for the move stays in the job; `if_it_fails` is what becomes of it then. `any_host`:
    Samza's AM takes every destination for any, since host affinity is off. `allow_unknown_host`: it
    may be a host that no container has reported. `beyond_budget`: it is asked also where Samza's
    AM may end the job for it. `of_standby`: the processor is a standby. `execution_id`: the only
    incarnation that a fail-over is for, if there is one.
    """

    job: str
    action: str
    processor: str
    source_host: str | None
    destination: str
    limits: UnitLimits
    before: tuple[HostRow, ...]
    standby: str | None = None
    standby_host: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    coordinator: str = OURS
    kind: Kind = Kind.PLACE
    keep_standby: bool = False
    if_it_fails: str = ""
    beyond_budget: bool = False
    any_host: bool = False
    allow_unknown_host: bool = False
    of_standby: bool = False
    execution_id: str = ""

    @property
    def expected_host(self) -> str | None:
        """The host that the processor must run on in the end; None: the coordinator chose."""
        if self.destination == STANDBY:
            return self.standby_host
        chosen = self.any_host or self.destination in DESTINATION_WORDS
        return None if chosen else self.destination

    @property
    def stops_active(self) -> bool:
        """Return whether an active is down for a while. A plan that only starts a standby stops none."""
        moves = self.kind is not Kind.START_STANDBY or bool(self.if_it_fails)
        return moves and not self.of_standby

    def means(self, destination: str) -> bool:
        """Return whether a request for this destination is of this plan.

        STANDBY is also asked for by the name of the host that the standby has left since.
        """
        if destination == self.destination:
            return True
        return self.destination == STANDBY and destination == self.standby_host

    def makes_room(self, destination: str) -> bool:
        """Return whether a standby that goes to this host is out of the processor's way."""
        return destination != self.destination


def host_map(view: JobView) -> tuple[HostRow, ...]:
    """Every known host with its containers, in order of host name."""
    names = {*view.hosts, *(p.host for p in view.processors.values() if p.host)}
    return tuple(
        HostRow(
            host=name,
            state=view.hosts[name].state if name in view.hosts else "unknown",
            containers=tuple(
                f"{p.processor_id} {str(p.mode).lower()} {p.state}"
                for p in sorted(view.processors.values(), key=lambda p: p.processor_id)
                if p.host == name
            ),
        )
        for name in sorted(names)
    )


def require_named_hosts(view: JobView, action: str) -> None:
    """Raise `Refused` if no host that is named can take it."""
    if view.takes_any_host:
        raise Refused(
            f"{action}: containers go to the hosts that are named",
            seen="job.host-affinity.enabled is off: Samza's AM takes every destination for any host",
            fix="job.host-affinity.enabled=true in the job's config, and deploy it anew",
        )


_NAME_ONE = (
    "; or relocate_standby or move_container to one that no container has reported yet, with"
    " allow_unknown_host: true"
)
"""Where Samza's AM coordinates: its cluster may have more hosts than its metadata tells."""
NEW_RUN = "launch a new run: it makes a plan for the job as it is now"
"""What is to be done where a plan's processor has left the job since."""


def find_processor(
    view: JobView, processor_id: str, fix: str = "one of these ids"
) -> ProcessorView:
    """The processor of that id; raises `Refused` that lists those which exist.

    An unknown id is never sent on: it stops the placement thread of Samza's own
    Application Master.
    """
    found = view.processors.get(processor_id)
    if found is None:
        raise Refused(
            f"the processor must be one of the job: {processor_id!r}",
            seen=f"processors {some_of(sorted(view.processors)) or 'none'}",
            fix=fix,
        )
    return found


def standbys_of(view: JobView, active: ProcessorView) -> list[ProcessorView]:
    """The standbys of an active that have a host; those that run first, then by id."""
    group = view.group_of(active.processor_id)
    standbys = [
        p
        for p in view.processors.values()
        if view.group_of(p.processor_id) == group
        and view.is_standby(p.processor_id)
        and p.host is not None
    ]
    return sorted(standbys, key=lambda p: (p.state != RUNNING, p.processor_id))


def standby_for(view: JobView, active: ProcessorView, wanted: str | None) -> ProcessorView:
    """Return the standby whose host the active takes; raises `Refused` when there is none."""
    if view.is_standby(active.processor_id):
        raise Refused(
            "move_with_standby moves an active",
            seen=f"{active.processor_id} is a standby",
            fix=f"processor {view.group_of(active.processor_id)}, or move_container for the standby",
        )
    standbys = standbys_of(view, active)
    for standby in standbys:
        if wanted is None or standby.processor_id == wanted:
            return standby
    raise Refused(
        f"a standby of {active.processor_id} must exist"
        + (f": {wanted!r}" if wanted is not None else ""),
        seen=f"standbys {', '.join(p.processor_id for p in standbys) or 'none'} with a host",
        fix="move_container, which needs no standby, or a job with standbys",
    )


def host_for_standby(
    view: JobView,
    standby: str,
    source: str | None,
    destination: str,
    allowed: Collection[str] = (),
    *,
    makes_room: bool = False,
) -> str:
    """Where a standby goes so that it is away from the source and the destination.

    Alive, not the source, not the destination, without another member of the group there or in
    its fault domain; with `makes_room` also once the active is on the destination; of these
    the `roomiest`. A host is named instead of ANY_HOST because a coordinator may choose the
    source for that. `allowed`, unless empty, are the only hosts to choose from.
    Raises `Refused` with the rule that each host breaks.
    """
    active = view.group_of(standby)
    placing = [Placing(view, only=active)]
    if makes_room:
        placing.append(Placing(view, only=active))
        placing[1].put(active, destination)
    why_not: dict[str, str] = {}
    ready: dict[str, bool] = {}
    needed = view.container_memory_mb or 0
    for name, host in sorted(view.hosts.items()):
        if host.state == LOST:
            why_not[name] = f"{name} is lost"
        elif name == source:
            why_not[name] = f"{name} is the source"
        elif name == destination:
            why_not[name] = f"{name} is the destination"
        elif allowed and name not in allowed:
            why_not[name] = f"{name} isn't among the component's hosts"
        elif broken := next(filter(None, (p.violation(standby, name) for p in placing)), None):
            why_not[name] = broken.seen
        else:
            free = host.free_memory_mb
            ready[name] = free is None or free >= needed
    if not ready:
        who = f"standby {standby}" if view.is_standby(standby) else standby
        raise Refused(
            f"a host for {who} away from {' and '.join(dict.fromkeys((str(source), destination)))}",
            seen=some_of([*why_not.values()], "; ") or "no hosts",
            fix="one more host that is alive and has no container of this group"
            + (", nor one in its fault domain" if knows_domains(view) else "")
            + ("" if view.capabilities.knows_all_hosts else _NAME_ONE),
        )
    return roomiest(view, ready)


def knows_domains(view: JobView) -> bool:
    """Return whether agents report fault domains."""
    return any(host.fault_domain for host in view.hosts.values())
