"""Finds what acts on a processor: the group's action, its failover, or nothing. Reads alone."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.state import (
    Action,
    End,
    Group,
    JobState,
    Move,
    Orphan,
    Phase,
    PlacementAsk,
    Processor,
    SpinUp,
    Stage,
    StandbyPlace,
    Start,
    Swap,
    request_of,
    subject_of,
)

# Looked up once: an access to an Enum member costs 0.1 µs until Python 3.12.
_START_STANDBY = RequestKind.START_STANDBY


def requester(group: Group, request_id: str) -> Action | Processor | None:
    """Return the action that reserves a resource, or the processor that waits for it or uses it."""
    action = group.action
    request = request_of(action)
    if request is not None and request.request_id == request_id:
        return action
    for processor in group.processors.values():
        request, incarnation = processor.request, processor.incarnation
        if request is not None and request.request_id == request_id:
            return processor
        if incarnation is not None and incarnation.request_id == request_id:
            return processor
    return None


def bearer(group: Group, execution_id: str) -> Orphan | Processor | None:
    """Return the orphan or the processor that has this incarnation."""
    for orphan in group.orphans:
        if orphan.incarnation.execution_id == execution_id:
            return orphan
    for processor in group.processors.values():
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.execution_id == execution_id:
            return processor
    return None


def starting_action(group: Group, processor_id: str) -> Start | SpinUp | None:
    """Return the group's action when it waits for this processor to start."""
    action = group.action
    match action:
        case Start(ask=ask) if ask.processor_id == processor_id:
            return action
        case SpinUp(request=None, standby_id=standby_id) if standby_id == processor_id:
            return action
        case _:
            return None


def is_failing_over(group: Group, processor_id: str) -> bool:
    """Return whether the group's failover is about this active."""
    return group.failover is not None and group.failover.active_id == processor_id


def displacing_swap(group: Group, standby_id: str) -> Swap | None:
    """Return the action that is displacing this standby, until the standby's end."""
    action = group.action
    if isinstance(action, Swap) and action.place.standby_id == standby_id:
        return action
    return None


def is_down(group: Group, processor_id: str) -> bool:
    """Return whether a member has no known process. A standby yet to be added isn't down."""
    processor = group.processors.get(processor_id)
    return processor is not None and processor.incarnation is None


def is_awaiting_reservation(group: Group, processor_id: str) -> bool:
    """Return whether an action already reserves or clears the next place of this down processor."""
    action = group.action
    return (
        action is not None
        and action.stage in (Stage.STOPPING_STANDBY, Stage.RESERVING)
        and subject_of(action) == processor_id
    )


def place_taken(group: Group, processor_id: str) -> StandbyPlace | None:
    """Return the standby's place that a failover or an action gives to this active."""
    failover, action = group.failover, group.action
    if failover is not None and failover.active_id == processor_id:
        return StandbyPlace(failover.standby_id, failover.host)
    if isinstance(action, (Swap, Move, Start)) and action.ask.processor_id == processor_id:
        return action.place
    return None


def is_starting(state: JobState, execution_id: str) -> bool:
    """Return whether this incarnation is its processor's present one and hasn't checked in."""
    group = state.groups.get(state.index.by_id.get(execution_id, ""))
    found = None if group is None else bearer(group, execution_id)
    return isinstance(found, Processor) and found.phase is Phase.STARTING


def owning_orphan(group: Group, processor_id: str) -> Orphan | None:
    """Return an earlier incarnation that may still own this processor's tasks."""
    for orphan in group.orphans:
        if orphan.processor_id == processor_id and orphan.ended is None:
            return orphan
    return None


def older_owner(groups: Iterable[Group], regrouped_epoch: int) -> str | None:
    """Return an incarnation that may own tasks which a later deployment gave to another group."""
    # This walks over all groups, so it is called only while `regrouped_epoch` isn't 0.
    for group in groups:
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if incarnation is not None and incarnation.epoch < regrouped_epoch:
                return incarnation.execution_id
        for orphan in group.orphans:
            if orphan.ended is None and orphan.incarnation.epoch < regrouped_epoch:
                return orphan.incarnation.execution_id
    return None


def next_ask(group: Group) -> PlacementAsk | None:
    """Return the first queued request that could begin now: its group is free, it is ready."""
    if not group.queue or group.action is not None or group.failover is not None:
        return None
    for ask in group.queue:
        if is_ready(group, ask):
            return ask
    return None


def is_ready(group: Group, ask: PlacementAsk) -> bool:
    """Return whether the processor is in a phase that the request can act on."""
    if ask.kind is _START_STANDBY:
        return True
    processor = group.processors.get(ask.processor_id)
    if processor is None:
        # The processor was removed meanwhile: the request begins in order to be refused.
        return True
    if ask.kind is RequestKind.STOP_STANDBY:
        held = (orphan for orphan in group.orphans if not orphan.left_behind)
        return all(orphan.processor_id != ask.processor_id for orphan in held)
    if ask.kind is RequestKind.FAIL_OVER:
        return processor.phase in (Phase.RUNNING, Phase.WAITING, Phase.REQUESTING, Phase.RESERVED)
    return processor.phase is Phase.RUNNING


def newest_end(*ends: End | None) -> End | None:
    """Return the end of the newest incarnation, the last one named; None if unknown."""
    newest: End | None = None
    for end in ends:
        if end is not None and (newest is None or end.epoch >= newest.epoch):
            newest = end
    return newest
