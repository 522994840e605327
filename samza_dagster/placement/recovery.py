"""What a coordinator that took over must say again.

Commands are not stored: each is derived from the state, with the id it had before,
and doing one twice does no harm (`docs/decisions/0001-no-outbox.md`).
"""

from __future__ import annotations

from samza_dagster.placement import (
    actions,
    containers,
    failures,
    leases,
    orphans,
    ownership,
    requests,
    responses,
    texts,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Phase, Processor, ResourceRequest, Stage


def restarted(draft: Draft, at_ms: int) -> None:
    """Says every outstanding command and the last response of everything in flight again.

    Deadlines count anew: the time without a coordinator is nobody's failure, and this
    leader's clock may be another. No earlier leader's lease outlasts one that would be
    granted now, so orphans count from now too. Hosts must register with this leader.
    """
    draft.now_ms = at_ms
    for host in tuple(draft.hosts.values()):
        draft.put_host(host.evolve(registered=False, silent_since_ms=at_ms))
    for group in tuple(draft.groups()):
        group_id = group.group_id
        if group.action is not None and group.action.status:
            draft.emit(responses.last(group.action))
        for ask in group.queue:
            why = requests.why_it_waits(draft, group, ask)
            responses.write(draft, ask, texts.ACCEPTED, texts.accepted(why))
        _renew_orphans(draft, group)
        _request_reservations_again(draft, draft.group(group_id))
        for processor in group.processors.values():
            _command_again(draft, group_id, processor)


def _renew_orphans(draft: Draft, group: Group) -> None:
    if not group.orphans:
        return
    over = leases.over_ms(draft.limits, draft.now_ms)
    draft.put_orphans(
        group.group_id,
        tuple(
            orphan
            if orphan.ended is not None
            else orphans.fenced_as_ever(orphan, draft.limits.fencing).evolve(lease_ends_ms=over)
            for orphan in group.orphans
        ),
    )
    for orphan in draft.group(group.group_id).orphans:
        if orphan.fencing and orphan.ended is None:
            draft.emit(orphans.fence_command(orphan))


def _request_reservations_again(draft: Draft, group: Group) -> None:
    action = group.action
    if action is None:
        return
    expiry = actions.expiry_ms(draft, action.ask)
    if action.reservation is not None:
        within_ms = actions.reservation_ms(draft, group.group_id, action)
        renewed = _renewed(draft, action.reservation, within_ms)
        if renewed.allocated_host is not None:
            renewed = renewed.evolve(confirmed=False)
        if action.stage is Stage.HELD:
            renewed = renewed.evolve(deadline_ms=draft.now_ms + expiry)
        action = action.evolve(reservation=renewed)
        draft.emit(
            containers.request_command(draft, group.group_id, ownership.subject(action), renewed)
        )
    if action.standby_reservation is not None:
        renewed = _renewed(draft, action.standby_reservation, expiry)
        action = action.evolve(standby_reservation=renewed)
        draft.emit(containers.request_command(draft, group.group_id, action.standby_id, renewed))
    draft.put_action(group.group_id, action)


def _command_again(draft: Draft, group_id: str, processor: Processor) -> None:
    processor_id, incarnation = processor.processor_id, processor.incarnation
    now_ms = draft.now_ms
    latest = now_ms + failures.LONGEST_PAUSE_MS
    processor = processor.evolve(not_before_ms=min(processor.not_before_ms, latest))
    draft.put_processor(group_id, processor)
    if processor.request is not None:
        request = _renewed(draft, processor.request, draft.limits.request_timeout_ms)
        draft.put_processor(group_id, processor.evolve(request=request))
        draft.emit(containers.request_command(draft, group_id, processor_id, request))
    elif incarnation is not None and processor.phase is Phase.STARTING:
        deadline = now_ms + draft.limits.start_timeout_ms
        draft.put_processor(group_id, processor.evolve(deadline_ms=deadline))
        draft.emit(containers.start_command(processor_id, incarnation))
    elif incarnation is not None and processor.phase is Phase.STOPPING:
        if processor.start_deadline_ms is not None:
            deadline = now_ms + draft.limits.start_timeout_ms
            draft.put_processor(group_id, processor.evolve(start_deadline_ms=deadline))
        containers.stop(draft, group_id, processor_id)


def _renewed(draft: Draft, request: ResourceRequest, expiry_ms: int) -> ResourceRequest:
    return request.evolve(deadline_ms=draft.now_ms + expiry_ms + containers.REQUEST_MARGIN_MS)
