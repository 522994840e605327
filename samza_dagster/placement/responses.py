"""Writes the responses to requests, and ends their actions."""

from __future__ import annotations

from samza_dagster.placement import texts
from samza_dagster.placement.commands import CountMetric, ReleaseResource, WriteResponse
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.state import Action, Fallback, Move, PlacementAsk, request_of

LONGEST_MESSAGE = 16_000
"""Characters: a reason may name every host, or every record that a stranger wrote."""
_FAILURES = "failed-container-placements-actions"
QUEUED = "queued"
"""The stage of a response ACCEPTED."""


def write(draft: Draft, ask: PlacementAsk, status: str, message: str) -> None:
    """Write a response to a request that has no action."""
    draft.emit(_response(ask, status, message, draft.now_ms))


def refuse(draft: Draft, ask: PlacementAsk, reason: str) -> None:
    """Answer BAD_REQUEST; nothing was changed."""
    write(draft, ask, texts.BAD_REQUEST, texts.bad_request(reason))


def progress(step: GroupStep, action: Action, message: str) -> None:
    """Answer IN_PROGRESS, and store the action with this response."""
    action = action.evolve(message=_shortened(message), response_ms=step.now_ms)
    step.put_action(action)
    step.emit(last(action))


def last(action: Action) -> WriteResponse:
    """Return the last response of an action in flight; its details give the present stage."""
    status = texts.FAILED if isinstance(action, Fallback) else texts.IN_PROGRESS
    return _response(action.ask, status, action.message, action.response_ms, action)


def fall_back(step: GroupStep, fallback: Fallback, message: str) -> None:
    """Answer FAILED and count it; the group stays locked until the container runs."""
    step.emit(CountMetric(_FAILURES))
    progress(step, fallback, message)


def fail(
    step: GroupStep, action: Action, message: str, started: tuple[str, str] = ("", "")
) -> None:
    """Answer FAILED, count it and free the group; `started`: what started elsewhere, and where."""
    step.emit(CountMetric(_FAILURES))
    _end(step, action, texts.FAILED, message, started)


def succeed(
    step: GroupStep, action: Action, message: str, started: tuple[str, str] = ("", "")
) -> None:
    """Answer SUCCEEDED and free the group; `started` is the incarnation's processor and host."""
    _end(step, action, texts.SUCCEEDED, message, started)


def _end(
    step: GroupStep, action: Action, status: str, message: str, started: tuple[str, str]
) -> None:
    step.emit(_response(action.ask, status, message, step.now_ms, action, started))
    step.put_action(None)


def give_back(step: GroupStep, action: Action) -> None:
    """Release the action's open or held resource."""
    request = request_of(action)
    if request is not None:
        step.emit(ReleaseResource(request.request_id))


def _response(
    ask: PlacementAsk,
    status: str,
    message: str,
    at_ms: int,
    action: Action | None = None,
    started: tuple[str, str] = ("", ""),
) -> WriteResponse:
    """Return the response record; it echoes the destination of the request."""
    stage, host = QUEUED if status == texts.ACCEPTED else "", started[1]
    if action is not None and status == texts.IN_PROGRESS:
        stage = action.stage.value
        host = (action.request.allocated_host or "") if isinstance(action, Move) else ""
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
    """Return the beginning of a message that is too long for a record."""
    # Brokers limit the size of a record.
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE - 1]}\N{HORIZONTAL ELLIPSIS}"
