"""A request whose answer the leader has cleaned up is neither unasked nor in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.requests.step_request import is_forgotten, request_uuid, standing

pytestmark = pytest.mark.unit
FIRST, SECOND = (request_uuid("root", "move", n) for n in (0, 1))


@dataclass
class _Client:
    """What is on record. `late` are answers that come while the state is read."""

    taken: set[str] = field(default_factory=set)
    answers: dict[str, PlacementResponse] = field(default_factory=dict)
    late: dict[str, PlacementResponse] = field(default_factory=dict)

    def response(self, uuid: str) -> PlacementResponse | None:
        return self.answers.get(uuid)

    def request(self, uuid: str) -> None:
        return None

    def own_request(self, uuid: str) -> None:
        return None

    def remembered(self) -> set[str]:
        self.answers |= self.late
        return self.taken


def client(**fields: Any) -> PlacementClient:
    return cast("PlacementClient", _Client(**fields))


def answer(uuid: str, status: StatusCode = StatusCode.SUCCEEDED) -> PlacementResponse:
    return PlacementResponse(
        uuid=uuid,
        deployment_id="run-1",
        processor_id="0",
        destination_host="host-2",
        status_code=status,
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
    late = {FIRST: answer(FIRST)}
    asked = standing(client(taken={FIRST}, late=late), "root", "move", "0")
    assert asked.response is not None
    assert not asked.forgotten
    assert not is_forgotten(client(taken={FIRST}, late=late), FIRST)


def test_the_attempt_after_a_forgotten_one_is_followed() -> None:
    """It was asked since, and its answer is on record."""
    asked = standing(
        client(taken={FIRST, SECOND}, answers={SECOND: answer(SECOND)}), "root", "move", "0"
    )
    assert (asked.attempt, asked.by_state) == (1, False)


def test_a_restart_of_a_bounce_whose_answer_was_cleaned_up_is_told_as_such() -> None:
    """Its next attempt, and the container's incarnation, decide."""
    first, second = (request_uuid("root", "bounce/0", n) for n in (0, 1))
    asked = standing(client(taken={first}), "root", "bounce/0", "0", on_record={first})
    assert (asked.uuid, asked.by_state) == (second, True)
