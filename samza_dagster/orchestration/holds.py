"""Giving back what a run has reserved, or only asked for, and will not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.moves import OURS
from samza_dagster.orchestration.requests import request_uuid

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

RELEASE = "release"
ANSWER_S = 10.0


def release_uuid(root_run_id: str, attempt: int) -> str:
    """The uuid of the release of a run's reservation."""
    return request_uuid(root_run_id, RELEASE, attempt)


def release(client: PlacementClient, reservation: str, uuid: str) -> str:
    """Releases a reservation that isn't committed; returns what became of it, for a log.

    Raises nothing of ours: what can't be released ends by itself when its time is up.
    """
    try:
        client.release(reservation, uuid=uuid)
        answer = client.wait(reservation, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return (
            f"reservation {reservation} isn't released: {error}; uncommitted, it expires by itself"
        )
    return f"reservation {reservation}: {answer.status_code.value}: {answer.response_message}"


def cancel(client: PlacementClient, root_run_id: str, request: str) -> str:
    """Ends a request of which nothing is stopped or started yet; returns what became of it.

    Raises nothing of ours. What can't be ended goes on: Samza's wire has no cancel, and a
    container that is down comes back by going on alone.
    """
    goes_on = "the coordinator goes on with it: re-execute this run from failure to follow"
    try:
        if client.view().coordinator != OURS:
            return goes_on
        client.cancel(request, uuid=request_uuid(root_run_id, f"cancel/{request}", 0))
        answer = client.wait(request, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return f"{goes_on} ({error})"
    return (
        f"request {request} is ended: {answer.status_code.value}: {answer.response_message};"
        " re-execute this run from failure to ask anew"
    )
