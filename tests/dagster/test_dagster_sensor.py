"""The sensor `placement_responses` over the real client and a store in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import dagster as dg
import pytest
from history_stream import STATE, STORES, MemorySamza, Stream, response, under_samza

from samza_dagster.client import ActionView
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import ResponseDetails, StatusCode
from samza_dagster.orchestration.history import (
    KEY,
    MOST_IN_A_TICK,
    history_event,
    no_end_event,
    placement_responses_sensor,
)
from samza_dagster.placement import texts
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.dagster


@pytest.fixture
def stream() -> Iterator[Stream]:
    STORES["here"] = MemoryMetadataStore()
    STATE.__init__()
    with dg.DagsterInstance.ephemeral() as instance:
        yield Stream(STORES["here"], instance)
    STORES.clear()


def test_only_outcomes_become_events(stream: Stream) -> None:
    """A status on the way is none."""
    stream.tick()
    for status in (StatusCode.IN_PROGRESS, StatusCode.FAILED):
        stream.respond(1, status)
    stream.respond(2, StatusCode.BAD_REQUEST)
    stream.respond(3, StatusCode.ACCEPTED)
    assert stream.tick() == [1, 2]


def test_a_tick_whose_cursor_was_lost_records_nothing_twice(stream: Stream) -> None:
    """Dagster keeps a tick's events before its cursor: a crash between repeats the tick."""
    stream.tick()
    stream.respond(1)
    assert stream.tick(lost=True) == [1]
    assert stream.tick() == []


def test_an_outcome_that_a_new_leader_writes_again_is_one_event(stream: Stream) -> None:
    """The next leader writes the last response again."""
    stream.tick()
    stream.respond(1)
    stream.respond(1)
    assert stream.tick() == [1]
    stream.respond(1)
    assert stream.tick() == []


def test_outcomes_of_requests_of_our_own_are_recorded_once(stream: Stream) -> None:
    """They never enter the coordinator stream: holds, fail-overs, standbys on request."""
    STATE.respond(1)
    assert stream.tick() == []
    STATE.respond(2, StatusCode.IN_PROGRESS)
    assert stream.tick() == []
    STATE.respond(2, StatusCode.FAILED)
    stream.respond(3)
    assert stream.tick(lost=True) == [3, 2]
    assert stream.tick() == []


def test_a_commit_s_answer_is_no_outcome(stream: Stream) -> None:
    """What it is about has an outcome of its own. Nor is a refused commit or cancel."""
    stream.tick()
    about = ResponseDetails(refers_to=str(UUID(int=1)))
    for number, status in ((2, StatusCode.SUCCEEDED), (3, StatusCode.BAD_REQUEST)):
        STATE.respond(number, status, details=about)
    STATE.respond(1, text=texts.started("host-2"))
    assert stream.tick() == [1]


THOUSAND = tuple((n, 3 * n) for n in range(1000))
"""Number of a request, and ms after which it is told of."""


@pytest.mark.longdagster
@pytest.mark.parametrize("waves", [True, False])
def test_a_thousand_outcomes_come_in_bounded_ticks_each_once(
    stream: Stream, *, waves: bool
) -> None:
    """A burst is spread over ticks, in order, and nothing is dropped: no status, no second.

    In one tick, or each wave of statuses in a tick of its own.
    """
    stream.tick()
    for status, after_ms in ((StatusCode.ACCEPTED, 0), (StatusCode.IN_PROGRESS, 600_000)):
        for number, at_ms in THOUSAND:
            stream.respond(number, status, after_ms=at_ms + after_ms)
        if waves:
            assert stream.tick() == []
            assert len(stream.cursor or "") < 100_000
    for number, at_ms in THOUSAND:
        stream.respond(number, after_ms=at_ms + 605_000)
    recorded: list[Any] = []
    ticks: list[list[int]] = []
    for _ in range(6):
        ticks.append(stream.tick())
        recorded += stream.events
        assert len(stream.cursor or "") < 150_000
    assert [len(t) for t in ticks] == [MOST_IN_A_TICK] * 5 + [0]
    assert [n for t in ticks for n in t] == list(range(1000))
    assert {event.metadata["seconds"].value for event in recorded} == {605.0}
    assert {tuple(timeline(event)) for event in recorded} == {
        ("ACCEPTED", "IN_PROGRESS", "SUCCEEDED")
    }


def test_a_stream_made_anew_starts_from_now(stream: Stream) -> None:
    """A cursor beyond the end belongs to a stream that is gone."""
    stream.tick()
    for number in range(5):
        stream.respond(number)
    stream.tick()
    STORES["here"] = MemoryMetadataStore()
    assert stream.tick() == []
    assert "made anew" in stream.said
    Stream(STORES["here"], stream.instance).respond(7)
    assert stream.tick() == [7]


def test_a_state_topic_made_anew_starts_from_now_and_says_so(stream: Stream) -> None:
    """What is in the new one already isn't told; the coordinator stream goes on where it was."""
    stream.tick()
    for number in range(5):
        STATE.respond(number)
    stream.tick()
    STATE.__init__()
    STATE.respond(6)
    stream.respond(7)
    assert stream.tick() == [7]
    assert "the state topic ends at 1, before 5: it was made anew" in stream.logged
    STATE.respond(8)
    assert stream.tick() == [8]
    STATE.__init__()
    assert stream.tick() == []
    assert "made anew" in stream.said


def test_a_coordinator_stream_made_anew_loses_no_answer_of_the_state_topic(stream: Stream) -> None:
    """Each of the two begins anew by itself."""
    stream.tick()
    for number in range(5):
        stream.respond(number)
    stream.tick()
    STORES["here"] = MemoryMetadataStore()
    STATE.respond(7)
    assert stream.tick() == [7]
    assert "the coordinator stream ends at 0, before 5: it was made anew" in stream.logged


def test_a_state_topic_whose_answers_were_deleted_is_not_made_anew(stream: Stream) -> None:
    """The hourly cleaning deletes answers; the topic's end stays."""
    stream.tick()
    STATE.respond(1)
    assert stream.tick() == [1]
    STATE.answers.clear()
    assert stream.tick() == []
    assert "made anew" not in stream.said
    STATE.respond(2)
    assert stream.tick() == [2]


def test_an_event_carries_what_happened(stream: Stream) -> None:
    """The history of a container is read from the asset alone."""
    stream.tick()
    stream.respond(9, StatusCode.FAILED)
    stream.tick()
    event = stream.instance.get_latest_materialization_event(KEY)
    assert event is not None
    kept = event.asset_materialization
    assert kept is not None
    metadata = {k: v.value for k, v in kept.metadata.items()}
    assert metadata["container_group"] == "demo/1/0"
    assert metadata["status"] == "FAILED"
    assert metadata["succeeded"] == 0
    assert metadata["message"] == "text"


def timeline(event: Any) -> list[str]:
    return [str(record.data["status"]) for record in event.metadata["timeline"].value.records]


def test_an_event_has_the_whole_timeline_of_its_request(stream: Stream) -> None:
    """Statuses of earlier ticks too, also when a tick's cursor was lost; each once."""
    stream.tick()
    stream.respond(1, StatusCode.ACCEPTED)
    stream.tick(lost=True)
    stream.tick()
    stream.respond(1, StatusCode.IN_PROGRESS)
    stream.respond(2, StatusCode.IN_PROGRESS)
    stream.tick()
    stream.respond(1)
    assert stream.tick() == [1]
    assert timeline(stream.events[0]) == ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]
    assert "data:image/svg+xml" in str(stream.events[0].metadata["timeline_picture"].value)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (StatusCode.SUCCEEDED, "unknown: only its end was read"),
        (StatusCode.FAILED, "unknown: only its end was read"),
        (StatusCode.BAD_REQUEST, 0.0),
    ],
)
def test_how_long_it_took_is_unknown_where_only_its_end_was_read(
    stream: Stream, status: StatusCode, seconds: object, *, own: bool
) -> None:
    """The topic was compacted while nobody looked; what is refused at once has no other status."""
    stream.tick()
    for at_ms, told in enumerate((StatusCode.IN_PROGRESS, status)):
        if own:
            STATE.respond(2, told, after_ms=at_ms * 4_000)
    STATE.compact()
    if not own:
        stream.respond(2, status)
    assert stream.tick() == [2]
    assert stream.events[0].metadata["seconds"].value == seconds


def test_a_reset_cursor_loses_no_outcome(stream: Stream) -> None:
    """It goes on after the newest that is recorded, in either topic; the timeline is whole."""
    stream.respond(9)
    STATE.respond(8)
    stream.tick()
    stream.respond(1)
    STATE.respond(4)
    STATE.respond(5, StatusCode.IN_PROGRESS)
    assert stream.tick() == [1, 4]
    stream.respond(2)
    STATE.respond(5, after_ms=3_000)
    STATE.respond(6)
    stream.cursor = None
    assert stream.tick() == [2, 5, 6]
    assert timeline(stream.events[1]) == ["IN_PROGRESS", "SUCCEEDED"]
    assert stream.events[1].metadata["seconds"].value == 3.0
    stream.cursor = None
    assert stream.tick() == []
    stream.respond(3)
    assert stream.tick() == [3]


def test_a_reset_cursor_loses_none_in_a_topic_of_which_none_is_recorded(stream: Stream) -> None:
    """What was there before the first start stays unrecorded."""
    STATE.respond(1)
    stream.tick()
    stream.respond(5)
    assert stream.tick() == [5]
    STATE.respond(6)
    stream.cursor = None
    assert stream.tick() == [6]


def test_the_history_of_another_job_is_no_reason_to_begin_before_now(stream: Stream) -> None:
    """One asset may have had the events of a job of another name."""
    other = history_event("other/1", 0, response(1, StatusCode.SUCCEEDED), group_of=str)
    stream.instance.report_runless_asset_event(other)
    stream.respond(2)
    assert stream.tick() == []
    assert "starting from now" in stream.said


@pytest.mark.parametrize("ours", [True, False])
def test_what_never_ends_is_to_be_cancelled_only_where_that_is_possible(*, ours: bool) -> None:
    """Samza's wire has no cancel: the advice was refused there."""
    asked = ActionView(str(UUID(int=5)), "0", "host-2", "reserving", 0)
    told = (
        no_end_event("demo/1", asked, 10, 10, ours=ours, group_of=str).metadata["what_to_do"].value
    )
    assert ("samza-dagster cancel" in str(told)) is ours


def test_a_request_without_an_end_is_named_once_after_its_time(stream: Stream) -> None:
    """With what to do; also when the tick that named it lost its cursor. Its end comes as ever."""
    under_samza(stream)
    stream.respond(5, StatusCode.IN_PROGRESS)
    stream.tick()
    stream.now_ms += 600_000
    assert stream.tick() == []
    stream.now_ms += 1_000
    assert stream.tick(lost=True) == [5]
    assert "no cancel" in str(stream.events[0].metadata["what_to_do"].value)
    assert stream.tick() == []
    stream.now_ms += 1_000_000
    assert stream.tick() == []
    stream.respond(5)
    assert stream.tick() == [5]


@pytest.mark.parametrize("ahead_s", [-3_600, 3_600])
def test_a_request_without_an_end_is_named_by_the_sensors_own_clock(
    stream: Stream, ahead_s: int
) -> None:
    """Whoever wrote its status has a clock of its own: how long it is silent is what counts."""
    under_samza(stream)
    stream.respond(5, StatusCode.ACCEPTED, after_ms=ahead_s * 1_000)
    assert stream.tick() == []
    stream.now_ms += 400_000
    stream.respond(5, StatusCode.IN_PROGRESS, after_ms=ahead_s * 1_000 + 400_000)
    assert stream.tick() == []
    stream.now_ms += 599_000
    assert stream.tick() == []
    stream.now_ms += 2_000
    assert stream.tick() == [5]
    assert "is in_progress, without news for 601 s" in str(stream.events[0].description)


def test_under_a_prefix_the_history_is_the_job_s_own(instance: dg.DagsterInstance) -> None:
    """Two jobs of one code location don't write into one asset."""
    STORES["prefixed"] = MemoryMetadataStore()
    stream = ContainerPlacementMetadataStore(STORES["prefixed"])
    samza = MemorySamza(bootstrap_servers="prefixed", job_name="demo", prefix="orders")
    sensor, cursor, keys = placement_responses_sensor(), None, []
    for _ in range(2):
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"samza": samza}
        ) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        cursor = result.cursor
        keys += [event.asset_key.to_user_string() for event in result.asset_events or []]
        stream.write_response(response(1, StatusCode.SUCCEEDED))
    assert keys == ["orders/placement_history"]
