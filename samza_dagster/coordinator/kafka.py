"""The Kafka side of a term: the transactional log and the tail of requests."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.effects import response_of
from samza_dagster.coordinator.stream_health import StreamHealth
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.audit_log import encode_entry
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.placement_store import (
    ContainerPlacementMetadataStore,
    request_key,
    response_key,
)
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.model import PlacementRequest
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement import commands
from samza_dagster.placement.audit_codec import audit_to_json
from samza_dagster.placement.certificates import AuditRecord

SOURCE = "samza-dagster"
log = logging.getLogger(__name__)


def partition_counts(cluster: KafkaCluster, topics: Iterable[str]) -> dict[str, int]:
    """Partitions of each topic; raises `InvalidInput` for one that doesn't exist."""
    from confluent_kafka import KafkaException

    asked = "read the partitions of the job's inputs"
    try:
        found = cluster.admin().list_topics(timeout=10).topics
    except KafkaException as error:
        raise cluster.failure(asked, error.args[0], 10) from error
    missing = sorted(set(topics) - found.keys())
    if missing:
        raise InvalidInput(asked, seen=f"no topic {', '.join(missing)}", fix="create it first")
    return {topic: len(found[topic].partitions) for topic in topics}


def author(now_ms: int) -> Author:
    """Who a record of ours says that it is from."""
    return Author(
        host=socket.gethostname(), username=getpass.getuser(), timestamp_ms=now_ms, source=SOURCE
    )


def stream_record(
    projection: commands.WriteResponse
    | commands.DeleteRequest
    | commands.WriteLocality
    | commands.DeleteLocality,
    now_ms: int,
) -> StreamRecord:
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
    """State, coordinator stream and audit topic, written together in one transaction a step."""

    def __init__(
        self,
        writer: StateWriter,
        *,
        state_topic: str,
        stream_topic: str,
        audit_topic: str,
        now_ms: Callable[[], int],
        stopped: Callable[[], bool],
    ) -> None:
        self._writer = writer
        self._stopped = stopped
        self._state_topic = state_topic
        self._stream_topic = stream_topic
        self._audit_topic = audit_topic
        self._now_ms = now_ms

    def commit(
        self, records: Sequence[durable.Record], projections: Sequence[commands.Projection]
    ) -> None:
        """Sees `CoordinatorLog`."""
        now = self._now_ms()
        streamed: list[StreamRecord] = []
        audited: list[AuditRecord] = []
        for projection in projections:
            if isinstance(projection, commands.RecordCertificate):
                audited.append(projection.record)
            else:
                streamed.append(stream_record(projection, now))
        self.commit_stream(records, streamed, audited)

    def commit_stream(
        self,
        records: Sequence[durable.Record],
        stream_records: Sequence[StreamRecord],
        audit_records: Sequence[AuditRecord] = (),
    ) -> None:
        """State and any records of the coordinator stream: the first fill of a deployment."""
        batch = [(self._state_topic, *encode_record(key, value)) for key, value in records]
        batch += [(self._stream_topic, r.key_bytes(), r.value) for r in stream_records]
        batch += [(self._audit_topic, *encode_entry(audit_to_json(r))) for r in audit_records]
        try:
            self._writer.commit(batch)
        except Unreachable as error:
            self._wait_for_the_broker(error)

    def _wait_for_the_broker(self, error: Unreachable) -> None:
        """The same transaction again until the broker is back: nothing else may be decided."""
        while self._writer.pending and not self._stopped():
            log.warning("the broker is away, containers run on: %s", error)
            try:
                self._writer.finish_pending()
            except Unreachable as again:
                error = again
        if self._writer.pending:
            raise error


class KafkaRequests:
    """Placement requests by tailing the coordinator stream."""

    def __init__(self, metadata: MetadataStore, health: StreamHealth) -> None:
        self._metadata = metadata
        self._store = ContainerPlacementMetadataStore(metadata)
        self._health = health

    def no_start_because(self) -> str:
        """Sees `RequestSource`."""
        return self._health.no_start_because()

    @contextmanager
    def tail(self, on_request: Callable[[PlacementRequest], None]) -> Generator[object]:
        """Sees `RequestSource`."""
        # The position is taken before the present is read: a request between the two
        # comes twice, never not at all.
        position = self._metadata.end_position()
        for request in self._store.requests():
            on_request(request)
        watch = self._store.watch_requests(
            lambda request, _change: on_request(request), from_position=position
        )
        try:
            yield watch
        finally:
            watch.close()
