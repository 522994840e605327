"""The Kafka side of a term: the transactional log and the tail of requests."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.effects import response_of
from samza_dagster.coordinator.mail import (
    Arrived,
    Ignored,
    Mail,
    read_own_request,
    read_stream_request,
)
from samza_dagster.coordinator.stream_health import StreamHealth
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.audit_log import encode_entry
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.interface import Change, MetadataStore
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.placement_store import request_key, response_key
from samza_dagster.metadata.replicas import cluster_metadata
from samza_dagster.metadata.state_topic import Snapshot, StateReader, encode_record
from samza_dagster.metadata.state_writer import Records, StateWriter
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.metadata.topics import TopicSpec
from samza_dagster.model.own_requests import REQUEST_PREFIX
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement import commands
from samza_dagster.placement.certificates import AuditRecord

SOURCE = "samza-dagster"
log = logging.getLogger(__name__)


def partition_counts(cluster: KafkaCluster, topics: Iterable[str]) -> dict[str, int]:
    """Return the partitions of each topic; raises `InvalidInput` for one that doesn't exist."""
    asked = "read the partitions of the job's inputs"
    found = cluster_metadata(cluster, asked, 10).topics
    missing = sorted(set(topics) - found.keys())
    if missing:
        a_stream = TopicSpec(missing[0], partitions=4, config={})
        raise InvalidInput(
            asked,
            seen=f"no topic {', '.join(missing)}, or no right to see it",
            fix=f"create it first: {a_stream.creation(1, cluster.bootstrap_servers)}",
        )
    return {topic: len(found[topic].partitions) for topic in topics}


def author(now_ms: int) -> Author:
    """Return the author of our records."""
    return Author(
        host=socket.gethostname(), username=getpass.getuser(), timestamp_ms=now_ms, source=SOURCE
    )


def _stream_record(
    projection: commands.WriteResponse
    | commands.DeleteRequest
    | commands.WriteLocality
    | commands.DeleteLocality,
    now_ms: int,
) -> StreamRecord:
    """Return the coordinator stream's record of a projection."""
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
        connection: Connection,
        writer: StateWriter,
        now_ms: Callable[[], int],
        stopped: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._now_ms = now_ms
        self._stopped = stopped

    def commit(
        self,
        records: Sequence[durable.Record],
        projections: Sequence[commands.Projection],
        stream_records: Sequence[StreamRecord] = (),
    ) -> None:
        """Commit one transaction; return once it is committed, however long the broker is away.

        `stream_records` go to the coordinator stream as they are. Raises `Fenced` when another
        coordinator leads, `Unreachable` when the broker doesn't answer in time.
        """
        batch = self.batch(records, projections, stream_records)
        # One at a time: `Unreachable` leaves this batch pending and no older one.
        self._until_committed(self._writer.finish_pending)
        self._until_committed(lambda: self._writer.commit(batch))

    def batch(
        self,
        records: Sequence[durable.Record],
        projections: Sequence[commands.Projection] = (),
        stream_records: Sequence[StreamRecord] = (),
    ) -> Records:
        """Return the records of a commit, as bytes."""
        now = self._now_ms()
        own: list[durable.Record] = []
        streamed: list[StreamRecord] = []
        audited: list[AuditRecord] = []
        for projection in projections:
            match projection:
                case commands.RecordCertificate():
                    audited.append(projection.record)
                case commands.WriteResponse(own=True):
                    own.append(durable.response_record(response_of(projection)))
                case commands.DeleteRequest(own=True):
                    own.append((f"{REQUEST_PREFIX}{projection.uuid}", None))
                case _:
                    streamed.append(_stream_record(projection, now))
        to = self._connection
        batch = [(to.state_topic, *encode_record(*record)) for record in (*records, *own)]
        for each in (*streamed, *stream_records):
            batch.append((to.coordinator_stream_topic, each.key_bytes(), each.value))
        batch += [(to.audit_topic, *encode_entry(record)) for record in audited]
        return batch

    def _until_committed(self, call: Callable[[], None]) -> None:
        """Repeat the same transaction until the broker is back and the call returns.

        Nothing else may be decided meanwhile. Raises `Unreachable` when it was stopped, or
        when the writer can't continue: then the transaction's outcome is unknown.
        """
        while True:
            try:
                return call()
            except Unreachable as error:
                if not self._writer.has_pending or self._stopped():
                    raise
                log.warning("the broker is away, containers run on: %s", error)
                call = self._writer.finish_pending


class KafkaRequests:
    """The tail of placement requests in the coordinator stream."""

    def __init__(self, metadata: MetadataStore, health: StreamHealth) -> None:
        self._metadata = metadata
        self._health = health

    def no_start_because(self) -> str:
        """Return why no container could start at present; empty when no reason is known."""
        return self._health.no_start_because()

    @contextmanager
    def tail(self, on_mail: Callable[[Mail], None]) -> Generator[object]:
        """Call `on_mail` for those that are there, then for each as it arrives."""
        # The position is taken before the present records are read: a request between the two
        # arrives twice, and none is lost.
        position = self._metadata.end_position()
        present = self._metadata.all(PLACEMENT_NAMESPACE).items()
        for mail in _oldest_first(read_stream_request(key, value) for key, value in present):
            on_mail(mail)

        def on_change(change: Change) -> None:
            if change.value is None:
                return
            mail = read_stream_request(change.key, change.value)
            if mail is not None:
                on_mail(mail)

        watch = self._metadata.watch({PLACEMENT_NAMESPACE}, on_change, since=position)
        try:
            yield watch
        finally:
            watch.close()


class KafkaOwnRequests:
    """The tail of our own requests in the state topic, from where take-over read it."""

    def __init__(self, reader: StateReader, snapshot: Snapshot) -> None:
        self._reader = reader
        self._snapshot = snapshot

    @contextmanager
    def tail(self, on_mail: Callable[[Mail], None]) -> Generator[object]:
        """Call `on_mail` for those that are there, then for each as it arrives."""
        for mail in _oldest_first(_own(record) for record in self._snapshot.mail):
            on_mail(mail)
        for record in self._snapshot.foreign:
            on_mail(_foreign(record))

        def on_record(record: TopicRecord) -> None:
            mail = _own(record)
            if mail is not None:
                on_mail(mail)

        watch = self._reader.watch_mail(
            on_record,
            from_position=self._snapshot.end,
            on_foreign=lambda record: on_mail(_foreign(record)),
        )
        try:
            yield watch
        finally:
            watch.close()


def _own(record: TopicRecord) -> Mail | None:
    if record.key is None or record.value is None:
        return None
    return read_own_request(record.key, record.value)


def _foreign(record: TopicRecord) -> Ignored:
    key = "no key" if record.key is None else f"key {record.key[:80]!r}"
    return Ignored(f"{key} at offset {record.offset} of the state topic: neither state nor mail")


def _oldest_first(mails: Iterable[Mail | None]) -> list[Mail]:
    """Sort requests by their clients' times; those about requests come last, in order of arrival.

    Clients' clocks differ: by its time a cancel may be older than what it cancels.
    """
    return sorted((mail for mail in mails if mail is not None), key=_place)


def _place(mail: Mail) -> tuple[int, int, str]:
    if not isinstance(mail, Arrived):
        return (0, 0, "")
    ask = mail.ask
    return (2, 0, "") if ask.kind.is_about_another else (1, ask.timestamp_ms, ask.uuid)
