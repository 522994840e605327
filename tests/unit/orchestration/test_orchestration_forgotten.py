"""A request whose answer the leader has cleaned up is neither unasked nor in flight."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.requests.step_request import is_forgotten, request_uuid, standing
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.unit
FIRST, SECOND = (request_uuid("root", "move", n) for n in (0, 1))


def client(taken: Collection[str] = (), answered: str = "", late: str = "") -> PlacementClient:
    """Of a job whose coordinator has taken these; `late` is answered while its state is read."""
    job = SteppedJob(at={"0": "host-1"}, forgotten=set(taken))

    def before(name: str, _: object) -> None:
        if name == "remembered" and late:
            job.respond(answer(late))

    if answered:
        job.respond(answer(answered))
    job.calls.before = before
    return job.client()


def answer(uuid: str) -> PlacementResponse:
    return PlacementResponse(
        uuid=uuid,
        deployment_id="run-1",
        processor_id="0",
        destination_host="host-2",
        status_code=StatusCode.SUCCEEDED,
        timestamp=1,
        response_message="told",
    )


def test_a_request_whose_answer_was_cleaned_up_is_asked_as_the_next_attempt() -> None:
    """Under its own UUID nobody would ever answer; the state of the job is looked at first."""
    asked = standing(client(taken={FIRST}), "root", "move", "0")
    assert (asked.uuid, asked.attempt, asked.by_state) == (SECOND, 1, True)


def test_what_was_never_asked_is_the_first_attempt() -> None:
    """Nothing of it is to be seen by the state."""
    asked = standing(client(), "root", "move", "0")
    assert (asked.uuid, asked.by_state) == (FIRST, False)


def test_an_answer_that_comes_between_two_reads_is_found() -> None:
    """The coordinator took the request after its answer was looked for."""
    asked = standing(client(taken={FIRST}, late=FIRST), "root", "move", "0")
    assert asked.response is not None
    assert not asked.forgotten
    assert not is_forgotten(client(taken={FIRST}, late=FIRST), FIRST)


def test_the_attempt_after_a_forgotten_one_is_followed() -> None:
    """It was asked since, and its answer is on record."""
    asked = standing(client(taken={FIRST, SECOND}, answered=SECOND), "root", "move", "0")
    assert (asked.attempt, asked.by_state) == (1, False)


def test_a_restart_of_a_bounce_whose_answer_was_cleaned_up_is_told_as_such() -> None:
    """Its next attempt, and the container's incarnation, decide."""
    first, second = (request_uuid("root", "bounce/0", n) for n in (0, 1))
    asked = standing(client(taken={first}), "root", "bounce/0", "0", on_record={first})
    assert (asked.uuid, asked.by_state) == (second, True)
