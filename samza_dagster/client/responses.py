"""What one answer of a coordinator says, and the error where none will come."""

from __future__ import annotations

from samza_dagster.client.details import details_of
from samza_dagster.errors import ActionFailed
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.placement.state import Stage


def terminal(response: PlacementResponse) -> bool:
    """SUCCEEDED, FAILED or BAD_REQUEST: no later status follows."""
    return response.status_code.is_terminal


def started_on(response: PlacementResponse) -> str | None:
    """The host that a SUCCEEDED says its processor was started on; None for any other."""
    details = details_of(response)
    succeeded = response.status_code is StatusCode.SUCCEEDED
    return details.host if succeeded and details.started == response.processor_id else None


def is_held(response: PlacementResponse) -> bool:
    """The destination of a `reserve` is held, and its container waits for the commit."""
    return details_of(response).stage == Stage.HELD


def never_answered(uuid: str, over: str, last: PlacementResponse | None) -> ActionFailed:
    """The error of whoever waits for such a request; `over` as `over_with` says it."""
    told = f"last {last.status_code.value}: {last.response_message}" if last else "no response"
    return ActionFailed(
        f"the outcome of request {uuid}",
        seen=f"{over}; {told}: a new coordinator knows nothing of it",
        fix="see where its container is (samza-dagster status), then ask again",
    )
