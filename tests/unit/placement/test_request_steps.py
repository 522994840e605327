"""Single steps of requests and deployments that no scene comes to by itself."""

from __future__ import annotations

import json

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import texts
from samza_dagster.placement.codec import group_to_json
from samza_dagster.placement.commands import DeleteRequest, StopContainer, WriteResponse
from samza_dagster.placement.reducer import step
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


LONGEST_MESSAGE = 16_000
"""Characters: what brokers take of any record."""
LONG = "a key that is no JSON array; " * 100_000


def refused(why: str) -> tuple[str, tuple[object, ...], JobState]:
    """What a request is told that comes while no container could start, all that is done, and the state then."""
    deployed = step(JobState("job-1"), ev.JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    asked = ev.RequestArrived(3, PlacementAsk("u", "d", "0", "LAST_SEEN", 2), why)
    after = step(deployed.state, asked)
    (told,) = responses(after.commands)
    assert told.status == "BAD_REQUEST"
    return told.message, after.commands, after.state


def responses(commands: tuple[object, ...]) -> list[WriteResponse]:
    return [c for c in commands if isinstance(c, WriteResponse)]


def test_a_request_is_refused_while_no_container_could_start() -> None:
    """BAD_REQUEST with the reason, taken off the stream, nothing queued and nothing stopped."""
    message, commands, state = refused("offset 7: a key that is no JSON array")
    assert "offset 7" in message
    assert DeleteRequest("u") in commands
    assert not [c for c in commands if isinstance(c, StopContainer)]
    assert state.groups["0"].queue == ()


def test_a_thousand_bad_records_make_no_refusal_that_cant_be_written() -> None:
    """Each is named; a stranger may write as many as it likes."""
    message, *_ = refused(LONG)
    assert message.startswith("BAD_REQUEST reason: ")
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_what_can_be_written_is_told_to_its_last_letter() -> None:
    """One more, and the end is left out."""
    why = "x" * (LONGEST_MESSAGE - len(refused("x")[0]) + 1)
    whole, *_ = refused(why)
    assert (len(whole), whole[-1]) == (LONGEST_MESSAGE, "x")
    assert refused(why + "x")[0] == whole[:-1] + "\N{HORIZONTAL ELLIPSIS}"


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


@pytest.mark.parametrize(
    ("known", "more"), [(1, ""), (40, ""), (41, " or 1 more"), (43, " or 3 more")]
)
def test_of_many_processors_forty_are_named(known: int, more: str) -> None:
    """As many as one reads."""
    names = [f"{number}-0" for number in range(known)]
    assert texts.name_one_of(names) == f"name one of {', '.join(names[:40])}{more}"
