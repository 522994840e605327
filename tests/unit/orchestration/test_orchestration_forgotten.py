"""A request whose answer the leader has cleaned up is neither unasked nor in flight."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.requests.step_request import request_uuid, standing
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.unit
FIRST = request_uuid("root", "move", 0)


def client(taken: Collection[str] = (), late: str = "") -> PlacementClient:
    """Of a job whose coordinator has taken these; `late` is answered while its state is read."""
    job = SteppedJob(at={"0": "host-1"}, forgotten=set(taken))

    def before(name: str, _: object) -> None:
        if name == "remembered" and late:
            job.respond(answer(late))

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


def test_a_request_whose_answer_was_cleaned_up_is_refused_with_what_to_do() -> None:
    """Under its own UUID nobody would ever answer, and what it came to isn't known."""
    with pytest.raises(Refused) as refused:
        standing(client(taken={FIRST}), "root", "move", "0")
    assert FIRST in refused.value.seen
    assert "launch a new run" in refused.value.fix


def test_what_was_never_asked_is_the_first_attempt() -> None:
    """It is written under the first UUID."""
    asked = standing(client(), "root", "move", "0")
    assert (asked.uuid, asked.status) == (FIRST, "")


def test_an_answer_that_comes_between_two_reads_is_found() -> None:
    """The coordinator took the request after its answer was looked for."""
    asked = standing(client(taken={FIRST}, late=FIRST), "root", "move", "0")
    assert asked.status == "SUCCEEDED"
