"""The Kafka side of a term: the transactional log and the tail of requests."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.effects import response_of
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.placement_store import (
    ContainerPlacementMetadataStore,
    request_key,
    response_key,
)
from samza_dagster.metadata.state_topic import StateWriter, TopicRecord
from samza_dagster.model import PlacementRequest
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement import commands

SOURCE = "samza-dagster"


def author(now_ms: int) -> Author:
    """Who a record of ours says that it is from."""
    return Author(
        host=socket.gethostname(), username=getpass.getuser(), timestamp_ms=now_ms, source=SOURCE
    )


def stream_record(projection: commands.Projection, now_ms: int) -> StreamRecord:
    """The record on the coordinator stream that a projection stands for."""
    match projection:
        case commands.WriteResponse():
            return StreamRecord(
                PLACEMENT_NAMESPACE,
                response_key(projection.uuid),
                response_of(projection).to_json().encode(),
            )
        case commands.DeleteRequest():
            return stream.delete(PLACEMENT_NAMESPACE, request_key(projection.uuid))
        case commands.WriteLocality():
            return stream.set_container_host(
                author(now_ms), projection.processor_id, projection.host
            )
        case commands.DeleteLocality():
            return stream.delete(stream.SET_CONTAINER_HOST, projection.processor_id)


class KafkaLog:
    """State topic and coordinator stream, written together in one transaction a step."""

    def __init__(
        self,
        writer: StateWriter,
        *,
        state_topic: str,
        stream_topic: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._state_topic = state_topic
        self._stream_topic = stream_topic
        self._now_ms = now_ms

    def commit(
        self, records: Sequence[durable.Record], projections: Sequence[commands.Projection]
    ) -> None:
        """Sees `CoordinatorLog`."""
        now = self._now_ms()
        self.commit_stream(records, [stream_record(p, now) for p in projections])

    def commit_stream(
        self, records: Sequence[durable.Record], stream_records: Sequence[StreamRecord]
    ) -> None:
        """State and any records of the coordinator stream: the first fill of a deployment."""
        batch: list[TopicRecord] = [
            TopicRecord(self._state_topic, key.encode(), durable.encode(value))
            for key, value in records
        ]
        batch += [
            TopicRecord(self._stream_topic, record.key_bytes(), record.value)
            for record in stream_records
        ]
        self._writer.commit(batch)


class KafkaRequests:
    """Placement requests by tailing the coordinator stream."""

    def __init__(self, store: ContainerPlacementMetadataStore) -> None:
        self._store = store

    @contextmanager
    def tail(self, on_request: Callable[[PlacementRequest], None]) -> Iterator[object]:
        """Sees `RequestSource`."""
        # The position is taken before the present is read: a request between the two
        # comes twice, never not at all.
        position = self._store.end_position()
        for request in sorted(self._store.requests(), key=lambda r: (r.timestamp, r.uuid)):
            on_request(request)
        watch = self._store.watch_requests(
            lambda request, _change: on_request(request), from_position=position
        )
        try:
            yield watch
        finally:
            watch.close()
