"""The heart: `step(state, event) -> (state, commands)`. Pure.

Here an event finds what it concerns: a placement action, a processor by itself, or
nobody, which makes it an orphan. `actions` and `containers` say what follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.placement import actions, containers, deadlines, deploy, recovery, requests
from samza_dagster.placement.commands import Command, ForgetContainer, ReleaseResource
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
    RequestArrived,
    RequestExpired,
    ResourceAllocated,
    StartFailed,
    StopFailed,
    TimePassed,
)
from samza_dagster.placement.state import JobState, Phase, Stage


@dataclass(frozen=True)
class Step:
    """The next state, and what to do once it is durable."""

    state: JobState
    commands: tuple[Command, ...]


def step(state: JobState, event: Event) -> Step:
    """What `event` changes. The same inputs always give the same step."""
    draft = Draft(state, event.at_ms)
    _handle(draft, event)
    for group_id in tuple(draft.groups):
        actions.follow(draft, group_id)
    requests.take_turns(draft)
    deploy.start_turns(draft)
    return Step(draft.snapshot(), draft.commands)


def next_deadline_ms(state: JobState) -> int | None:
    """When a `TimePassed` is due, in ms since the epoch; None when nothing waits for time."""
    return deadlines.next_due_ms(state)


def _handle(draft: Draft, event: Event) -> None:
    match event:
        case JobDeployed():
            deploy.deployed(draft, event)
        case CoordinatorRestarted():
            recovery.restarted(draft)
        case RequestArrived():
            requests.arrived(draft, event.ask, event.no_start_because)
        case HostRegistered():
            for execution_id in recovery.host_registered(draft, event.host, event.execution_ids):
                _died(draft, execution_id, event.host)
                recovery.stop_orphan(draft, execution_id, event.host)
        case HostLost():
            recovery.host_lost(draft, event.host)
        case ResourceAllocated():
            _allocated(draft, event.request_id, event.host)
        case RequestExpired():
            _expired(draft, event.request_id, event.why)
        case ContainerLaunched():
            if _find(draft, event.execution_id) is None:
                recovery.stop_orphan(draft, event.execution_id, event.host)
        case ContainerCheckedIn():
            _checked_in(draft, event)
        case StartFailed() | ContainerStopped():
            _died(draft, event.execution_id, event.host)
        case StopFailed():
            _stop_failed(draft, event.execution_id)
        case TimePassed():
            _time_passed(draft)


def _allocated(draft: Draft, request_id: str, host: str) -> None:
    for group in draft.groups.values():
        group_id, action = group.group_id, group.action
        reservation = action.reservation if action is not None else None
        if action is not None and reservation is not None and reservation.request_id == request_id:
            if reservation.allocated_host is None:
                actions.allocated(draft, group_id, action, reservation, host)
            return
        for processor in group.processors.values():
            pid, request = processor.processor_id, processor.request
            if processor.incarnation and processor.incarnation.request_id == request_id:
                return
            if request is None or request.request_id != request_id:
                continue
            forced = actions.owns(group, pid, Stage.STARTING)
            if forced is not None:
                actions.same_host_allocated(draft, group_id, forced, request, host)
            else:
                containers.allocated(draft, group_id, pid, request, host)
            return
    draft.emit(ReleaseResource(request_id))


def _expired(draft: Draft, request_id: str, why: str) -> None:
    for group in draft.groups.values():
        group_id, action = group.group_id, group.action
        reservation = action.reservation if action is not None else None
        if action is not None and reservation is not None and reservation.request_id == request_id:
            if reservation.allocated_host is None:
                actions.expired(draft, group_id, action, reservation, why)
            return
        for processor in group.processors.values():
            pid, request = processor.processor_id, processor.request
            if request is None or request.request_id != request_id:
                continue
            forced = actions.owns(group, pid, Stage.STARTING)
            if forced is not None:
                actions.expired(draft, group_id, forced, request, why)
            else:
                containers.expired(draft, group_id, pid, request)
            return


def _checked_in(draft: Draft, event: ContainerCheckedIn) -> None:
    found = _find(draft, event.execution_id)
    if found is None:
        recovery.stop_orphan(draft, event.execution_id, event.host)
        return
    group_id, processor_id = found
    if draft.processor(group_id, processor_id).phase is not Phase.STARTING:
        return
    containers.checked_in(draft, group_id, processor_id)
    action = actions.owns(draft.group(group_id), processor_id, Stage.STARTING)
    if action is not None:
        actions.checked_in(draft, group_id, action)


def _died(draft: Draft, execution_id: str, host: str) -> None:
    found = _find(draft, execution_id)
    if found is None:
        draft.emit(ForgetContainer(execution_id, host))
        return
    group_id, processor_id = found
    before = containers.bury(draft, group_id, processor_id)
    stages = (Stage.RESERVING, Stage.STOPPING, Stage.STARTING)
    action = actions.owns(draft.group(group_id), processor_id, *stages)
    if action is not None:
        actions.ended(draft, group_id, action, before)
    else:
        containers.ended(draft, group_id, before)


def _stop_failed(draft: Draft, execution_id: str) -> None:
    found = _find(draft, execution_id)
    if found is None:
        return
    group_id, processor_id = found
    action = actions.owns(draft.group(group_id), processor_id, Stage.STOPPING)
    if action is not None:
        actions.stop_failed(draft, group_id, action)


def _time_passed(draft: Draft) -> None:
    state = draft.snapshot()
    for request_id in deadlines.overdue_requests(state, draft.now_ms):
        _expired(draft, request_id, deadlines.NO_ANSWER)
    for group_id, processor_id in deadlines.overdue_processors(state, draft.now_ms):
        phase = draft.processor(group_id, processor_id).phase
        if phase is Phase.STARTING:
            containers.start_overdue(draft, group_id, processor_id)
        elif phase is Phase.STOPPING:
            containers.stop(draft, group_id, processor_id)


def _find(draft: Draft, execution_id: str) -> tuple[str, str] | None:
    """(group, processor) whose current incarnation this is."""
    for group in draft.groups.values():
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if incarnation is not None and incarnation.execution_id == execution_id:
                return group.group_id, processor.processor_id
    return None
