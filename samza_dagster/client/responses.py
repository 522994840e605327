"""The content of a coordinator's answer, and the error where none will come."""

from __future__ import annotations

import re

from samza_dagster.errors import ActionFailed
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.naming import STANDBY
from samza_dagster.placement import texts
from samza_dagster.placement.responses import QUEUED
from samza_dagster.placement.state import Stage

_STARTED_ON = re.compile(r"started container on host (\S+)$")
_STOPPED_AND_FAILED = tuple(
    text.partition(" on ")[0] for text in (texts.start_failed("", ""), texts.constraints_now(""))
)
_STAGES = {
    texts.RESOURCES_REQUESTED: Stage.RESERVING,
    texts.STOP_IN_PROGRESS: Stage.STOPPING,
    texts.STANDBY_STOP_IN_PROGRESS: Stage.STOPPING_STANDBY,
}


def details_of(response: PlacementResponse) -> ResponseDetails:
    """Its own details, which our coordinator writes, or what the text of Samza's tells."""
    return response.details if response.details is not None else _read(response)


def _read(response: PlacementResponse) -> ResponseDetails:
    text, processor = response.response_message, response.processor_id
    match response.status_code:
        case StatusCode.ACCEPTED:
            return ResponseDetails(stage=QUEUED)
        case StatusCode.IN_PROGRESS:
            stage = _STAGES.get(text)
            if stage is Stage.RESERVING and response.destination_host == STANDBY:
                stage = Stage.RESERVING_STANDBY  # the first time; the second it is the active's
            stopped = (processor,) if stage is Stage.STOPPING else ()
            return ResponseDetails(stage=stage, stopped=stopped)
        case StatusCode.SUCCEEDED:
            # Not the destination: without host affinity Samza's AM echoes what was asked
            # (`ContainerManager`). A forced restart has SUCCEEDED there with the stop.
            on = _STARTED_ON.search(text)
            started, host = (processor, on[1]) if on else (None, None)
            return ResponseDetails(started=started, host=host, stopped=(processor,))
        case StatusCode.FAILED:
            failed_down = text.startswith(_STOPPED_AND_FAILED)
            return ResponseDetails(stopped=(processor,) if failed_down else ())
        case _:
            return ResponseDetails()


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
    """Return the error for a caller that waits for such a request; `over` as `over_with` gives it."""
    seen = f"last {last.status_code.value}: {last.response_message}" if last else "no response"
    return ActionFailed(
        f"the outcome of request {uuid}",
        seen=f"{over}; {seen}: a new coordinator knows nothing of it",
        fix="see where its container is (samza-dagster status), then ask again",
    )
