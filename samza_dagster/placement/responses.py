"""What a request is told, and how its action ends."""

from __future__ import annotations

from samza_dagster.placement import texts
from samza_dagster.placement.commands import CountMetric, ReleaseResource, WriteResponse
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Action, PlacementAsk

LONGEST_MESSAGE = 16_000
"""Characters: a reason may name every host, or every record that a stranger wrote."""


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
        message=_shortened(message),
        timestamp_ms=at_ms,
        request_expiry_ms=ask.expiry_ms,
        own=ask.own,
    )


def respond(draft: Draft, group_id: str, action: Action, status: str, message: str) -> Action:
    """Writes a response of the action in flight, and keeps it with the action."""
    message = _shortened(message)
    action = action.evolve(status=status, message=message, response_ms=draft.now_ms)
    draft.put_action(group_id, action)
    write(draft, action.ask, status, message)
    return action


def _shortened(message: str) -> str:
    """It goes into records that brokers take up to a size: its beginning is enough."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE - 1]}\N{HORIZONTAL ELLIPSIS}"


def fail(draft: Draft, group_id: str, action: Action, message: str) -> Action:
    """FAILED, and counted."""
    draft.emit(CountMetric("failed-container-placements-actions"))
    return respond(draft, group_id, action, texts.FAILED, message)


def succeed(draft: Draft, group_id: str, action: Action, message: str) -> None:
    """SUCCEEDED, and the group is free."""
    write(draft, action.ask, texts.SUCCEEDED, message)
    draft.put_action(group_id, None)


def give_back(draft: Draft, action: Action) -> None:
    """Releases what the action has reserved or asks for."""
    for reservation in (action.reservation, action.standby_reservation):
        if reservation is not None:
            draft.emit(ReleaseResource(reservation.request_id))
