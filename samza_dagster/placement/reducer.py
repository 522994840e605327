"""The reducer: `step(state, event) -> (state, commands)`. Pure.

This module finds what an event concerns: a request, a resource, a host, a processor, an orphan,
or nothing known (a stray). The other modules apply the event.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.placement import (
    containers,
    deploy,
    failover,
    host_limit,
    hosts,
    moves,
    ownership,
    processes,
    recovery,
    requests,
    rules,
    standbys,
    texts,
)
from samza_dagster.placement import events as ev
from samza_dagster.placement.commands import (
    Command,
    CountMetric,
    ForgetContainer,
    ReleaseResource,
    StopContainer,
)
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.state import (
    Group,
    JobState,
    Move,
    Orphan,
    Phase,
    Processor,
    ResourceRequest,
    SpinUp,
    Stage,
    Start,
    Swap,
    claimant_of,
    request_of,
)

NO_ANSWER = "the cluster gave no answer in time"
# Looked up once: an access to an Enum member costs 0.1 µs until Python 3.12.
_RESERVED = Phase.RESERVED

Seen = (
    ev.ContainerLaunched
    | ev.ContainerCheckedIn
    | ev.StartFailed
    | ev.ContainerStopped
    | ev.StopFailed
    | ev.PrincipalFenced
    | ev.StandbyStalled
)
"""Reports of an agent or the brokers on one incarnation."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and the commands to carry out once it is durable."""

    state: JobState
    commands: tuple[Command, ...]


def step(state: JobState, event: ev.Event) -> Step:
    """Return the state and the commands after `event`. The function is deterministic."""
    draft = Draft(state, event.at_ms)
    if isinstance(event, ev.RequestArrived):
        # Start what was due before this request, so that its answer names what it waits for.
        _take_turns(draft)
    _handle(draft, event)
    _settle(draft)
    # A take-over only repeats commands; the hosts' registrations lead on.
    if not isinstance(event, ev.CoordinatorRestarted):
        _take_turns(draft)
    return Step(draft.result(), draft.commands)


def next_deadline_ms(state: JobState) -> int | None:
    """Return when a `TimePassed` is due, on the leader's clock; None when nothing waits."""
    return state.index.next_deadline_ms(state.now_ms, state.limits.host_timeout_ms)


def _handle(draft: Draft, event: ev.Event) -> None:
    match event:
        case ev.TimePassed():
            _check_deadlines(draft)
        case ev.LagObserved():
            draft.note_lags(event.lags)
        case ev.ResourceAllocated():
            _take_allocation(draft, event.request_id, event.host)
        case ev.RequestExpired():
            _expire_request(draft, event.request_id, event.why)
        case ev.RequestArrived():
            requests.receive(draft, event.ask, event.no_start_because)
        case ev.RequestRefused():
            draft.remember_refused(event.uuid)
        case ev.HostRegistered():
            hosts.register_host(draft, event)
        case ev.HostLost():
            hosts.lose_host(draft, event.host, event.last_grant_ms)
        case ev.JobDeployed():
            deploy.begin_deployment(draft, event)
        case ev.CoordinatorRestarted():
            recovery.repeat_commands(draft, event.at_ms)
        case _:
            _apply_report(draft, event)


def _take_turns(draft: Draft) -> None:
    if draft.index.asks or draft.index.next_turn(draft.now_ms) is not None:
        requests.take_turns(draft)
        deploy.start_turns(draft)
        _settle(draft)


def _settle(draft: Draft) -> None:
    """Start everything that nothing forbids any more, in every group that changed."""
    deploy.end_regrouping(draft)
    while draft.unsettled:
        group_id = min(draft.unsettled)
        draft.unsettled.discard(group_id)
        group = draft.at(group_id)
        if group.found is not None:
            failover.look_again(group)
            _start_what_is_reserved(group, group.group)
            moves.follow_fallback(group)


def _start_what_is_reserved(group: GroupStep, before: Group) -> None:
    for processor_id, processor in before.processors.items():
        if processor.phase is not _RESERVED:
            continue
        broken = containers.start_reserved(group, processor_id)
        if broken is not None:
            _replace_reservation(group, processor_id, broken)
        if group.found is not before:
            return  # the group is unsettled again, and its other reservations follow then


def _replace_reservation(group: GroupStep, processor_id: str, broken: rules.Violation) -> None:
    """Release a reservation that became illegal, and look for another place."""
    if ownership.is_failing_over(group.group, processor_id):
        failover.abandon(group, broken.seen)
        return
    containers.drop_request(group, processor_id)
    match ownership.starting_action(group.group, processor_id):
        case SpinUp() as spin_up:
            standbys.fail_start(group, spin_up, broken.host)
        case Start() as start:
            moves.refuse_host(group, start, broken)
        case None:
            group.emit(CountMetric("failed-standby-allocations"))
            containers.request_any(group, processor_id)


# Incarnations: a report on one concerns an orphan or a processor.


def _apply_report(draft: Draft, event: Seen) -> None:
    """Apply a report to its incarnation; stop or forget an incarnation that nothing refers to."""
    group = draft.of_id(event.execution_id)
    if group is not None:
        match ownership.bearer(group.group, event.execution_id):
            case Orphan() as orphan:
                _apply_to_orphan(group, orphan, event)
            case Processor() as processor:
                _apply_to_processor(group, processor, event)
            case None:
                pass
        return
    match event:
        case ev.ContainerLaunched() | ev.ContainerCheckedIn():
            draft.emit(StopContainer(event.execution_id, event.host))
        case ev.StartFailed() | ev.ContainerStopped():
            draft.emit(ForgetContainer(event.execution_id, event.host))
        case _:
            pass


def _apply_to_orphan(group: GroupStep, orphan: Orphan, event: Seen) -> None:
    match event:
        case ev.ContainerLaunched() | ev.ContainerCheckedIn():
            checked_in = isinstance(event, ev.ContainerCheckedIn)
            hosts.note_orphan_alive(group, orphan, checked_in=checked_in)
        case ev.StartFailed() | ev.ContainerStopped():
            hosts.bury_orphan(group, orphan, _evidence(event))
        case ev.PrincipalFenced():
            hosts.end_fenced(group, orphan)
        case ev.StopFailed() | ev.StandbyStalled():
            pass


def _apply_to_processor(group: GroupStep, processor: Processor, event: Seen) -> None:
    match event:
        case ev.ContainerCheckedIn():
            processes.note_check_in(group, processor)
        case ev.StartFailed() | ev.ContainerStopped():
            processes.note_death(group, processor.processor_id, _evidence(event))
        case ev.StopFailed():
            processes.note_failed_stop(group, processor)
        case ev.StandbyStalled():
            standbys.restart_stalled(group, processor, event.for_ms)
        case ev.ContainerLaunched() | ev.PrincipalFenced():
            pass


def _evidence(event: ev.StartFailed | ev.ContainerStopped) -> str:
    if isinstance(event, ev.StartFailed):
        return f"it never ran: {event.why}"
    status = "" if event.exit_status is None else f", exit status {event.exit_status}"
    return f"{event.host} saw it dead{status}"


# Resources: an answer of the cluster concerns an action or a processor.


def _take_allocation(draft: Draft, request_id: str, host: str) -> None:
    """Apply a held resource; release one that nothing waits for."""
    group = draft.of_id(request_id)
    if group is None:
        draft.emit(ReleaseResource(request_id))
        return
    match ownership.requester(group.group, request_id):
        case Move(request=request) as move if request.allocated_host is not None:
            moves.confirm(group, move)
        case Swap(request=request) | Move(request=request) | SpinUp(request=request) as action:
            if request is not None and request.allocated_host is None:
                _use_reservation(group, action, request, host)
        case Processor(request=request) as processor if request is not None:
            if request.allocated_host is None:
                containers.hold(group, processor.processor_id, request, host)
        case Processor(incarnation=incarnation) if incarnation and incarnation.host != host:
            # Two leaders' clusters hold the resource; this one is superfluous.
            draft.emit(ReleaseResource(request_id))
        case _:
            pass


def _use_reservation(
    group: GroupStep, action: Swap | Move | SpinUp, request: ResourceRequest, host: str
) -> None:
    """Apply an action's held resource. The rules are checked again, before anything is stopped."""
    # A container that is down meanwhile ignores the limit per host.
    processor_id = claimant_of(action)
    broken = rules.violation(group.group, group.hosts, processor_id, host)
    if broken is None and not ownership.is_down(group.group, processor_id):
        broken = host_limit.full_violation(group, request, host)
    if broken is not None:
        group.emit(ReleaseResource(request.request_id))
        if request.host is None and request.deadline_ms > group.now_ms:
            _choose_again(group, action, request)
        else:
            moves.fail_reservation(group, action, f"{broken.seen}; {broken.change}")
        return
    held = request.evolve(allocated_host=host)
    match action:
        case Swap():
            moves.give_way(group, action.evolve(request=held))
        case Move():
            chosen = host if request.host is None else action.chosen_host
            moves.use_reservation(group, action.evolve(request=held, chosen_host=chosen), host)
        case SpinUp():
            standbys.start_on(group, action, held, host)


def _choose_again(group: GroupStep, action: Swap | Move | SpinUp, request: ResourceRequest) -> None:
    leave_out: tuple[str, ...] = ()
    if isinstance(action, Swap):
        leave_out = (action.place.host,)
    elif isinstance(action, Move):
        leave_out = (action.source_host,)
    excluded = host_limit.excluded(group, claimant_of(action), *leave_out)
    left_ms = containers.time_left_ms(group, request)
    again = containers.new_request(group, None, excluded, left_ms)
    containers.ask(group, claimant_of(action), again)
    group.put_action(action.evolve(request=again))


def _expire_request(draft: Draft, request_id: str, why: str) -> None:
    """Apply the expiry of a request for a resource that isn't held yet."""
    group = draft.of_id(request_id)
    if group is None:
        return
    match ownership.requester(group.group, request_id):
        case Move(request=request) as move if request.allocated_host is not None:
            if move.stage is Stage.HELD and not request.confirmed:
                # The repeated reservation wasn't confirmed by its host in time.
                moves.give_up(group, move, texts.expired(why))
        case Swap(request=request) | Move(request=request) | SpinUp(request=request) as action:
            if request is not None and request.allocated_host is None:
                why += host_limit.left_out(group, claimant_of(action), request)
                draft.emit(ReleaseResource(request_id))
                moves.fail_reservation(group, action, why)
        case Processor(request=request) as processor if request is not None:
            if request.allocated_host is None:
                _expire_processors_request(group, processor.processor_id, request, why)
        case _:
            pass


def _expire_processors_request(
    group: GroupStep, processor_id: str, request: ResourceRequest, why: str
) -> None:
    start = ownership.starting_action(group.group, processor_id)
    if ownership.is_failing_over(group.group, processor_id):
        group.emit(CountMetric("expired-preferred-host-requests"))
        failover.abandon(group, why)
    elif start is not None:
        containers.drop_request(group, processor_id)
        moves.fail_reservation(group, start, why)
    elif request.host is not None:
        group.emit(ReleaseResource(request.request_id))
        group.emit(CountMetric("expired-preferred-host-requests"))
        failover.next_fallback(group, processor_id, why)
    else:
        group.emit(CountMetric("expired-any-host-requests"))
        containers.give_up_turn(group, processor_id)


# Deadlines. The reducer has no clock: `TimePassed` carries the time.


def _check_deadlines(draft: Draft) -> None:
    groups = draft.index.overdue(draft.now_ms)
    hosts.lose_unregistered(draft)
    for group_id in groups:
        group = draft.at(group_id)
        if group.found is not None:
            _check_group(group, group.found)


def _check_group(group: GroupStep, due: Group) -> None:
    now_ms = group.now_ms
    hosts.end_leases(group)  # first, because the next steps choose among the hosts
    asked = [processor.request for processor in due.processors.values()]
    for request in (*asked, request_of(due.action)):
        if request is not None and request.allocated_host is None and request.deadline_ms <= now_ms:
            _expire_request(group.draft, request.request_id, NO_ANSWER)
    action = group.action
    held = isinstance(action, Move) and action.stage is Stage.HELD
    if isinstance(action, Move) and held and action.request.deadline_ms <= now_ms:
        moves.expire_hold(group, action)
    for processor_id in due.processors:
        processor = group.group.processors.get(processor_id)
        if processor is None or processor.deadline_ms is None or processor.deadline_ms > now_ms:
            continue
        if processor.phase is Phase.STARTING:
            containers.stop_overdue(group, processor_id)
        elif processor.phase is Phase.STOPPING:
            containers.stop(group, processor_id)
