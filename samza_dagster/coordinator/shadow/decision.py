"""Ask the reducer itself, about a picture, what our coordinator would have done. Pure.

The picture becomes a state in which all containers run. One event goes into the reducer, and a
cluster that has room and answers at once gives it what it requests. So the rules are those of
production; only what no picture shows, whether a host has room for one container more, is taken as
given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rpds import HashTrieMap

from samza_dagster.client.legal_hosts import roomiest
from samza_dagster.client.views import CLOSED_STATE, LOST_STATE
from samza_dagster.coordinator.shadow.picture import Asked, Picture
from samza_dagster.model.naming import STANDBY
from samza_dagster.placement import texts
from samza_dagster.placement.commands import (
    Command,
    FencePrincipal,
    RequestResource,
    StartContainer,
    StopContainer,
    WriteResponse,
)
from samza_dagster.placement.events import (
    ContainerStopped,
    CoordinatorRestarted,
    Event,
    HostLost,
    PrincipalFenced,
    RequestArrived,
    RequestExpired,
    ResourceAllocated,
    TimePassed,
)
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import (
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Limits,
    Move,
    Phase,
    PlacementAsk,
    Processor,
    Role,
    Start,
    Swap,
)

FAIL_OVER, RESTART, MOVE = "fail-over", "restart", "move"
RUN_ON, REFUSE, NOTHING, UNKNOWN = "run-on", "refuse", "nothing", "unknown"

_MOST_STEPS = 200
"""More than any way back takes: a processor for which no host is legal waits for ever."""


@dataclass(frozen=True)
class Figure:
    """A measured downtime in seconds: the median of a row of `benchmarks/RESULTS.md`."""

    seconds: float
    row: str


_TABLE = "benchmarks/RESULTS.md, Downtime of a planned move and of a failover, p50 of the size that took longest"
RESTARTED = Figure(2.2, f"{_TABLE}: restart on the same host")
FAILED_OVER = Figure(3.5, f"{_TABLE}: failover onto the standby, the active's host being full")
HOST_LOST = Figure(3.2, f"{_TABLE}: host lost, from its declared end on")
ONTO_STANDBY = Figure(2.8, f"{_TABLE}: planned move onto the standby")


@dataclass(frozen=True)
class Decision:
    """The decision of our coordinator about a container, and its cost as far as that was measured.

    `lag` is the standby's in records, None where it isn't known. `with_state`: the container finds
    its state on the host. `waits_s` is how long the rules wait before the start is released (a host
    has to be silent for its time-out, a lease to end); `expected_s` is that and the `figure`, None
    without one.
    """

    action: str
    host: str = ""
    standby: str = ""
    lag: int | None = None
    with_state: bool | None = None
    because: str = ""
    waits_s: float = 0.0
    expected_s: float | None = None
    figure: str = ""


def after_failure(
    before: Picture,
    after: Picture,
    processor_id: str,
    limits: Limits,
    failed_ms: tuple[int, ...] = (),
) -> Decision:
    """Return what ours would have done when a container that ran in `before` ended.

    Its host is what `after` says of it: a host that is lost by then took the container with it.
    `failed_ms` are the container's earlier failures, by the shadow's clock.
    """
    state = state_of(before, after, limits, {processor_id: failed_ms})
    processor = _processor(state, processor_id)
    if processor is None or processor.incarnation is None:
        return Decision(UNKNOWN, because=f"no picture shows where {processor_id} ran")
    host, execution_id = processor.incarnation.host, processor.incarnation.execution_id
    known = state.hosts.get(host)
    at_ms, event = state.now_ms, ContainerStopped(state.now_ms, execution_id, host, None)
    lost = known is not None and not known.alive
    if known is not None and lost:
        # The rules learn of it once its agent has been silent for the host's time-out.
        state = state.evolve(
            hosts=state.hosts.insert(host, Host(host, fault_domain=known.fault_domain))
        )
        at_ms += limits.host_timeout_ms
        event = HostLost(at_ms, host, state.now_ms)
    played = _play(rebuilt(state), event, processor_id, after)
    waits_s = (played.at_ms - state.now_ms) / 1000
    if not played.host:
        return Decision(
            NOTHING, because=f"no host may take {processor_id} now: {played.why}", waits_s=waits_s
        )
    if processor.role is Role.STANDBY:
        return Decision(RESTART, played.host, with_state=played.host == host, waits_s=waits_s)
    if played.standby:
        report = before.reports.get(played.standby)
        figure = HOST_LOST if lost else FAILED_OVER
        return _expected(
            Decision(
                FAIL_OVER,
                played.host,
                played.standby,
                None if report is None else report.lag,
                with_state=True,
                because=played.why,
                waits_s=waits_s,
            ),
            figure,
        )
    at_home = played.host == host
    decision = Decision(RESTART, played.host, with_state=at_home, waits_s=waits_s)
    return _expected(decision, RESTARTED) if at_home else decision


def of_request(before: Picture, after: Picture, asked: Asked, limits: Limits) -> Decision:
    """Return what ours would have answered a request for a placement, and where it would have led."""
    state = rebuilt(state_of(before, after, limits))
    processor = _processor(state, asked.processor_id)
    ask = PlacementAsk(
        asked.uuid,
        state.deployment_id,
        asked.processor_id,
        asked.destination,
        asked.asked_ms,
        asked.expiry_ms,
    )
    played = _play(state, RequestArrived(state.now_ms, ask), asked.processor_id, after, ask.uuid)
    if not played.host:
        action = REFUSE if played.status in (texts.BAD_REQUEST, texts.FAILED) else NOTHING
        return Decision(action, because=played.message or played.why)
    source = None if processor is None or processor.incarnation is None else processor.incarnation
    at_home = source is not None and source.host == played.host
    decision = Decision(
        RESTART if at_home else MOVE,
        played.host,
        played.standby,
        with_state=at_home or bool(played.standby),
    )
    if processor is None or processor.role is Role.STANDBY:
        return decision
    if at_home:
        return _expected(decision, RESTARTED)
    return _expected(decision, ONTO_STANDBY) if asked.destination == STANDBY else decision


def after_master(before: Picture, after: Picture, limits: Limits) -> Decision:
    """Return what becomes of the containers when their coordinator is replaced.

    Only YARN distinguishes a replaced Application Master from a new deployment.
    """
    if not before.application or not after.application:
        why = "without YARN's ResourceManager a replaced Application Master looks like a new deployment"
        return Decision(UNKNOWN, because=why)
    if before.application != after.application:
        return Decision(
            RESTART, because="a new deployment begins all containers anew, as Samza does"
        )
    state = rebuilt(state_of(before, before, limits))
    taken = step(state, CoordinatorRestarted(state.now_ms)).commands
    if any(isinstance(each, StopContainer | StartContainer) for each in taken):
        return Decision(UNKNOWN, because="the rules would act on a container at a take-over")
    return Decision(RUN_ON, because="a coordinator that takes over lets all containers run on")


def state_of(
    before: Picture,
    after: Picture,
    limits: Limits,
    failed_ms: Mapping[str, tuple[int, ...]] | None = None,
) -> JobState:
    """Return the state in which what ran in `before` runs, on hosts as `after` has them.

    A container of which no host is known has no place in it.
    """
    view = before.view
    members: dict[str, dict[str, Processor]] = {}
    for number, pid in enumerate(sorted(view.processors), 1):
        host = before.host_of(pid)
        if not host:
            continue
        role = Role.STANDBY if view.is_standby(pid) else Role.ACTIVE
        members.setdefault(view.group_of(pid), {})[pid] = Processor(
            pid,
            role,
            Phase.RUNNING,
            Incarnation(number, f"{pid}/{number}", host, f"held/{number}"),
            last_seen_host=host,
            failed_at_ms=(failed_ms or {}).get(pid, ()),
        )
    named = {p.incarnation.host for of in members.values() for p in of.values() if p.incarnation}
    hosts = {name: Host(name) for name in named}
    for name, seen in {**view.hosts, **after.view.hosts}.items():
        hosts[name] = Host(name, seen.state != LOST_STATE, fault_domain=seen.fault_domain)
    lags = {
        pid: Lag(pid, report.lag, None, after.at_ms)
        for pid, report in before.reports.items()
        if view.is_standby(pid)
    }
    return JobState(
        view.job_name,
        before.deployment or "none",
        groups=HashTrieMap({gid: Group(gid, of) for gid, of in members.items()}),
        hosts=HashTrieMap(hosts),
        limits=limits,
        next_epoch=len(view.processors) + 1,
        now_ms=after.at_ms,
        lags=HashTrieMap(lags),
    )


@dataclass
class _Played:
    """Where a processor would have started (empty: nowhere), when, and what was said on the way."""

    at_ms: int
    host: str = ""
    standby: str = ""
    why: str = ""
    status: str = ""
    message: str = ""


def _play(
    state: JobState, event: Event, processor_id: str, after: Picture, uuid: str = ""
) -> _Played:
    """Step until the processor starts, is refused, or nothing more would happen.

    Requests that can't be met expire at once: the time that a real cluster takes for that isn't
    counted.
    """
    played = _Played(event.at_ms)
    due: deque[Event] = deque([event])
    for _ in range(_MOST_STEPS):
        if not due:
            deadline_ms = next_deadline_ms(state)
            if deadline_ms is None:
                break
            played.at_ms = max(played.at_ms, deadline_ms)
            due.append(TimePassed(played.at_ms))
        taken = step(state, due.popleft())
        state = taken.state
        failover = next((g.failover for g in state.groups.values() if g.failover is not None), None)
        if failover is not None and failover.active_id == processor_id:
            played.standby, played.why = failover.standby_id, failover.why
        for command in taken.commands:
            if isinstance(command, StartContainer) and command.processor_id == processor_id:
                played.host = command.host
                if failover is None and not _takes_place(state, processor_id, command.host):
                    played.standby = ""
                return played
            if isinstance(command, WriteResponse) and command.uuid == uuid:
                played.status, played.message = command.status, command.message
                if command.status in (texts.BAD_REQUEST, texts.FAILED):
                    return played
            answer = _answer(state, command, after, played.at_ms)
            if answer is not None:
                due.append(answer)
    played.why = played.why or "every host is lost, or has another member of its group"
    return played


def _answer(state: JobState, command: Command, after: Picture, now_ms: int) -> Event | None:
    """Return what a cluster with room says to a command; None where it says nothing."""
    if isinstance(command, StopContainer):
        known = state.hosts.get(command.host)
        alive = known is None or known.alive
        return ContainerStopped(now_ms, command.execution_id, command.host, 0) if alive else None
    if isinstance(command, FencePrincipal):
        return PrincipalFenced(now_ms, command.execution_id)
    if not isinstance(command, RequestResource):
        return None

    def takes(host: str) -> bool:
        known, seen = state.hosts.get(host), after.view.hosts.get(host)
        closed = seen is not None and seen.state in (CLOSED_STATE, LOST_STATE)
        return (known is None or known.alive) and not closed

    host = command.host
    if host is None:
        others = set(after.view.hosts) - set(command.excluded_hosts)
        fit = {name: True for name in others if takes(name)}
        host = roomiest(after.view, fit) if fit else None
    if host is None or not takes(host):
        return RequestExpired(now_ms, command.request_id, "no host takes it")
    return ResourceAllocated(now_ms, command.request_id, host)


def _takes_place(state: JobState, processor_id: str, host: str) -> bool:
    """Return whether an action puts the processor in a standby's place there."""
    for group in state.groups.values():
        action = group.action
        if isinstance(action, (Swap, Move, Start)) and action.ask.processor_id == processor_id:
            return action.place is not None and action.place.host == host
    return False


def _processor(state: JobState, processor_id: str) -> Processor | None:
    for group in state.groups.values():
        if processor_id in group.processors:
            return group.processors[processor_id]
    return None


def _expected(decision: Decision, figure: Figure) -> Decision:
    return replace(
        decision,
        expected_s=round(decision.waits_s + figure.seconds, 1),
        figure=figure.row,
    )
