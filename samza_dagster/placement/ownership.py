"""Who acts on a processor: the group's action, its failover, or nobody. Reads alone."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.state import (
    Action,
    End,
    Group,
    JobState,
    Orphan,
    Phase,
    PlacementAsk,
    Stage,
)

# Looked up once: an access to a member of an Enum costs 0.1 µs until Python 3.12.
_START_STANDBY = RequestKind.START_STANDBY
FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)
# Nothing was stopped yet: the action can still be given up without a trace.
REVOCABLE = (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)


def subject(action: Action) -> str:
    """The processor that an action starts or stops in the end."""
    if action.ask.kind is _START_STANDBY:
        return action.standby_id
    return action.ask.processor_id


def acts_on(action: Action | None, processor_id: str, *stages: Stage) -> bool:
    """Whether this is the action's subject, in one of these stages."""
    return action is not None and action.stage in stages and subject(action) == processor_id


def owner(group: Group, processor_id: str, *stages: Stage) -> Action | None:
    """The group's action when its subject is this processor, in one of these stages."""
    return group.action if acts_on(group.action, processor_id, *stages) else None


def displacing(group: Group, standby_id: str, *stages: Stage) -> Action | None:
    """The action that puts the active in this standby's place, in one of these stages."""
    action = group.action
    if action is None or action.stage not in stages or action.standby_id != standby_id:
        return None
    return None if action.ask.kind is _START_STANDBY else action


def is_down(group: Group, processor_id: str) -> bool:
    """It is of the group, and has no process that is known of. One yet to be added isn't down."""
    processor = group.processors.get(processor_id)
    return processor is not None and processor.incarnation is None


def awaits_reservation(group: Group, processor_id: str) -> bool:
    """It is down, and an action already reserves its next place, or has it cleared."""
    return acts_on(group.action, processor_id, Stage.STOPPING_STANDBY, Stage.RESERVING)


def gives_way(group: Group, processor_id: str) -> str | None:
    """The standby whose place this active is to take."""
    if group.failover is not None and group.failover.active_id == processor_id:
        return group.failover.standby_id
    action = group.action
    if action is not None and action.standby_id and action.ask.processor_id == processor_id:
        return None if action.ask.kind is _START_STANDBY else action.standby_id
    return None


def place_taken(group: Group, processor_id: str) -> str | None:
    """The host that a standby leaves to this active, by a failover or an action."""
    failover, action = group.failover, group.action
    if failover is not None and failover.active_id == processor_id:
        return failover.host
    if action is not None and action.standby_id and action.ask.processor_id == processor_id:
        return None if action.ask.kind is _START_STANDBY else action.target_host
    return None


def is_starting(state: JobState, execution_id: str) -> bool:
    """Whether this incarnation is the one that its processor is to have, and hasn't checked in."""
    group = state.groups.get(state.index.by_id.get(execution_id, ""))
    for processor in () if group is None else group.processors.values():
        incarnation = processor.incarnation
        if incarnation is not None and incarnation.execution_id == execution_id:
            return processor.phase is Phase.STARTING
    return False


def owning_orphan(group: Group, processor_id: str) -> Orphan | None:
    """An earlier incarnation that may still own this processor's tasks."""
    for orphan in group.orphans:
        if orphan.processor_id == processor_id and orphan.ended is None:
            return orphan
    return None


def older_owner(groups: Iterable[Group], regrouped_epoch: int) -> str | None:
    """An incarnation that may own tasks which its deployment's successor gave to another group.

    A walk over all groups: only while the state's `regrouped_epoch` isn't 0.
    """
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
    """The first queued request that could begin now: its group is free, it is ready."""
    if not group.queue or group.action is not None or group.failover is not None:
        return None
    for ask in group.queue:
        if is_ready(group, ask):
            return ask
    return None


def is_ready(group: Group, ask: PlacementAsk) -> bool:
    """Whether the processor is in a phase that the request can act on."""
    if ask.kind is _START_STANDBY:
        return True
    processor = group.processors.get(ask.processor_id)
    if processor is None:
        # It was removed meanwhile: the request begins in order to be refused.
        return True
    if ask.kind is RequestKind.STOP_STANDBY:
        held = (orphan for orphan in group.orphans if not orphan.left_behind)
        return all(orphan.processor_id != ask.processor_id for orphan in held)
    if ask.kind is RequestKind.FAIL_OVER:
        return processor.phase in (Phase.RUNNING, Phase.WAITING, Phase.REQUESTING, Phase.RESERVED)
    return processor.phase is Phase.RUNNING


def newest_end(*ends: End | None) -> End | None:
    """How the newest incarnation among these ended, by what is named last; None if unknown."""
    newest: End | None = None
    for end in ends:
        if end is not None and (newest is None or end.epoch >= newest.epoch):
            newest = end
    return newest
