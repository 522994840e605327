"""A placement response of which a test says what matters to it."""

from __future__ import annotations

from typing import Any

from samza_dagster.model import PlacementResponse, StatusCode


def response(
    uuid: str = "914b0a7c-ebcd-4999-8099-05299ae8cb4e",
    status: StatusCode = StatusCode.SUCCEEDED,
    **fields: Any,
) -> PlacementResponse:
    """To a request for processor 0 and host `h`, of deployment run-1, answered at 1 ms."""
    anything: dict[str, Any] = {
        "deployment_id": "run-1",
        "processor_id": "0",
        "destination_host": "h",
        "timestamp": 1,
        "response_message": "",
    }
    return PlacementResponse(uuid=uuid, status_code=status, **{**anything, **fields})
