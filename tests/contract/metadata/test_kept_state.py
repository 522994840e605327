"""What a client has read of a state topic it keeps, and shows as one that reads all of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata import KafkaCluster, StateReader, StateWriter, ensure_topic
from samza_dagster.metadata.state_topic import Snapshot, encode_record
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract
ANSWER = f"response/{uuid.UUID(int=1)}"


@pytest.fixture
def writer(bootstrap_servers: str, topic: str) -> Iterator[StateWriter]:
    made = StateWriter(bootstrap_servers, topic, f"samza-dagster-test-{topic}")
    made.take_over()
    yield made
    made.close()


@pytest.fixture
def kept(bootstrap_servers: str, topic: str) -> Iterator[StateReader]:
    made = StateReader(bootstrap_servers, topic, keep=True)
    yield made
    made.close()


def commit(writer: StateWriter, topic: str, **values: int | None) -> None:
    """Host, or the key of an answer, to the number in its record; None deletes it."""
    keys = {key if key == ANSWER else f"host/{key}": n for key, n in values.items()}
    writer.commit(
        [(topic, *encode_record(key, None if n is None else {"n": n})) for key, n in keys.items()]
    )


def test_each_look_shows_what_a_reader_of_the_whole_topic_sees(
    bootstrap_servers: str, topic: str, writer: StateWriter, kept: StateReader
) -> None:
    """Changed, deleted and new records, and answers that were overwritten between two looks."""
    whole = StateReader(bootstrap_servers, topic)

    def judged() -> Snapshot:
        seen = kept.snapshot()
        assert seen == whole.snapshot()
        assert list(seen.records) == list(whole.snapshot().records)
        return seen

    commit(writer, topic, gone=1, changed=1, same=1, **{ANSWER: 1})
    first = judged()
    assert {"host/gone", "host/changed", "host/same"} <= first.records.keys()
    assert judged() == first
    commit(writer, topic, changed=2, gone=None, new=1, **{ANSWER: 2})
    commit(writer, topic, **{ANSWER: 3})
    second = judged()
    assert "host/gone" not in second.records
    assert second.records["host/changed"].value == {"version": 1, "n": 2}
    assert len(second.answers) == 3
    assert second.records["host/same"] is first.records["host/same"]
    whole.close()


def test_a_topic_that_was_made_anew_is_read_anew(
    cluster: KafkaCluster, topic: str, writer: StateWriter, kept: StateReader
) -> None:
    """Nothing of the former one is shown."""
    for number in range(5):
        commit(writer, topic, former=number)
    assert "host/former" in kept.snapshot().records
    with cluster.admin() as admin:
        untyped = cast("Any", admin)
        untyped.delete_topics([topic])[topic].result(30 * PACE)
    with pytest.raises(InvalidInput):
        until("the topic is gone", lambda: kept.snapshot() and None)
    ensure_topic(cluster, topic)
    key, value = encode_record("host/later", {"n": 1})
    producer = cluster.producer()
    producer.produce(topic, key=key, value=value)
    assert producer.flush(30 * PACE) == 0
    seen = until("what was written since", lambda: _readable(kept))
    assert list(seen.records) == ["host/later"]


def _readable(kept: StateReader) -> Snapshot | None:
    """A broker's answers about a topic just made differ for a moment."""
    try:
        seen = kept.snapshot()
    except InvalidInput:
        return None
    return seen if seen.records else None
