"""Placement actions: reserve, stop, move; and the way back when a part of it fails.

A request for a host, ANY_HOST or LAST_SEEN reserves first; the container is stopped
only once the reservation is held, so a failure to reserve leaves it untouched.
FORCE_RESTART_LAST_SEEN stops first. After FAILED with the container down, the action
stays in a fallback stage until the container runs again. (SEP-22.)
"""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import (
    containers,
    failover,
    failures,
    host_limit,
    ownership,
    responses,
    rules,
    texts,
)
from samza_dagster.placement.commands import ReleaseResource
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import (
    Action,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Stage,
)


def begin(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """Begins to act on a request; its group is free and its processor runs."""
    processor = draft.processor(group_id, ask.processor_id)
    assert processor.incarnation is not None
    source = processor.incarnation.host
    if ask.destination_host == naming.FORCE_RESTART_LAST_SEEN:
        action = Action(ask, Stage.STOPPING, source).stopping(ask.processor_id)
        responses.respond(draft, group_id, action, texts.IN_PROGRESS, texts.STOP_IN_PROGRESS)
        containers.stop(draft, group_id, ask.processor_id)
        return
    action = Action(ask, Stage.RESERVING, source)
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED
    )
    reserve(draft, group_id, action)


def reserve(draft: Draft, group_id: str, action: Action) -> None:
    """Asks for the destination, within what is left of the request's own time."""
    ask = action.ask
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if action.target_host is not None:
        host = action.target_host
    elif ask.destination_host == naming.LAST_SEEN:
        host = action.source_host
    elif ask.destination_host == naming.ANY_HOST:
        host = None
        excluded = draft.forbidden_hosts(group_id, ask.processor_id)
        excluded |= host_limit.full_hosts(draft, group_id)
        if action.source_host is not None:
            excluded.add(action.source_host)
    earlier = action.reservation
    if earlier is None:
        expiry = reservation_ms(draft, group_id, action)
    else:
        expiry = containers.time_left_ms(draft, earlier)
    reservation = containers.new_request(draft, group_id, ask.processor_id, host, excluded, expiry)
    draft.put_action(group_id, action.evolve(reservation=reservation))


def allocated(
    draft: Draft, group_id: str, action: Action, reservation: ResourceRequest, host: str
) -> None:
    """The destination is held. The rules are checked again, before anything is stopped.

    A container that is down meanwhile waits for no limit.
    """
    processor_id = action.ask.processor_id
    broken = rules.violation(draft.group(group_id), draft.hosts, processor_id, host)
    if broken is None and draft.processor(group_id, processor_id).incarnation is not None:
        broken = host_limit.full(draft, group_id, reservation, host)
    if broken is not None:
        draft.emit(ReleaseResource(reservation.request_id))
        if reservation.host is None and reservation.deadline_ms > draft.now_ms:
            reserve(draft, group_id, action)
        else:
            reservation_failed(draft, group_id, action, f"{broken.seen}; {broken.change}")
        return
    if reservation.host is None:
        action = action.evolve(chosen_hosts=(host,))
    reservation = reservation.evolve(allocated_host=host)
    if draft.processor(group_id, processor_id).incarnation is None:
        _start(draft, group_id, action.evolve(reservation=reservation))
        return
    if action.ask.hold and not action.committed:
        expiry = expiry_ms(draft, action.ask)
        reservation = reservation.evolve(deadline_ms=draft.now_ms + expiry)
        action = action.evolve(stage=Stage.HELD, reservation=reservation)
        responses.respond(draft, group_id, action, texts.IN_PROGRESS, texts.held(host, expiry))
        return
    _stop(draft, group_id, action.evolve(reservation=reservation))


def committed(draft: Draft, group_id: str, action: Action) -> None:
    """The client says: go on. A reservation that isn't known to be held goes on once it is."""
    action = action.evolve(committed=True)
    draft.put_action(group_id, action)
    if action.stage is Stage.HELD and action.reservation and action.reservation.confirmed:
        _stop(draft, group_id, action)


def confirmed(draft: Draft, group_id: str, action: Action, reservation: ResourceRequest) -> None:
    """The cluster says again that the reservation is held."""
    action = action.evolve(reservation=reservation.evolve(confirmed=True))
    draft.put_action(group_id, action)
    if action.stage is Stage.HELD and action.committed:
        _stop(draft, group_id, action)


def hold_expired(draft: Draft, group_id: str, action: Action) -> None:
    """Nobody committed in time, or the host didn't confirm: FAILED, the container untouched."""
    assert action.reservation is not None
    host = action.reservation.allocated_host or ""
    why = texts.not_confirmed(host) if action.committed else texts.hold_expired(host)
    give_up(draft, group_id, action, why)


def give_up(draft: Draft, group_id: str, action: Action, message: str) -> None:
    """FAILED before anything was stopped; a container that ended by itself goes its way."""
    responses.give_back(draft, action)
    if draft.processor(group_id, action.ask.processor_id).incarnation is None:
        fall_back(draft, group_id, action, message)
        return
    responses.fail(draft, group_id, action, message)
    draft.put_action(group_id, None)


def expired(
    draft: Draft, group_id: str, action: Action, request: ResourceRequest, why: str
) -> None:
    """Nothing was held in time: FAILED. A container that still runs is left untouched."""
    draft.emit(ReleaseResource(request.request_id))
    reservation_failed(draft, group_id, action, why)


def reservation_failed(draft: Draft, group_id: str, action: Action, why: str) -> None:
    """No destination: FAILED, and a container that is down goes the way back."""
    processor = draft.processor(group_id, action.ask.processor_id)
    if processor.incarnation is None:
        message = texts.expired(why)
        if action.stage is Stage.RESERVING:  # it wasn't stopped for this
            message = texts.expired_while_down(why, processor.processor_id)
        fall_back(draft, group_id, action, message)
        return
    responses.fail(draft, group_id, action, texts.expired(why))
    draft.put_action(group_id, None)


def ended(draft: Draft, group_id: str, action: Action, before: Processor) -> None:
    """The container has no process any more; `before` is the processor as it was."""
    processor_id = before.processor_id
    if action.stage is Stage.STOPPING_STANDBY or (
        action.stage is Stage.RESERVING and not action.ask.hold
    ):
        # It ended by itself: it starts at its destination as soon as that is held. A standby
        # that was told to give way has the only other copy of its state.
        failures.count_death(draft, group_id, processor_id)
        _wait_no_longer(draft, group_id, action)
    elif action.stage in (Stage.STOPPING, Stage.STARTING):
        _ended_as_asked(draft, group_id, action, before)
    else:
        failures.count_death(draft, group_id, processor_id)
        responses.give_back(draft, action)
        fall_back(draft, group_id, action, texts.died_before(processor_id))


def checked_in(draft: Draft, group_id: str, action: Action) -> None:
    """The container runs where the action started it: SUCCEEDED."""
    incarnation = draft.processor(group_id, action.ask.processor_id).incarnation
    assert incarnation is not None
    started = action.ask.processor_id, incarnation.host
    responses.succeed(draft, group_id, action, texts.started(incarnation.host), started)


def checked_in_elsewhere(draft: Draft, group_id: str, action: Action) -> None:
    """A fail-over's active runs: SUCCEEDED only in the place of a standby."""
    processor_id = action.ask.processor_id
    incarnation = draft.processor(group_id, processor_id).incarnation
    assert incarnation is not None
    if incarnation.host == action.target_host:
        checked_in(draft, group_id, action)
        return
    where = texts.started_elsewhere(action.message, processor_id, incarnation.host)
    responses.fail_elsewhere(draft, group_id, action, where, (processor_id, incarnation.host))


def stop_failed(draft: Draft, group_id: str, action: Action) -> None:
    """The container lives on: FAILED, and what was reserved is given back."""
    responses.give_back(draft, action)
    containers.lives_on(draft, group_id, action.ask.processor_id)
    action = action.sparing(action.ask.processor_id)
    responses.fail(draft, group_id, action, texts.stop_failed(action.source_host))
    draft.put_action(group_id, None)


def refused(draft: Draft, group_id: str, action: Action, broken: rules.Violation) -> None:
    """The host that was held became illegal before the container could start there."""
    if broken.rule in (rules.SAME_HOST, rules.SAME_DOMAIN):
        message = texts.constraints_now(broken.host)
    else:
        message = _failed_start_text(draft, action, broken.host)
    fall_back(draft, group_id, action, message)


def fall_back(draft: Draft, group_id: str, action: Action, message: str) -> None:
    """FAILED with the container down: the source host if it may, then as after any failure."""
    action = responses.fail(draft, group_id, action, message)
    source = action.source_host if draft.limits.host_affinity else None
    action = action.evolve(
        stage=Stage.FALLBACK_SOURCE if source else Stage.FALLBACK_ANY,
        reservation=None,
        standby_reservation=None,
        standby_id="",
        target_host=None,
    )
    draft.put_action(group_id, action)
    failover.go(draft, group_id, action.ask.processor_id, source, "a placement action failed")
    follow(draft, group_id)


def follow(draft: Draft, group_id: str) -> None:
    """Keeps a fallback's stage true, and ends it when the container runs."""
    group = draft.group(group_id)
    if group.action is None or group.action.stage not in ownership.FALLBACK:
        return
    processor = group.processors[group.action.ask.processor_id]
    if processor.phase is Phase.RUNNING:
        draft.put_action(group_id, None)
        return
    at_source = group.failover is None and (
        processor.incarnation or (processor.request and processor.request.host)
    )
    if group.action.stage is Stage.FALLBACK_SOURCE and not at_source:
        draft.put_action(group_id, group.action.evolve(stage=Stage.FALLBACK_ANY))


def expiry_ms(draft: Draft, ask: PlacementAsk) -> int:
    """How long the request's reservation may take: its own time-out, else the job's."""
    return draft.limits.request_timeout_ms if ask.expiry_ms is None else ask.expiry_ms


def reservation_ms(draft: Draft, group_id: str, action: Action) -> int:
    """How long its destination may be asked for from now; no longer than a fallback while its container is down."""
    own = expiry_ms(draft, action.ask)
    down = ownership.is_down(draft.group(group_id), ownership.subject(action))
    return min(own, draft.limits.request_timeout_ms) if down else own


def _wait_no_longer(draft: Draft, group_id: str, action: Action) -> None:
    """The container is down from now on: its destination is asked for no longer than a fallback is."""
    open_ = action.reservation
    if open_ is None:
        return  # its standby has yet to give way
    latest_ms = draft.now_ms + draft.limits.request_timeout_ms + containers.REQUEST_MARGIN_MS
    open_ = open_.evolve(deadline_ms=min(open_.deadline_ms, latest_ms))
    draft.put_action(group_id, action.evolve(reservation=open_))
    draft.emit(containers.request_command(draft, group_id, action.ask.processor_id, open_))


def _stop(draft: Draft, group_id: str, action: Action) -> None:
    action = action.evolve(stage=Stage.STOPPING).stopping(action.ask.processor_id)
    responses.respond(draft, group_id, action, texts.IN_PROGRESS, texts.STOP_IN_PROGRESS)
    containers.stop(draft, group_id, action.ask.processor_id)


def _start(draft: Draft, group_id: str, action: Action) -> None:
    """The container is down and its host held: it starts once nothing is in the way."""
    reservation = action.reservation
    assert reservation is not None
    assert reservation.allocated_host is not None
    draft.put_action(group_id, action.evolve(stage=Stage.STARTING, reservation=None))
    containers.hold(
        draft, group_id, action.ask.processor_id, reservation, reservation.allocated_host
    )


def _ended_as_asked(draft: Draft, group_id: str, action: Action, before: Processor) -> None:
    if action.stage is Stage.STOPPING and action.reservation is not None:
        _start(draft, group_id, action)
    elif action.stage is Stage.STOPPING:
        _request_same_host(draft, group_id, action)
    else:
        if before.phase is Phase.STARTING:
            failures.count_failed_start(draft, group_id, before)
        assert before.incarnation is not None
        message = _failed_start_text(draft, action, before.incarnation.host)
        fall_back(draft, group_id, action, message)


def _request_same_host(draft: Draft, group_id: str, action: Action) -> None:
    """The forced restart: its own host again, by name."""
    action = action.evolve(stage=Stage.STARTING)
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED
    )
    processor_id = action.ask.processor_id
    expiry = reservation_ms(draft, group_id, action)
    request = containers.new_request(
        draft, group_id, processor_id, action.source_host, set(), expiry
    )
    containers.put_request(draft, group_id, processor_id, request)


def _failed_start_text(draft: Draft, action: Action, host: str) -> str:
    source = action.source_host if draft.limits.host_affinity else None
    return texts.start_failed(host, source or naming.ANY_HOST)
