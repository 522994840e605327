"""What a request is told, and how its action ends."""

from __future__ import annotations

from samza_dagster.placement import texts
from samza_dagster.placement.commands import CountMetric, ReleaseResource, WriteResponse
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Action, PlacementAsk

LONGEST_MESSAGE = 16_000
"""Characters: a reason may name every host, or every record that a stranger wrote."""
_FAILURES = "failed-container-placements-actions"
QUEUED = "queued"
"""What is about another request, and waits for none."""


def write(draft: Draft, ask: PlacementAsk, status: str, message: str) -> None:
    """Writes a response to a request that has no action."""
    draft.emit(_response(ask, status, message, draft.now_ms))


def respond(draft: Draft, group_id: str, action: Action, status: str, message: str) -> Action:
    """Writes a response of the action in flight, and keeps it with the action."""
    action = action.evolve(status=status, message=_shortened(message), response_ms=draft.now_ms)
    draft.put_action(group_id, action)
    draft.emit(last(action))
    return action


def last(action: Action) -> WriteResponse:
    """The last response of an action in flight; its details say where that stands by now."""
    return _response(action.ask, action.status, action.message, action.response_ms, action)


def fail(draft: Draft, group_id: str, action: Action, message: str) -> Action:
    """FAILED, and counted."""
    draft.emit(CountMetric(_FAILURES))
    return respond(draft, group_id, action, texts.FAILED, message)


def succeed(
    draft: Draft, group_id: str, action: Action, message: str, started: tuple[str, str] = ("", "")
) -> None:
    """SUCCEEDED, and the group is free; `started` is who runs for it now, and on which host."""
    _end(draft, group_id, action, texts.SUCCEEDED, message, started)


def fail_elsewhere(
    draft: Draft, group_id: str, action: Action, message: str, started: tuple[str, str]
) -> None:
    """FAILED, and the group is free: its container runs, but not where it was to."""
    draft.emit(CountMetric(_FAILURES))
    _end(draft, group_id, action, texts.FAILED, message, started)


def _end(
    draft: Draft, group_id: str, action: Action, status: str, message: str, started: tuple[str, str]
) -> None:
    draft.emit(_response(action.ask, status, message, draft.now_ms, action, started))
    draft.put_action(group_id, None)


def give_back(draft: Draft, action: Action) -> None:
    """Releases what the action has reserved or asks for."""
    for reservation in (action.reservation, action.standby_reservation):
        if reservation is not None:
            draft.emit(ReleaseResource(reservation.request_id))


def _response(
    ask: PlacementAsk,
    status: str,
    message: str,
    at_ms: int,
    action: Action | None = None,
    started: tuple[str, str] = ("", ""),
) -> WriteResponse:
    """The response record; it echoes the destination as it was asked."""
    stage, host = QUEUED if status == texts.ACCEPTED else "", started[1]
    if action is not None and status == texts.IN_PROGRESS:
        stage = action.stage.value
        held = action.reservation
        host = (held.allocated_host or "") if held is not None else ""
    return WriteResponse(
        uuid=ask.uuid,
        deployment_id=ask.deployment_id,
        processor_id=ask.processor_id,
        destination_host=ask.destination_host,
        status=status,
        message=_shortened(message),
        timestamp_ms=at_ms,
        request_expiry_ms=ask.expiry_ms,
        own=ask.own,
        stage=stage,
        started=started[0],
        host=host,
        stopped=() if action is None else action.stopped,
        refers_to=ask.refers_to if ask.kind.is_about_another else "",
    )


def _shortened(message: str) -> str:
    """It goes into records that brokers take up to a size: its beginning is enough."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE - 1]}\N{HORIZONTAL ELLIPSIS}"
