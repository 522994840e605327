"""What a response says as fields, its own or read out of Samza's words."""

from __future__ import annotations

from uuid import UUID

import pytest

from samza_dagster.client.responses import details_of
from samza_dagster.coordinator.effects import response_of
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.version import __version__
from tests.unit.placement.stories import Story, stories, tell

pytestmark = pytest.mark.unit
SHORT = ("u1", "u2", "u3", "u4", "u9", "c1", "c2", "c3")
IN_PROGRESS, SUCCEEDED, FAILED = StatusCode.IN_PROGRESS, StatusCode.SUCCEEDED, StatusCode.FAILED


def said(
    status: StatusCode, text: str, details: ResponseDetails | None = None
) -> PlacementResponse:
    return PlacementResponse(
        uuid=str(UUID(int=1)),
        deployment_id="run-1",
        processor_id="0",
        destination_host="host-3",
        status_code=status,
        timestamp=1,
        response_message=text,
        details=details,
    )


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


def test_words_of_a_coordinator_before_details_are_read_by_the_first_release_alone() -> None:
    """Whoever makes the next one removes what reads them (`_HELD` to `_ABOUT_ANOTHER`), and this."""
    assert __version__.startswith("0.1.")


@pytest.mark.parametrize("story", stories(), ids=str)
def test_an_older_coordinators_words_tell_what_details_say(story: Story) -> None:
    """Who started where, what a control is about, and where the action stands, but for three of them."""
    for command in tell(story).sent(cmd.WriteResponse):
        told = answer(command)
        details, read = details_of(told), details_of(told.model_copy(update={"details": None}))
        assert (read.refers_to is None) == (details.refers_to is None)
        if told.status_code is SUCCEEDED:
            assert (read.started, read.host) == (details.started, details.host)
        if told.status_code is IN_PROGRESS and read.stage is not None:
            assert read.stage == details.stage or (read.stage, details.stage) in UNTOLD


UNTOLD = {
    ("reserving-standby", "reserving"),  # the words are the same, what came between tells
    ("reserving", "starting"),  # a forced restart's own host, once it is down
    ("stopping-standby", "stopping"),  # a standby that is to be removed
    ("stopping-standby", "starting"),  # a fail-over of an active that is down
    ("stopping", "starting"),  # said again by the next leader
}


def answer(command: cmd.WriteResponse) -> PlacementResponse:
    """As it is written, with uuids as they are."""
    uuids = {short: str(UUID(int=n)) for n, short in enumerate(SHORT, start=1)}
    text = command.message
    for short, uuid in uuids.items():
        text = text.replace(f"equest {short} ", f"equest {uuid} ")
    fields = {name: getattr(command, name) for name in command.__slots__}
    to = command.destination_host or "ANY_HOST"
    fields |= {"uuid": uuids[command.uuid], "message": text, "destination_host": to}
    return response_of(cmd.WriteResponse(**fields))
