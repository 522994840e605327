"""Placement actions: reserve, stop, move; and the way back when a part of it fails.

A request for a host, ANY_HOST or LAST_SEEN reserves first; the container is stopped
only once the reservation is held, so a failure to reserve leaves it untouched.
FORCE_RESTART_LAST_SEEN stops first. After FAILED with the container down, the action
stays in a fallback stage until the container runs again. (SEP-22.)
"""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.model import naming
from samza_dagster.placement import containers, rules, texts
from samza_dagster.placement.commands import CountMetric, ReleaseResource, WriteResponse
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

FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)


def owns(group: Group, processor_id: str, *stages: Stage) -> Action | None:
    """The group's action when it acts on this processor and is in one of the stages."""
    action = group.action
    if action is None or action.ask.processor_id != processor_id or action.stage not in stages:
        return None
    return action


def begin(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """Begins to act on a request; its group is free and its processor runs."""
    processor = draft.processor(group_id, ask.processor_id)
    assert processor.incarnation is not None
    source = processor.incarnation.host
    if ask.destination_host == naming.FORCE_RESTART_LAST_SEEN:
        action = Action(ask, Stage.STOPPING, source)
        _respond(draft, group_id, action, texts.IN_PROGRESS, texts.STOP_IN_PROGRESS)
        containers.stop(draft, group_id, ask.processor_id)
        return
    action = Action(ask, Stage.RESERVING, source)
    action = _respond(draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED)
    _reserve(draft, group_id, action)


def allocated(
    draft: Draft, group_id: str, action: Action, reservation: ResourceRequest, host: str
) -> None:
    """The destination is held. The rules are checked again, before anything is stopped."""
    processor_id = action.ask.processor_id
    broken = rules.violation(draft.group(group_id), draft.hosts, processor_id, host)
    if broken is not None:
        draft.emit(ReleaseResource(reservation.request_id))
        if reservation.host is None and reservation.deadline_ms > draft.now_ms:
            _reserve(draft, group_id, action)
        else:
            _reservation_failed(draft, group_id, action, f"{broken.seen}; {broken.change}")
        return
    action = replace(action, reservation=replace(reservation, allocated_host=host))
    processor = draft.processor(group_id, processor_id)
    if processor.incarnation is None:
        _start(draft, group_id, action)
        return
    action = replace(action, stage=Stage.STOPPING)
    _respond(draft, group_id, action, texts.IN_PROGRESS, texts.STOP_IN_PROGRESS)
    containers.stop(draft, group_id, processor_id)


def expired(
    draft: Draft, group_id: str, action: Action, request: ResourceRequest, why: str
) -> None:
    """Nothing was held in time: FAILED. A container that still runs is left untouched."""
    draft.emit(ReleaseResource(request.request_id))
    _reservation_failed(draft, group_id, action, why)


def ended(draft: Draft, group_id: str, action: Action, before: Processor) -> None:
    """The container is dead; `before` is what `containers.bury` returned."""
    processor_id = before.processor_id
    if action.stage is Stage.RESERVING:
        # It died by itself: it starts on the reserved host as soon as that is held.
        containers.count_death(draft, group_id, processor_id)
    elif action.stage is Stage.STOPPING and action.reservation is not None:
        _start(draft, group_id, action)
    elif action.stage is Stage.STOPPING:
        _request_same_host(draft, group_id, action)
    else:
        if before.phase is Phase.STARTING:
            containers.count_failed_start(draft, group_id, before)
        assert before.incarnation is not None
        host = before.incarnation.host
        _fall_back(draft, group_id, action, _failed_start_text(draft, action, host))


def checked_in(draft: Draft, group_id: str, action: Action) -> None:
    """The container runs where the action started it: SUCCEEDED."""
    incarnation = draft.processor(group_id, action.ask.processor_id).incarnation
    assert incarnation is not None
    _respond(draft, group_id, action, texts.SUCCEEDED, texts.started(incarnation.host))
    draft.put_action(group_id, None)


def stop_failed(draft: Draft, group_id: str, action: Action) -> None:
    """The container lives on: FAILED, and what was reserved is given back."""
    processor = draft.processor(group_id, action.ask.processor_id)
    if action.reservation is not None:
        draft.emit(ReleaseResource(action.reservation.request_id))
    draft.put_processor(group_id, replace(processor, phase=Phase.RUNNING, deadline_ms=None))
    _fail(draft, group_id, action, texts.stop_failed(action.source_host or ""))
    draft.put_action(group_id, None)


def same_host_allocated(
    draft: Draft, group_id: str, action: Action, request: ResourceRequest, host: str
) -> None:
    """The forced restart has its host back."""
    processor_id = action.ask.processor_id
    broken = rules.violation(draft.group(group_id), draft.hosts, processor_id, host)
    if broken is None:
        containers.start(draft, group_id, processor_id, request.request_id, host)
        return
    draft.emit(ReleaseResource(request.request_id))
    _fall_back(draft, group_id, action, _became_illegal_text(draft, action, broken))


def abandon(draft: Draft, group_id: str, message: str) -> None:
    """Ends the group's action, and fails all that wait. The containers stay as they are."""
    group = draft.group(group_id)
    action = group.action
    if action is not None:
        if action.reservation is not None:
            draft.emit(ReleaseResource(action.reservation.request_id))
        if action.stage not in FALLBACK:
            _fail(draft, group_id, action, message)
        draft.put_action(group_id, None)
    for ask in group.queue:
        write(draft, ask, texts.FAILED, message)
    draft.put_queue(group_id, ())


def follow(draft: Draft, group_id: str) -> None:
    """Keeps a fallback's stage true, and ends it when the container runs."""
    group = draft.groups.get(group_id)
    if group is None or group.action is None or group.action.stage not in FALLBACK:
        return
    processor = group.processors[group.action.ask.processor_id]
    if processor.phase is Phase.RUNNING:
        draft.put_action(group_id, None)
        return
    at_source = processor.incarnation or (processor.request and processor.request.host)
    if group.action.stage is Stage.FALLBACK_SOURCE and not at_source:
        draft.put_action(group_id, replace(group.action, stage=Stage.FALLBACK_ANY))


def write(draft: Draft, ask: PlacementAsk, status: str, message: str) -> None:
    """Writes a response to a request."""
    draft.emit(response(ask, status, message, draft.now_ms))


def response(ask: PlacementAsk, status: str, message: str, at_ms: int) -> WriteResponse:
    """The response record; it echoes the destination as it was asked."""
    return WriteResponse(
        uuid=ask.uuid,
        deployment_id=ask.deployment_id,
        processor_id=ask.processor_id,
        destination_host=ask.destination_host,
        status=status,
        message=message,
        timestamp_ms=at_ms,
        request_expiry_ms=ask.expiry_ms,
    )


def _respond(draft: Draft, group_id: str, action: Action, status: str, message: str) -> Action:
    action = replace(action, status=status, message=message, response_ms=draft.now_ms)
    draft.put_action(group_id, action)
    write(draft, action.ask, status, message)
    return action


def _fail(draft: Draft, group_id: str, action: Action, message: str) -> Action:
    draft.emit(CountMetric("failed-container-placements-actions"))
    return _respond(draft, group_id, action, texts.FAILED, message)


def _reserve(draft: Draft, group_id: str, action: Action) -> None:
    """Asks for the destination, within what is left of the request's own time."""
    ask = action.ask
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if ask.destination_host == naming.LAST_SEEN:
        host = action.source_host
    elif ask.destination_host == naming.ANY_HOST:
        host = None
        taken = rules.taken_hosts(draft.group(group_id), ask.processor_id)
        excluded = set(taken) | rules.lost_hosts(draft.hosts)
        if action.source_host is not None:
            excluded.add(action.source_host)
    earlier = action.reservation
    if earlier is None:
        expiry = draft.limits.request_timeout_ms if ask.expiry_ms is None else ask.expiry_ms
    else:
        expiry = max(1, earlier.deadline_ms - containers.REQUEST_MARGIN_MS - draft.now_ms)
    reservation = containers.new_request(draft, ask.processor_id, host, excluded, expiry)
    draft.put_action(group_id, replace(action, reservation=reservation))


def _reservation_failed(draft: Draft, group_id: str, action: Action, why: str) -> None:
    processor = draft.processor(group_id, action.ask.processor_id)
    if processor.incarnation is None:
        _fall_back(draft, group_id, action, texts.expired(why))
        return
    _fail(draft, group_id, action, texts.expired(why))
    draft.put_action(group_id, None)


def _start(draft: Draft, group_id: str, action: Action) -> None:
    """Starts on the reserved host, unless it became illegal since."""
    reservation = action.reservation
    assert reservation is not None
    assert reservation.allocated_host is not None
    host = reservation.allocated_host
    processor_id = action.ask.processor_id
    broken = rules.violation(draft.group(group_id), draft.hosts, processor_id, host)
    if broken is not None:
        draft.emit(ReleaseResource(reservation.request_id))
        _fall_back(draft, group_id, action, _became_illegal_text(draft, action, broken))
        return
    draft.put_action(group_id, replace(action, stage=Stage.STARTING, reservation=None))
    containers.start(draft, group_id, processor_id, reservation.request_id, host)


def _request_same_host(draft: Draft, group_id: str, action: Action) -> None:
    """The forced restart: its own host again, by name."""
    action = replace(action, stage=Stage.STARTING)
    action = _respond(draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED)
    ask = action.ask
    expiry = draft.limits.request_timeout_ms if ask.expiry_ms is None else ask.expiry_ms
    request = containers.new_request(draft, ask.processor_id, action.source_host, set(), expiry)
    processor = draft.processor(group_id, ask.processor_id)
    draft.put_processor(group_id, replace(processor, phase=Phase.REQUESTING, request=request))


def _fall_back(draft: Draft, group_id: str, action: Action, message: str) -> None:
    """FAILED with the container down: the source host if it may, then any legal host."""
    action = _fail(draft, group_id, action, message)
    source = action.source_host if draft.limits.host_affinity else None
    stage = Stage.FALLBACK_SOURCE if source else Stage.FALLBACK_ANY
    draft.put_action(group_id, replace(action, stage=stage, reservation=None))
    containers.ask(draft, group_id, action.ask.processor_id, source)
    follow(draft, group_id)


def _failed_start_text(draft: Draft, action: Action, host: str) -> str:
    source = action.source_host if draft.limits.host_affinity else None
    return texts.start_failed(host, source or naming.ANY_HOST)


def _became_illegal_text(draft: Draft, action: Action, broken: rules.Violation) -> str:
    if broken.rule == rules.SAME_HOST:
        return texts.constraints_now(broken.host)
    return _failed_start_text(draft, action, broken.host)
