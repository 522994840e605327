"""Single steps of requests and deployments that no scene comes to by itself."""

from __future__ import annotations

import json

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import group_to_json
from samza_dagster.placement.commands import DeleteRequest, StopContainer, WriteResponse
from samza_dagster.placement.events import (
    JobDeployed,
    RequestArrived,
)
from samza_dagster.placement.reducer import step
from samza_dagster.placement.responses import LONGEST_MESSAGE
from samza_dagster.placement.state import (
    JobState,
    Limits,
    PlacementAsk,
)
from tests.unit.placement.scenes import (
    ask,
    running,
)

pytestmark = pytest.mark.unit


def test_a_request_is_refused_while_no_container_could_start() -> None:
    """BAD_REQUEST with the reason, taken off the stream, nothing queued and nothing stopped."""
    deployed = step(JobState("job-1"), JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    ask = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
    after = step(deployed.state, RequestArrived(3, ask, "offset 7: a key that is no JSON array"))
    responses = [c for c in after.commands if isinstance(c, WriteResponse)]
    assert [r.status for r in responses] == ["BAD_REQUEST"]
    assert "offset 7" in responses[0].message
    assert DeleteRequest("u") in after.commands
    assert not [c for c in after.commands if isinstance(c, StopContainer)]
    assert after.state.groups["0"].queue == ()


LONG = "a key that is no JSON array; " * 100_000


def responses(commands: tuple[object, ...]) -> list[WriteResponse]:
    return [c for c in commands if isinstance(c, WriteResponse)]


def test_a_thousand_bad_records_make_no_refusal_that_cant_be_written() -> None:
    """Each is named; a stranger may write as many as it likes."""
    deployed = step(JobState("job-1"), ev.JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    refused = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
    (told,) = responses(step(deployed.state, ev.RequestArrived(3, refused, LONG)).commands)
    assert told.message.startswith("BAD_REQUEST reason: ")
    assert len(told.message) == LONGEST_MESSAGE
    assert told.message.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_what_can_be_written_is_told_to_its_last_letter() -> None:
    """One more, and the end is left out."""
    deployed = step(JobState("job-1"), ev.JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))

    def told(why: str) -> str:
        refused = PlacementAsk("u", "d", "0", "LAST_SEEN", 2)
        (response,) = responses(step(deployed.state, ev.RequestArrived(3, refused, why)).commands)
        return response.message

    why = "x" * (LONGEST_MESSAGE - len(told("x")) + 1)
    assert (len(told(why)), told(why)[-1]) == (LONGEST_MESSAGE, "x")
    assert told(why + "x") == told(why)[:-1] + "\N{HORIZONTAL ELLIPSIS}"


def test_a_thousand_hosts_without_room_make_no_answer_that_cant_be_written() -> None:
    """What each of them lacks is told; the first are enough."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    taken = step(world.state, ev.RequestExpired(world.now_ms, request.request_id, LONG))
    (told,) = responses(taken.commands)
    assert told.status == "FAILED"
    assert len(told.message) == LONGEST_MESSAGE
    assert len(json.dumps(group_to_json(taken.state.groups["0"]))) < 2 * LONGEST_MESSAGE
