"""The leader's own housekeeping: deletions for both topics, in its transactions."""

from __future__ import annotations

import json

import pytest
from rpds import HashTrieMap

from samza_dagster.coordinator.cleaning import FinishedMessages
from samza_dagster.metadata.state_topic import Snapshot
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, RESPONSE
from samza_dagster.placement.state import Group, JobState, PlacementAsk
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.placement_response import response

pytestmark = pytest.mark.unit

OLD, QUEUED, YOUNG = (f"{n}8b0d30c-d518-4307-9e8e-c8529eb30f04" for n in range(3))


def failed(uuid: str, at_ms: int) -> PlacementResponse:
    return response(uuid, StatusCode.FAILED, timestamp=at_ms)


class Reader:
    """A state topic with the same answers, and a record that nobody can read."""

    def snapshot(self) -> Snapshot:
        mail = [
            TopicRecord(f"response/{uuid}".encode(), json.dumps(value.to_wire()).encode(), 0, 0)
            for uuid, value in ((OLD, failed(OLD, 0)), (YOUNG, failed(YOUNG, 9_000)))
        ]
        return Snapshot({}, 9, (*mail, TopicRecord(b"request/\xff", b"x", 0, 1)))


def test_old_answers_go_and_what_waits_or_is_young_stays() -> None:
    """Each from its topic, by its key."""
    store = MemoryMetadataStore()
    for uuid in (OLD, QUEUED):
        value = failed(uuid, 0).to_json().encode()
        store.put(PLACEMENT_NAMESPACE, f"{uuid}.{RESPONSE}", value)
    store.put(PLACEMENT_NAMESPACE, f"no-uuid.{RESPONSE}", b"x")
    group = Group("0", HashTrieMap(), queue=(PlacementAsk(QUEUED, "run-1", "0", "h", 0),))
    state = JobState("j", deployment_id="run-1", groups=HashTrieMap({"0": group}))
    cleaner = FinishedMessages(store, Reader(), older_than_ms=5_000)  # pyright: ignore[reportArgumentType]
    records, stream_records = cleaner.removals(state, 10_000)
    assert records == [(f"response/{OLD}", None)]
    assert [(r.key, r.value) for r in stream_records] == [(f"{OLD}.{RESPONSE}", None)]


def test_a_leader_whose_clock_is_ahead_of_the_former_ones_takes_no_answer_early() -> None:
    """What the former leader answered last is no older for it; then the leader's own clock counts."""
    cleaner = FinishedMessages(MemoryMetadataStore(), Reader(), older_than_ms=5_000)  # pyright: ignore[reportArgumentType]
    state = JobState("j", deployment_id="run-1")
    hour_ahead = 9_000 + 3_600_000
    old, young = ((f"response/{uuid}", None) for uuid in (OLD, YOUNG))
    told = [cleaner.removals(state, hour_ahead + ms)[0] for ms in (0, 4_999, 5_000)]
    assert told == [[old], [old], [old, young]]
