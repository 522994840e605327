"""`placement_responses` over the end of a deployment: what is lost with Samza's AM is named."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from history_stream import STATE, STORES, Stream, deploy, response, under_samza

from samza_dagster.model import StatusCode
from samza_dagster.orchestration.history import MOST_IN_A_TICK
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.dagster
BEGIN_MS = response(0, StatusCode.ACCEPTED).timestamp


@pytest.fixture
def stream() -> Iterator[Stream]:
    """Of a job under Samza's AM, its first deployment."""
    STORES["here"] = MemoryMetadataStore()
    STATE.__init__()
    with dg.DagsterInstance.ephemeral() as instance:
        made = Stream(STORES["here"], instance)
        under_samza(made)
        yield made
    STORES.clear()


def ticks(stream: Stream, *after_s: int) -> dict[int, list[int]]:
    """What is recorded or named so many seconds after the begin."""
    told: dict[int, list[int]] = {}
    for seconds in after_s:
        stream.now_ms = BEGIN_MS + seconds * 1_000
        told[seconds] = stream.tick()
    return told


def said(stream: Stream) -> str:
    """Of the one event of the last tick."""
    (event,) = stream.events
    return str(event.description)


def test_a_request_that_dies_with_samza_s_am_is_named_once(stream: Stream) -> None:
    """Nobody answers it; the next deployment has another id."""
    stream.respond(5, StatusCode.IN_PROGRESS)
    assert ticks(stream, 5) == {5: []}
    deploy(stream, "run-2")
    assert ticks(stream, 30, 300) == {30: [], 300: []}
    assert ticks(stream, 700) == {700: [5]}
    assert "was in_progress, and is over: deployment run-1 ended; run-2 runs" in said(stream)
    assert "nobody goes on with it" in str(stream.events[0].metadata["what_to_do"].value)
    assert ticks(stream, 705, 4_000, 90_000) == {705: [], 4_000: [], 90_000: []}


def test_a_request_s_own_time_out_counts_from_the_end_of_its_deployment(stream: Stream) -> None:
    """Be it shorter than the policy's."""
    stream.respond(5, StatusCode.IN_PROGRESS, expiry_ms=60_000)
    ticks(stream, 5)
    deploy(stream, "run-2")
    assert ticks(stream, 30, 90, 100, 4_000) == {30: [], 90: [], 100: [5], 4_000: []}


def test_one_that_the_next_deployment_s_coordinator_answers_is_not_named(stream: Stream) -> None:
    """Ours says FAILED of what was asked before: that is its outcome."""
    stream.respond(5, StatusCode.IN_PROGRESS)
    ticks(stream, 5)
    deploy(stream, "run-2")
    assert ticks(stream, 30) == {30: []}
    stream.respond(5, StatusCode.FAILED)
    assert ticks(stream, 35) == {35: [5]}
    assert said(stream).startswith("FAILED")
    assert ticks(stream, 700, 4_000) == {700: [], 4_000: []}


def test_one_that_was_named_while_its_deployment_went_on_is_not_named_again(
    stream: Stream,
) -> None:
    """It has no end, whatever ended it."""
    stream.respond(5, StatusCode.IN_PROGRESS)
    assert ticks(stream, 5, 606) == {5: [], 606: [5]}
    deploy(stream, "run-2")
    assert ticks(stream, 620, 2_000, 4_000) == {620: [], 2_000: [], 4_000: []}


def test_one_that_is_lost_is_named_once_also_when_cursors_are_lost(stream: Stream) -> None:
    """Of the tick that names it, and all of them later."""
    stream.respond(1)
    assert stream.tick() == [1]
    stream.respond(5, StatusCode.IN_PROGRESS)
    ticks(stream, 5)
    deploy(stream, "run-2")
    ticks(stream, 30)
    stream.now_ms = BEGIN_MS + 700_000
    assert stream.tick(lost=True) == [5]
    assert stream.tick() == []
    stream.cursor = None
    assert ticks(stream, 800, 805, 2_000) == {800: [], 805: [], 2_000: []}


def test_a_lost_cursor_loses_none_that_is_lost(stream: Stream) -> None:
    """What is in the topics is read again."""
    stream.respond(1)
    assert stream.tick() == [1]
    stream.respond(5, StatusCode.IN_PROGRESS)
    ticks(stream, 5)
    deploy(stream, "run-2")
    stream.cursor = None
    assert ticks(stream, 30, 700) == {30: [], 700: [5]}


def test_none_is_named_while_its_answer_may_be_among_those_to_read(stream: Stream) -> None:
    """A sensor that was off for a while reads them in bounded ticks."""
    stream.respond(5, StatusCode.IN_PROGRESS)
    ticks(stream, 5)
    deploy(stream, "run-2")
    ticks(stream, 30)
    for number in range(10, 10 + MOST_IN_A_TICK):
        stream.respond(number)
    stream.respond(5, StatusCode.FAILED)
    assert len(ticks(stream, 700)[700]) == MOST_IN_A_TICK
    assert ticks(stream, 705, 800) == {705: [5], 800: []}


def test_a_thousand_that_are_lost_are_each_named_once(stream: Stream) -> None:
    """In bounded ticks, from a bounded cursor."""
    for number in range(1_000):
        stream.respond(number, StatusCode.IN_PROGRESS)
    ticks(stream, 5)
    deploy(stream, "run-2")
    ticks(stream, 30)
    assert len(stream.cursor or "") < 150_000
    told = ticks(stream, *range(700, 735, 5))
    assert [len(named) for named in told.values()] == [MOST_IN_A_TICK] * 5 + [0, 0]
    assert sorted(n for named in told.values() for n in named) == list(range(1_000))
