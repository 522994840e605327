"""`ContainerPlacementMetadataStore` on memory: SEP-22's methods and the watches."""

from __future__ import annotations

import json
import queue
from pathlib import Path
from uuid import UUID

import pytest

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata import ContainerPlacementMetadataStore
from samza_dagster.metadata.coordinator_stream import decode_key
from samza_dagster.model import PlacementRequest, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.placement_response import response

pytestmark = pytest.mark.unit

UUID_A = "914b0a7c-ebcd-4999-8099-05299ae8cb4e"
UUID_B = "40cd84e4-f0df-4bf7-95fa-cf7610641fb0"
WIRE = Path(__file__).parents[2] / "data" / "wire"


@pytest.fixture
def memory() -> MemoryMetadataStore:
    return MemoryMetadataStore()


@pytest.fixture
def told() -> list[MalformedRecord]:
    return []


@pytest.fixture
def store(
    memory: MemoryMetadataStore, told: list[MalformedRecord]
) -> ContainerPlacementMetadataStore:
    return ContainerPlacementMetadataStore(
        memory, now_ms=lambda: 42, new_uuid=lambda: UUID(UUID_A), on_malformed=told.append
    )


@pytest.mark.parametrize("fields", [{"uuid": "x"}, {"timestamp_ms": -1}, {"request_expiry_ms": -1}])
def test_a_request_that_nobody_could_read_is_not_written(
    store: ContainerPlacementMetadataStore, memory: MemoryMetadataStore, fields: dict[str, object]
) -> None:
    """It would stop a real AM."""
    with pytest.raises(InvalidInput):
        store.write_request("run", "0", "h", **fields)
    with pytest.raises(InvalidInput):
        store.write_request("run", "", "h")
    assert memory.end_position() == 0


def test_reading_and_deleting(store: ContainerPlacementMetadataStore) -> None:
    """Request and response of one UUID, each alone."""
    assert store.read_request(UUID_A) is None
    assert store.read_response(UUID_A) is None
    store.write_request("run", "0", "h")
    store.write_response(response(UUID_A, StatusCode.IN_PROGRESS))
    store.write_response(response(UUID_A, StatusCode.SUCCEEDED))
    request, newest = store.read_request(UUID_A), store.read_response(UUID_A)
    assert isinstance(request, PlacementRequest)
    assert newest is not None
    assert newest.status_code is StatusCode.SUCCEEDED
    store.delete_request(UUID_A)
    assert (store.requests(), len(store.responses())) == ((), 1)
    store.delete_response(UUID_A)
    assert store.responses() == ()


def test_requests_come_oldest_first(store: ContainerPlacementMetadataStore) -> None:
    """By their own timestamp, not by their place in the stream."""
    store.write_request("run", "0", "h", uuid=UUID_A, timestamp_ms=9)
    store.write_request("run", "1", "h", uuid=UUID_B, timestamp_ms=3)
    assert [r.uuid for r in store.requests()] == [UUID_B, UUID_A]


def test_records_that_cannot_be_read_are_told_and_skipped(
    store: ContainerPlacementMetadataStore, memory: MemoryMetadataStore, told: list[MalformedRecord]
) -> None:
    """By lists and by a watch, which goes on; a read of that very record raises."""
    responses: queue.Queue[str] = queue.Queue()
    settings: queue.Queue[str] = queue.Queue()
    watch = store.watch_responses(
        lambda response, _: responses.put(response.uuid),
        on_other=lambda change: settings.put(change.key),
    )
    memory.put("set-config", "a", b"{}")
    memory.put("set-changelog", "b", b"{}")
    memory.put(PLACEMENT_NAMESPACE, "something else", b"{}")
    for kind in ("Request", "Response"):
        memory.put(PLACEMENT_NAMESPACE, f"{UUID_A}.ContainerPlacement{kind}Message", b"{")
    store.write_request("run", "0", "h", uuid=UUID_B)
    store.write_response(response(UUID_B))
    store.delete_request(UUID_A)
    assert responses.get(timeout=5) == UUID_B
    assert settings.get(timeout=5) == "a"
    watch.close()
    assert settings.empty()
    payload = memory.get(PLACEMENT_NAMESPACE, f"{UUID_B}.ContainerPlacementRequestMessage")
    assert payload is not None
    memory.put(PLACEMENT_NAMESPACE, f"{UUID_A}.ContainerPlacementRequestMessage", payload)
    assert [r.uuid for r in store.requests()] == [UUID_B]
    seen = [error.seen for error in told]
    assert len(seen) == 2
    assert seen[0].startswith(f"position 4, key {UUID_A}.ContainerPlacementResponseMessage, ")
    assert f"field uuid: {UUID_B}" in seen[1]
    with pytest.raises(MalformedRecord, match=UUID_A):
        store.read_response(UUID_A)


def test_the_recorded_stream_reads_without_a_complaint(
    store: ContainerPlacementMetadataStore, memory: MemoryMetadataStore, told: list[MalformedRecord]
) -> None:
    """Every status of a real AM is seen by a watch; the AM had taken every request."""
    statuses: queue.Queue[StatusCode] = queue.Queue()
    watch = store.watch_responses(lambda message, _: statuses.put(message.status_code))
    for line in (WIRE / "coordinator-stream.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        key = decode_key(record["key"].encode(), topic="t", offset=record["o"])
        if record["value"] is None:
            memory.remove(key.namespace, key.key)
        else:
            memory.put(key.namespace, key.key, record["value"].encode())
    seen = [statuses.get(timeout=5) for _ in range(89)]
    watch.close()
    assert statuses.empty()
    assert told == []
    assert store.requests() == ()
    assert set(seen) == set(StatusCode) - {StatusCode.CREATED, StatusCode.ACCEPTED}
