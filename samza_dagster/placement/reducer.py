"""The reducer: `step(state, event) -> (state, commands)`. Pure.

Here an event finds what it concerns: a placement action, a failover, a processor by
itself, an orphan, or nobody, which makes it a stray. The other modules say what follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    actions,
    containers,
    deploy,
    ends,
    failover,
    hosts,
    left_out,
    orphans,
    ownership,
    recovery,
    requests,
    spin_up,
    stalls,
    swaps,
    texts,
)
from samza_dagster.placement.commands import Command, CountMetric, ReleaseResource, StopContainer
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.events import (
    ContainerCheckedIn,
    ContainerLaunched,
    ContainerStopped,
    CoordinatorRestarted,
    Event,
    HostLost,
    HostRegistered,
    JobDeployed,
    LagObserved,
    PrincipalFenced,
    RequestArrived,
    RequestExpired,
    RequestRefused,
    ResourceAllocated,
    StandbyStalled,
    StartFailed,
    StopFailed,
    TimePassed,
)
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import Group, JobState, Phase, Stage
from samza_dagster.placement.timeouts import time_passed

# Looked up once: an access to a member of an Enum costs 0.1 µs until Python 3.12.
_RESERVED = Phase.RESERVED


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and what to do once it is durable."""

    state: JobState
    commands: tuple[Command, ...]


def step(state: JobState, event: Event) -> Step:
    """What `event` changes. The same inputs always give the same step."""
    draft = Draft(state, event.at_ms)
    if isinstance(event, RequestArrived):
        _take_turns(draft)  # whoever was due before it came: it is told what it waits for
    _handle(draft, event)
    _settle(draft)
    # A take-over says again what was said; the hosts' registrations lead on.
    if not isinstance(event, CoordinatorRestarted):
        _take_turns(draft)
    return Step(draft.result(), draft.commands)


def next_deadline_ms(state: JobState) -> int | None:
    """When a `TimePassed` is due, on the leader's clock; None when nothing waits for time."""
    return state.index.next_deadline_ms(state.now_ms, state.limits.host_timeout_ms)


def _handle(draft: Draft, event: Event) -> None:
    match event:
        case TimePassed():
            time_passed(draft, expired=_expired)
        case LagObserved():
            draft.note_lags(event.lags)
        case ContainerLaunched() | ContainerCheckedIn():
            _alive(draft, event)
        case ContainerStopped():
            status = "" if event.exit_status is None else f", exit status {event.exit_status}"
            _dead(draft, event.execution_id, event.host, f"{event.host} saw it dead{status}")
        case StartFailed():
            _dead(draft, event.execution_id, event.host, f"it never ran: {event.why}")
        case ResourceAllocated():
            _allocated(draft, event.request_id, event.host)
        case RequestExpired():
            _expired(draft, event.request_id, event.why)
        case RequestArrived():
            requests.arrived(draft, event.ask, event.no_start_because)
        case RequestRefused():
            draft.remember_refused(event.uuid)
        case StopFailed():
            _stop_failed(draft, event.execution_id)
        case HostRegistered():
            hosts.registered(draft, event, _bury)
        case HostLost():
            hosts.lost(draft, event.host, event.last_grant_ms)
        case StandbyStalled():
            stalls.stalled(draft, event.execution_id, event.for_ms)
        case PrincipalFenced():
            orphans.fenced(draft, event.execution_id)
        case JobDeployed():
            deploy.deployed(draft, event)
        case CoordinatorRestarted():
            recovery.restarted(draft, event.at_ms)


def _take_turns(draft: Draft) -> None:
    if draft.index.asks or draft.index.next_turn(draft.now_ms) is not None:
        requests.take_turns(draft)
        deploy.start_turns(draft)
        _settle(draft)


def _settle(draft: Draft) -> None:
    """Starts what nothing is in the way of any more, in every group that changed."""
    deploy.regrouping_over(draft)
    while draft.unsettled:
        group_id = min(draft.unsettled)
        draft.unsettled.discard(group_id)
        group = draft.find_group(group_id)
        if group is None:
            continue
        failover.look_again(draft, group_id)
        _start_what_is_reserved(draft, draft.group(group_id))
        actions.follow(draft, group_id)


def _start_what_is_reserved(draft: Draft, group: Group) -> None:
    for processor_id, processor in group.processors.items():
        if processor.phase is not _RESERVED:
            continue
        broken = containers.start_reserved(draft, group.group_id, processor_id)
        if broken is not None:
            _refused(draft, group.group_id, processor_id, broken)
        if draft.find_group(group.group_id) is not group:
            return  # it is unsettled again: what else is reserved has its turn then


def _refused(draft: Draft, group_id: str, processor_id: str, broken: Violation) -> None:
    """What was reserved became illegal: it is given back, and another place is sought."""
    group = draft.group(group_id)
    if group.failover is not None and group.failover.active_id == processor_id:
        failover.abandon(draft, group_id, broken.seen)
        return
    containers.drop_request(draft, group_id, processor_id)
    action = ownership.owner(group, processor_id, Stage.STARTING)
    if action is None:
        draft.emit(CountMetric("failed-standby-allocations"))
        containers.request_any(draft, group_id, processor_id)
    elif action.ask.kind is RequestKind.START_STANDBY:
        spin_up.start_failed(draft, group_id, action, broken.host)
    else:
        actions.refused(draft, group_id, action, broken)


def _allocated(draft: Draft, request_id: str, host: str) -> None:
    group = draft.group_of_id(request_id)
    if group is None:
        draft.emit(ReleaseResource(request_id))
        return
    group_id, action = group.group_id, group.action
    if action is not None:
        held = action.reservation
        if held is not None and held.request_id == request_id:
            if held.allocated_host is not None:
                actions.confirmed(draft, group_id, action, held)
                return
            standby = action.ask.kind is RequestKind.START_STANDBY
            take = spin_up.allocated if standby else actions.allocated
            take(draft, group_id, action, held, host)
            return
        held = action.standby_reservation
        if held is not None and held.request_id == request_id:
            if held.allocated_host is None:
                swaps.standby_allocated(draft, group_id, action, held, host)
            return
    for processor in group.processors.values():
        request = processor.request
        if request is not None and request.request_id == request_id:
            if request.allocated_host is None:
                containers.hold(draft, group_id, processor.processor_id, request, host)
            return
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.request_id == request_id:
            if incarnation.host != host:
                # Held twice, by two leaders' clusters: this one is for nobody.
                draft.emit(ReleaseResource(request_id))
            return


def _expired(draft: Draft, request_id: str, why: str) -> None:
    group = draft.group_of_id(request_id)
    if group is None:
        return
    group_id, action = group.group_id, group.action
    if action is not None:
        reservation = action.reservation
        if reservation is not None and reservation.request_id == request_id:
            if reservation.allocated_host is None:
                if action.ask.kind is RequestKind.START_STANDBY:
                    why += left_out.reason(draft, group, action.standby_id, reservation)
                    draft.emit(ReleaseResource(request_id))
                    spin_up.expired(draft, group_id, action, why)
                else:
                    why += left_out.reason(draft, group, action.ask.processor_id, reservation)
                    actions.expired(draft, group_id, action, reservation, why)
            elif action.stage is Stage.HELD and not reservation.confirmed:
                # Asked for again since, and its host didn't come back with it in time.
                actions.give_up(draft, group_id, action, texts.expired(why))
            return
        reservation = action.standby_reservation
        if reservation is not None and reservation.request_id == request_id:
            if reservation.allocated_host is None:
                why += left_out.reason(draft, group, action.standby_id, reservation)
                actions.expired(draft, group_id, action, reservation, why)
            return
    for processor in group.processors.values():
        request = processor.request
        if request is None or request.request_id != request_id:
            continue
        if request.allocated_host is None:
            _request_expired(draft, group, processor.processor_id, why)
        return


def _request_expired(draft: Draft, group: Group, processor_id: str, why: str) -> None:
    group_id = group.group_id
    processor = group.processors[processor_id]
    assert processor.request is not None
    forced = ownership.owner(group, processor_id, Stage.STARTING)
    if group.failover is not None and group.failover.active_id == processor_id:
        draft.emit(CountMetric("expired-preferred-host-requests"))
        failover.abandon(draft, group_id, why)
    elif forced is not None:
        containers.drop_request(draft, group_id, processor_id)
        actions.reservation_failed(draft, group_id, forced, why)
    elif processor.request.host is not None:
        draft.emit(
            ReleaseResource(processor.request.request_id),
            CountMetric("expired-preferred-host-requests"),
        )
        failover.next_rung(draft, group_id, processor_id, why)
    else:
        draft.emit(CountMetric("expired-any-host-requests"))
        containers.give_up_turn(draft, group_id, processor_id)


def _alive(draft: Draft, event: ContainerLaunched | ContainerCheckedIn) -> None:
    group = draft.group_of_id(event.execution_id)
    checked_in = isinstance(event, ContainerCheckedIn)
    if group is not None:
        orphan = orphans.orphan_of(group, event.execution_id)
        if orphan is not None:
            orphans.alive(draft, group, orphan, checked_in=checked_in)
            return
    if group is None:
        draft.emit(StopContainer(event.execution_id, event.host))
        return
    for processor in group.processors.values():
        incarnation = processor.incarnation
        if incarnation is None or incarnation.execution_id != event.execution_id:
            continue
        if checked_in and processor.phase is Phase.STARTING:
            _checked_in(draft, group, processor.processor_id)
        elif checked_in and processor.phase is Phase.STOPPING:
            containers.checked_in_too_late(draft, group.group_id, processor.processor_id)
        return


def _checked_in(draft: Draft, group: Group, processor_id: str) -> None:
    group_id = group.group_id
    containers.checked_in(draft, group_id, processor_id)
    failed_over = group.failover is not None and group.failover.active_id == processor_id
    if failed_over:
        draft.put_failover(group_id, None)
    action = ownership.owner(group, processor_id, Stage.STARTING)
    if action is None:
        if failed_over:
            requests.failed_over_already(draft, group_id, processor_id)
        return
    if action.ask.kind is RequestKind.START_STANDBY:
        spin_up.checked_in(draft, group_id, action)
    elif action.ask.kind is RequestKind.FAIL_OVER and not failed_over:
        actions.checked_in_elsewhere(draft, group_id, action)
    else:
        actions.checked_in(draft, group_id, action)


def _dead(draft: Draft, execution_id: str, host: str, evidence: str) -> None:
    group = draft.group_of_id(execution_id)
    if group is None:
        draft.emit(containers.forget(execution_id, host))
        return
    orphan = orphans.orphan_of(group, execution_id)
    if orphan is not None:
        orphans.dead(draft, group, orphan, evidence)
        return
    for processor in group.processors.values():
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.execution_id == execution_id:
            _bury(draft, group.group_id, processor.processor_id, evidence)
            return


def _bury(draft: Draft, group_id: str, processor_id: str, evidence: str) -> None:
    before = containers.bury(draft, group_id, processor_id, evidence)
    ends.after_end(draft, group_id, before, lost=False)


def _stop_failed(draft: Draft, execution_id: str) -> None:
    group = draft.group_of_id(execution_id)
    for processor in () if group is None else group.processors.values():
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.execution_id == execution_id:
            if group is not None and processor.phase is Phase.STOPPING:
                ends.stop_failed(draft, group, processor.processor_id)
            return
