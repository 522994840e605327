"""Repeats the commands that a predecessor may have lost, after a take-over.

Commands are not stored. Each derives from the state with its former id, and a repetition does no
harm (`docs/decisions/0001-no-outbox.md`).
"""

from __future__ import annotations

from samza_dagster.placement import (
    containers,
    failures,
    hosts,
    moves,
    requests,
    responses,
    texts,
)
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.state import (
    Move,
    Phase,
    Processor,
    ResourceRequest,
    SpinUp,
    Stage,
    Swap,
    claimant_of,
)


def repeat_commands(draft: Draft, at_ms: int) -> None:
    """Repeat every outstanding command and the last response of everything in flight.

    Deadlines restart: time without a coordinator is no processor's failure, and this leader's
    clock may be another. No earlier leader's lease outlasts one that would be granted now, so
    orphans count from now too. Hosts must register with this leader.
    """
    draft.now_ms = at_ms
    for host in tuple(draft.hosts.values()):
        draft.put_host(host.evolve(registered=False, silent_since_ms=at_ms))
    for group in tuple(draft.groups()):
        step = draft.at(group.group_id)
        if group.action is not None:
            draft.emit(responses.last(group.action))
        for ask in group.queue:
            why = requests.why_it_waits(step, ask)
            responses.write(draft, ask, texts.ACCEPTED, texts.accepted(why))
        hosts.renew_orphans(step)
        _request_again(step)
        for processor in group.processors.values():
            _command_again(step, processor)


def _request_again(step: GroupStep) -> None:
    """Repeat an action's request; a held destination counts again once it is confirmed."""
    action = step.action
    if not isinstance(action, (Swap, Move, SpinUp)) or action.request is None:
        return
    request = _renewed(step, action.request, moves.renewed_ms(step, action))
    if isinstance(action, Move) and request.allocated_host is not None:
        request = request.evolve(confirmed=False)
        if action.stage is Stage.HELD:
            expiry_ms = moves.expiry_ms(step, action.ask)
            request = request.evolve(deadline_ms=step.now_ms + expiry_ms)
    containers.ask(step, claimant_of(action), request)
    step.put_action(action.evolve(request=request))


def _command_again(step: GroupStep, processor: Processor) -> None:
    processor_id, incarnation = processor.processor_id, processor.incarnation
    latest = step.now_ms + failures.LONGEST_PAUSE_MS
    step.change(processor_id, not_before_ms=min(processor.not_before_ms, latest))
    if processor.request is not None:
        request = _renewed(step, processor.request, step.limits.request_timeout_ms)
        step.change(processor_id, request=request)
        containers.ask(step, processor_id, request)
    elif incarnation is not None and processor.phase is Phase.STARTING:
        step.change(processor_id, deadline_ms=step.now_ms + step.limits.start_timeout_ms)
        step.emit(containers.start_command(processor_id, incarnation))
    elif incarnation is not None and processor.phase is Phase.STOPPING:
        if processor.start_deadline_ms is not None:
            deadline_ms = step.now_ms + step.limits.start_timeout_ms
            step.change(processor_id, start_deadline_ms=deadline_ms)
        containers.stop(step, processor_id)


def _renewed(step: GroupStep, request: ResourceRequest, expiry_ms: int) -> ResourceRequest:
    return request.evolve(deadline_ms=step.now_ms + expiry_ms + containers.REQUEST_MARGIN_MS)
