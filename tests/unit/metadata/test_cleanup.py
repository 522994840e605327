"""Which placement messages are removed: finished and old, or of another deployment."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.metadata.cleanup import Removal, Where, finished_or_foreign
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.own_requests import OwnRequest, RequestKind
from tests.rig import placement_response

pytestmark = pytest.mark.unit

NOW, DAY = 10_000_000_000, 86_400_000


def request(asked: str, deployment: str = "run-2", at: int = 0) -> PlacementRequest:
    return PlacementRequest(
        uuid=asked,
        deployment_id=deployment,
        processor_id="0",
        destination_host="h",
        timestamp=at,
    )


def response(
    asked: str,
    status: StatusCode = StatusCode.SUCCEEDED,
    deployment: str = "run-2",
    at: int = 0,
) -> PlacementResponse:
    return placement_response.response(asked, status, deployment_id=deployment, timestamp=at)


def select(**given_: object) -> tuple[Removal, ...]:
    everything = {
        "requests": (),
        "responses": (),
        "own_requests": {},
        "own_responses": {},
        "deployment_id": "run-2",
        "in_flight": (),
        "is_old": lambda answer: NOW - answer.timestamp >= DAY,
        **given_,
    }
    return finished_or_foreign(**everything)  # pyright: ignore[reportArgumentType]


A, B, C, D, E = (str(uuid.UUID(int=n)) for n in range(5))


def test_finished_answers_go_when_they_are_old() -> None:
    """Each final status, with its request; a young one and one in progress stay."""
    found = select(
        requests=[request(A)],
        responses=[
            response(A),
            response(B, StatusCode.BAD_REQUEST, at=NOW - DAY - 1),
            response(C, StatusCode.FAILED, at=NOW - DAY + 1),
            response(D, StatusCode.IN_PROGRESS),
        ],
    )
    assert [(r.kind, r.uuid) for r in found] == [("request", A), ("response", A), ("response", B)]


def test_requests_of_other_deployments_go_whatever_their_age() -> None:
    """Nobody will take them; one of this deployment that waits stays for ever."""
    found = select(requests=[request(A, "run-1", NOW), request(B)])
    assert [(r.uuid, r.why) for r in found] == [(A, "of another deployment")]


def test_answers_of_other_deployments_go_when_they_are_old() -> None:
    """Also those that never ended: their coordinator is gone."""
    found = select(
        responses=[
            response(A, StatusCode.IN_PROGRESS, "run-1"),
            response(B, StatusCode.IN_PROGRESS, "run-1", NOW),
        ]
    )
    assert [r.uuid for r in found] == [A]


def test_what_is_in_flight_stays_whatever_it_says() -> None:
    """An action that goes on after its FAILED, and a queued one."""
    assert select(responses=[response(A)], requests=[request(B, "run-1")], in_flight={A, B}) == ()


def test_both_topics_are_told_apart() -> None:
    """The same UUID in the other topic is another message."""
    mine = OwnRequest(
        kind=RequestKind.CANCEL,
        processor_id="0",
        destination_host="h",
        deployment_id="run-1",
        timestamp=3,
        refers_to=B,
    )
    found = select(own_requests={A: mine}, own_responses={E: response(E)})
    assert {(r.where, r.kind, r.uuid) for r in found} == {
        (Where.STATE_TOPIC, "request", A),
        (Where.STATE_TOPIC, "response", E),
    }


states = st.tuples(
    st.sampled_from([A, B, C, D]),
    st.sampled_from(list(StatusCode)),
    st.sampled_from(["run-1", "run-2"]),
    st.integers(0, NOW),
)


@given(st.lists(states), st.lists(states), st.frozensets(st.sampled_from([A, B, C, D])))
def test_removing_twice_removes_nothing_more(
    answers: list[tuple[str, StatusCode, str, int]],
    asked: list[tuple[str, StatusCode, str, int]],
    in_flight: frozenset[str],
) -> None:
    """And nothing in flight is ever among it."""
    responses = {u: response(u, s, d, t) for u, s, d, t in answers}
    requests = {u: request(u, d, t) for u, _, d, t in asked}
    found = select(requests=requests.values(), responses=responses.values(), in_flight=in_flight)
    gone = {(r.kind, r.uuid) for r in found}
    assert not {u for _, u in gone} & in_flight
    left = select(
        requests=[r for u, r in requests.items() if ("request", u) not in gone],
        responses=[r for u, r in responses.items() if ("response", u) not in gone],
        in_flight=in_flight,
    )
    assert left == ()
