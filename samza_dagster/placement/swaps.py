"""The active takes a standby's place on request: STANDBY as one action, and fail-over.

STANDBY (SEP-22's phase 2, which takes two client calls there): reserve a new place for
the standby, stop it, reserve its host for the active, stop the active, start it there.
A fail-over (its phase 1, which stops the active first) doesn't wait for a new place of the
standby. In both the active runs on until its destination is held.
"""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    actions,
    containers,
    failover,
    host_limit,
    responses,
    rules,
    texts,
)
from samza_dagster.placement.commands import DeleteLocality, ReleaseResource
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import (
    Action,
    Group,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Stage,
)


def is_swap(ask: PlacementAsk) -> bool:
    """Whether the request puts the active in a standby's place."""
    if ask.kind is RequestKind.PLACE:
        return ask.destination_host == naming.STANDBY
    return ask.kind is RequestKind.FAIL_OVER


def target_host(draft: Draft, group: Group, active_id: str) -> list[str]:
    """The host of the standby whose place the active would take now; empty when none qualifies."""
    ranked = failover.candidates(draft, group, active_id)[:1]
    incarnations = [group.processors[standby_id].incarnation for standby_id in ranked]
    return [incarnation.host for incarnation in incarnations if incarnation is not None]


def begin(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """Begins with the standby soonest ready; one that runs has been seen to exist."""
    active = draft.processor(group_id, ask.processor_id)
    if active.phase is not Phase.RUNNING:
        _begin_while_down(draft, group_id, ask)
        return
    assert active.incarnation is not None
    standby_id = failover.candidates(draft, draft.group(group_id), ask.processor_id)[0]
    standby = draft.processor(group_id, standby_id)
    assert standby.incarnation is not None
    action = Action(
        ask,
        Stage.RESERVING_STANDBY,
        active.incarnation.host,
        standby_id=standby_id,
        target_host=standby.incarnation.host,
    )
    if ask.kind is RequestKind.FAIL_OVER:
        _stop_standby(draft, group_id, action)
        return
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED
    )
    _reserve_for_standby(draft, group_id, action)


def standby_allocated(
    draft: Draft, group_id: str, action: Action, reservation: ResourceRequest, host: str
) -> None:
    """The standby's new place is held: it gives way."""
    broken = rules.violation(draft.group(group_id), draft.hosts, action.standby_id, host)
    broken = broken or host_limit.full(draft, group_id, reservation, host)
    if broken is not None:
        draft.emit(ReleaseResource(reservation.request_id))
        if reservation.deadline_ms > draft.now_ms:
            _reserve_for_standby(draft, group_id, action)
        else:
            actions.reservation_failed(draft, group_id, action, f"{broken.seen}; {broken.change}")
        return
    held = reservation.evolve(allocated_host=host)
    _stop_standby(draft, group_id, action.evolve(standby_reservation=held, chosen_hosts=(host,)))


def standby_ended(draft: Draft, group_id: str, action: Action, before: Processor) -> None:
    """The standby has no process any more: as asked, or by itself (then FAILED)."""
    standby_id = before.processor_id
    if action.stage is Stage.RESERVING_STANDBY:
        responses.give_back(draft, action)
        responses.fail(draft, group_id, action, texts.standby_died(standby_id))
        draft.put_action(group_id, None)
        return
    place = action.standby_reservation
    if place is not None and place.allocated_host is not None:
        containers.hold(draft, group_id, standby_id, place, place.allocated_host)
    else:
        standby = draft.processor(group_id, standby_id)
        draft.put_processor(group_id, standby.evolve(last_seen_host=None))
        draft.emit(DeleteLocality(standby_id))
    action = action.evolve(stage=Stage.RESERVING, standby_reservation=None)
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED
    )
    actions.reserve(draft, group_id, action)


def standby_stop_failed(draft: Draft, group_id: str, action: Action) -> None:
    """The standby lives on where it was: FAILED, the active untouched, or sent back if it is down."""
    containers.lives_on(draft, group_id, action.standby_id)
    action = action.sparing(action.standby_id)
    actions.give_up(draft, group_id, action, texts.stop_failed(action.target_host))


def standby_lost(draft: Draft, group_id: str, action: Action) -> None:
    """The standby's host fell silent before it was seen dead: its place can't be taken."""
    actions.give_up(draft, group_id, action, texts.host_lost(action.target_host))


def _begin_while_down(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """The active is on its way back anyway: to the standby's host, without waiting further."""
    containers.drop_request(draft, group_id, ask.processor_id)
    source = draft.processor(group_id, ask.processor_id).last_seen_host
    action = Action(ask, Stage.STARTING, source)
    responses.respond(draft, group_id, action, texts.IN_PROGRESS, texts.STANDBY_STOP_IN_PROGRESS)
    begun = failover.begin(draft, group_id, ask.processor_id, f"asked by {ask.uuid}")
    assert begun, "a fail-over begins only when a standby qualifies"


def _stop_standby(draft: Draft, group_id: str, action: Action) -> None:
    action = action.evolve(stage=Stage.STOPPING_STANDBY).stopping(action.standby_id)
    responses.respond(draft, group_id, action, texts.IN_PROGRESS, texts.STANDBY_STOP_IN_PROGRESS)
    containers.stop(draft, group_id, action.standby_id)


def _reserve_for_standby(draft: Draft, group_id: str, action: Action) -> None:
    """Any host but the active's and the standby's own, within what is left of the time."""
    standby = draft.processor(group_id, action.standby_id)
    excluded = draft.forbidden_hosts(group_id, action.standby_id)
    excluded |= host_limit.full_hosts(draft, group_id)
    if standby.incarnation is not None:
        excluded.add(standby.incarnation.host)
    earlier = action.standby_reservation
    if earlier is None:
        expiry = actions.expiry_ms(draft, action.ask)
    else:
        expiry = containers.time_left_ms(draft, earlier)
    reservation = containers.new_request(draft, group_id, action.standby_id, None, excluded, expiry)
    draft.put_action(group_id, action.evolve(standby_reservation=reservation))
