"""Giving back what a run has reserved and will not use."""

from __future__ import annotations

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.requests import request_uuid

RELEASE = "release"
ANSWER_S = 10.0


def release_uuid(root_run_id: str, attempt: int) -> str:
    """The uuid of the release of a run's reservation."""
    return request_uuid(root_run_id, RELEASE, attempt)


def release(client: Placement, reservation: str, uuid: str) -> str:
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
