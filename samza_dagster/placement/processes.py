"""Applies what was observed of a processor's process: it runs, has ended, or survived a stop.

An end concerns the group's action first, then its failover, then the processor alone.
"""

from __future__ import annotations

from samza_dagster.placement import (
    containers,
    failover,
    failures,
    moves,
    ownership,
    requests,
    standbys,
    texts,
)
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    Fallback,
    Move,
    Moving,
    Phase,
    Processor,
    Restart,
    SpinUp,
    Stage,
    Start,
    StopStandby,
    Swap,
    subject_of,
)


def note_check_in(step: GroupStep, processor: Processor) -> None:
    """Apply a check-in; a container that survives its stop counts as checked in."""
    processor_id = processor.processor_id
    if processor.phase is Phase.STOPPING:
        step.change(processor_id, start_deadline_ms=None)
    if processor.phase is not Phase.STARTING:
        return
    containers.check_in(step, processor_id)
    failed_over = ownership.is_failing_over(step.group, processor_id)
    if failed_over:
        step.put_failover(None)
    match ownership.starting_action(step.group, processor_id):
        case Start() as start:
            moves.complete(step, start, failed_over=failed_over)
        case SpinUp() as spin_up:
            standbys.complete_start(step, spin_up)
        case None if failed_over:
            requests.fail_needless_failovers(step, processor_id)
        case None:
            pass


def note_death(step: GroupStep, processor_id: str, evidence: str) -> None:
    """Apply the observed death of a processor's process."""
    note_end(step, containers.bury(step, processor_id, evidence), lost=False)


def note_end(step: GroupStep, before: Processor, *, lost: bool) -> None:
    """Apply a process's end; `before` is the processor with it, `lost`: its death wasn't seen."""
    processor_id, action = before.processor_id, step.action
    if not (action is None or isinstance(action, Fallback)) and subject_of(action) == processor_id:
        _end_subject(step, action, before, lost=lost)
        return
    swap = ownership.displacing_swap(step.group, processor_id)
    if swap is not None and not lost:
        moves.follow_standby_end(step, swap)
        if swap.stage is Stage.RESERVING_STANDBY:  # it ended without a stop
            _go_on(step, before)
        return
    group = step.group
    if ownership.is_failing_over(step.group, processor_id):
        step.put_failover(None)
    waited_for = failover.is_awaiting(group, before)
    pause_ms = failover.ACTIVE_FIRST_MS if waited_for and not lost else 0
    _go_on(step, before, pause_ms=pause_ms, lost=lost)
    if swap is not None:
        moves.give_up(step, swap, texts.host_lost(swap.place.host))
    elif lost and waited_for:
        failover.abandon(step, f"the host of {processor_id} fell silent before it was seen dead")


def _end_subject(
    step: GroupStep,
    action: Moving | SpinUp | StopStandby,
    before: Processor,
    *,
    lost: bool,
) -> None:
    assert before.incarnation is not None
    match action:
        case SpinUp():
            standbys.fail_start(step, action, before.incarnation.host)
        case StopStandby() if lost:
            standbys.fail_lost(step, action)
        case StopStandby():
            standbys.complete_stop(step, action)
        case _:
            if isinstance(action, Start) and ownership.is_failing_over(
                step.group, before.processor_id
            ):
                step.put_failover(None)
            moves.follow_end(step, action, before)


def _go_on(step: GroupStep, before: Processor, *, pause_ms: int = 0, lost: bool = False) -> None:
    """Begin the recovery from an end that no action caused, or (`lost`) from a host's silence.

    A processor that ran continues at once. Others take a turn to start, after `pause_ms` at the
    soonest.
    """
    processor_id = before.processor_id
    if not before.wanted:
        step.remove_processor(processor_id)
        return
    if before.phase is Phase.RUNNING:
        failures.count_death(step, processor_id)
        why = "its host fell silent" if lost else "its process ended by itself"
        failover.recover(step, processor_id, why)
        return
    if before.phase is Phase.STARTING:
        failures.count_failed_start(step, before)
    pause_ms = max(pause_ms, failures.pause_ms(step, step.processor(processor_id)))
    containers.wait(step, processor_id, not_before_ms=step.now_ms + pause_ms)


def note_failed_stop(step: GroupStep, processor: Processor) -> None:
    """Continue without a stop that the process survived."""
    # A stop without an owner (the processor isn't wanted, or its start was overdue) is repeated at
    # the processor's deadline.
    processor_id, failing_over = processor.processor_id, step.group.failover
    if processor.phase is not Phase.STOPPING:
        return
    match step.action:
        case StopStandby() as action if action.ask.processor_id == processor_id:
            standbys.fail_stop(step, action)
        case Move() | Restart() as action if (
            action.stage is Stage.STOPPING and action.ask.processor_id == processor_id
        ):
            moves.fail_stop(step, action)
        case Swap() as swap if (
            swap.stage is Stage.STOPPING_STANDBY and swap.place.standby_id == processor_id
        ):
            moves.fail_standby_stop(step, swap)
        case action if failing_over is not None and failover.is_awaiting(step.group, processor):
            containers.undo_stop(step, processor_id)
            if isinstance(action, Start) and action.ask.processor_id == failing_over.active_id:
                stopped = moves.without(action.stopped, processor_id)
                step.put_action(action.evolve(stopped=stopped))
            host = failing_over.host
            failover.abandon(step, f"{processor_id} lives on on {host} after its stop")
        case _:
            pass
