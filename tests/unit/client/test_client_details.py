"""What a response says as fields, its own or read out of Samza's words."""

from __future__ import annotations

import pytest

from samza_dagster.client.responses import details_of
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.placement import texts
from tests.rig.placement_response import response

pytestmark = pytest.mark.unit
IN_PROGRESS, SUCCEEDED, FAILED = StatusCode.IN_PROGRESS, StatusCode.SUCCEEDED, StatusCode.FAILED


def said(
    status: StatusCode, text: str, details: ResponseDetails | None = None
) -> PlacementResponse:
    return response(status=status, response_message=text, details=details)


def test_its_own_details_count_whatever_its_text_says() -> None:
    """Texts are for people."""
    details = ResponseDetails(started="0", host="host-3")
    assert details_of(said(SUCCEEDED, texts.started("host-4"), details)) == details


@pytest.mark.parametrize(
    ("status", "text", "details"),
    [
        (IN_PROGRESS, texts.RESOURCES_REQUESTED, ResponseDetails(stage="reserving")),
        (IN_PROGRESS, texts.STOP_IN_PROGRESS, ResponseDetails(stage="stopping", stopped=("0",))),
        (
            SUCCEEDED,
            texts.started("host-3"),
            ResponseDetails(started="0", host="host-3", stopped=("0",)),
        ),
        (
            SUCCEEDED,
            "Successfully issued a stop container request falling back to normal restart path",
            ResponseDetails(stopped=("0",)),
        ),
        (FAILED, texts.start_failed("host-3", "host-1"), ResponseDetails(stopped=("0",))),
        (FAILED, texts.constraints_now("host-3"), ResponseDetails(stopped=("0",))),
        (FAILED, texts.stop_failed("host-1"), ResponseDetails()),
        (FAILED, texts.expired("no host has room"), ResponseDetails()),
        (StatusCode.BAD_REQUEST, texts.bad_request(texts.CONSTRAINTS), ResponseDetails()),
    ],
)
def test_samzas_words_tell_what_has_happened(
    status: StatusCode, text: str, details: ResponseDetails
) -> None:
    """Its AM writes nothing else."""
    assert details_of(said(status, text)) == details
