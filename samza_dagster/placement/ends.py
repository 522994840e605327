"""What follows when a processor has no process any more: who is told, and what they do."""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    actions,
    containers,
    failover,
    failures,
    ownership,
    spin_up,
    swaps,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Action, Group, Phase, Processor, Stage

_MOVING = (
    Stage.RESERVING_STANDBY,
    Stage.STOPPING_STANDBY,
    Stage.RESERVING,
    Stage.HELD,
    Stage.STOPPING,
    Stage.STARTING,
)
_DISPLACING = (Stage.RESERVING_STANDBY, Stage.STOPPING_STANDBY)


def after_end(draft: Draft, group_id: str, before: Processor, *, lost: bool) -> None:
    """`before` is the processor as it was with its process; `lost`: nobody saw it die."""
    processor_id = before.processor_id
    group = draft.group(group_id)
    action = ownership.owner(group, processor_id, *_MOVING)
    if action is not None:
        _subject_ended(draft, group_id, action, before, lost=lost)
        return
    displacing = ownership.displacing(group, processor_id, *_DISPLACING)
    if displacing is not None and not lost:
        _standby_gave_way(draft, group_id, displacing, before)
        return
    failing_over = group.failover
    if failing_over is not None and failing_over.active_id == processor_id:
        draft.put_failover(group_id, None)
    gave_way = not lost and failover.waits_for(group, before)
    pause_ms = failover.ACTIVE_FIRST_MS if gave_way else 0
    by_itself(draft, group_id, before, pause_ms=pause_ms, lost=lost)
    if displacing is not None:
        swaps.standby_lost(draft, group_id, displacing)
    elif lost and failover.waits_for(group, before):
        why = f"the host of {processor_id} fell silent before it was seen dead"
        failover.abandon(draft, group_id, why)


def by_itself(
    draft: Draft, group_id: str, before: Processor, *, pause_ms: int = 0, lost: bool = False
) -> None:
    """An end that no action asked for, or (`lost`) a host's silence: the way back begins.

    One that ran goes on at once. Others take a turn to start, `pause_ms` from now at the
    soonest.
    """
    processor_id = before.processor_id
    if not before.wanted:
        draft.remove_processor(group_id, processor_id)
        return
    if before.phase is Phase.RUNNING:
        failures.count_death(draft, group_id, processor_id)
        why = "its host fell silent" if lost else "its process ended by itself"
        failover.recover(draft, group_id, processor_id, why)
        return
    if before.phase is Phase.STARTING:
        failures.count_failed_start(draft, group_id, before)
    processor = draft.processor(group_id, processor_id)
    pause_ms = max(pause_ms, failures.pause_ms(processor, draft.now_ms, draft.limits))
    containers.wait(draft, group_id, processor_id, not_before_ms=draft.now_ms + pause_ms)


def _subject_ended(
    draft: Draft, group_id: str, action: Action, before: Processor, *, lost: bool
) -> None:
    assert before.incarnation is not None
    match action.ask.kind:
        case RequestKind.START_STANDBY:
            spin_up.start_failed(draft, group_id, action, before.incarnation.host)
        case RequestKind.STOP_STANDBY if lost:
            spin_up.lost(draft, group_id, action)
        case RequestKind.STOP_STANDBY:
            spin_up.stopped(draft, group_id, action)
        case _:
            failing_over = draft.group(group_id).failover
            if failing_over is not None and failing_over.active_id == before.processor_id:
                draft.put_failover(group_id, None)
            actions.ended(draft, group_id, action, before)


def _standby_gave_way(draft: Draft, group_id: str, action: Action, before: Processor) -> None:
    if action.stage is Stage.RESERVING_STANDBY:
        swaps.standby_ended(draft, group_id, action, before)
        by_itself(draft, group_id, before)
        return
    swaps.standby_ended(draft, group_id, action, before)


def stop_failed(draft: Draft, group: Group, processor_id: str) -> None:
    """The process outlives its stop: whoever asked for it must do without.

    One that nobody asked for any more (it isn't wanted, or its start was overdue) is
    stopped again when its deadline comes.
    """
    group_id = group.group_id
    action = ownership.owner(group, processor_id, Stage.STOPPING)
    displacing = ownership.displacing(group, processor_id, Stage.STOPPING_STANDBY)
    if action is not None and action.ask.kind is RequestKind.STOP_STANDBY:
        spin_up.stop_failed(draft, group_id, action)
    elif action is not None:
        actions.stop_failed(draft, group_id, action)
    elif displacing is not None:
        swaps.standby_stop_failed(draft, group_id, displacing)
    elif failover.waits_for(group, group.processors[processor_id]):
        assert group.failover is not None
        host = group.failover.host
        containers.lives_on(draft, group_id, processor_id)
        asked = ownership.owner(group, group.failover.active_id, Stage.STARTING)
        if asked is not None:
            draft.put_action(group_id, asked.sparing(processor_id))
        failover.abandon(draft, group_id, f"{processor_id} lives on on {host} after its stop")
