"""What runs go by is what a response's details say, whatever its words."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.orchestration.requests.step_request import (
    ENDED,
    QUEUED,
    RESERVING,
    Moment,
    stage_of,
    started_standby,
)

pytestmark = pytest.mark.unit


def response(status: StatusCode, text: str = "…", **details: Any) -> PlacementResponse:
    return PlacementResponse(
        uuid=str(UUID(int=1)),
        deployment_id="run-1",
        processor_id="0",
        destination_host="STANDBY",
        status_code=status,
        timestamp=1,
        response_message=text,
        details=ResponseDetails(**details) if details else None,
    )


def at(stage: str) -> list[Moment]:
    return [Moment("move", "IN_PROGRESS", "…", 1, 0, stage)]


@pytest.mark.parametrize(
    ("said", "stage"),
    [
        ("queued", QUEUED),
        ("reserving-standby", "RESERVING_STANDBY"),
        ("stopping-standby", "STOPPING_STANDBY"),
        ("reserving", RESERVING),
        ("held", "HELD"),
        ("stopping", "STOPPING"),
        ("starting", "STARTING"),
    ],
)
def test_a_run_stands_where_the_action_does(said: str, stage: str) -> None:
    """As `samza-dagster status` shows it."""
    assert stage_of(response(StatusCode.IN_PROGRESS, stage=said), []) == stage


def test_a_stage_that_a_later_release_names_leaves_a_run_where_it_stood() -> None:
    """Its end is told all the same."""
    further = response(StatusCode.IN_PROGRESS, stage="warming")
    assert stage_of(further, at("HELD")) == "HELD"
    assert stage_of(further, []) == QUEUED
    assert stage_of(response(StatusCode.FAILED, stopped=()), at("HELD")) == ENDED


def test_a_standby_was_started_where_another_than_the_one_that_was_named_has_started() -> None:
    """A move starts its own processor."""
    assert started_standby(response(StatusCode.SUCCEEDED, started="0-1", host="h")) == "0-1"
    assert started_standby(response(StatusCode.SUCCEEDED, started="0", host="h")) is None
    assert started_standby(response(StatusCode.FAILED, stopped=())) is None
    assert started_standby(None) is None
