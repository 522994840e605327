"""`MetadataStore` over Samza's coordinator stream in Kafka.

Reads what Samza's readers read, uncommitted and aborted records too, unless configured otherwise.
Commits no offsets and joins no group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, closing
from typing import Self

from samza_dagster.errors import MalformedRecord, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import decode_key, encode_key
from samza_dagster.metadata.interface import Change, KeptValue, OnMalformed, log_malformed
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.record_writer import RecordWriter
from samza_dagster.metadata.topic_reader import (
    TopicEnd,
    TopicReader,
    TopicRecord,
    TopicTail,
    read_stretch,
)

_log = logging.getLogger(__name__)


class KafkaMetadataStore:
    """Keys and values of a coordinator stream. Thread-safe.

    `timeout_s` bounds every call. Records with an unreadable key go to `on_malformed` (once by
    the store's own view, once by each watch) and are skipped. It connects at the first call.
    Calls raise `InvalidInput` when the topic doesn't exist and `Unreachable` when no broker
    answers in time; after that of a `put` it is unknown whether the record was written.

    With `committed_only` the newest value of a key is the newest committed one: a deletion that a
    dead leader left in its transaction hides nothing. A watch still delivers every record at
    once, so that no open transaction delays later records.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        client_config: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        on_malformed: OnMalformed = log_malformed,
        committed_only: bool = False,
    ) -> None:
        self._cluster = KafkaCluster(bootstrap_servers, client_config)
        self._topic = topic
        self._timeout_s = timeout_s
        self._on_malformed = on_malformed
        self._committed_only = committed_only
        self._end = TopicEnd(self._cluster, topic)
        self._view_lock = threading.Lock()
        self._view: dict[str, dict[str, KeptValue]] = {}
        self._written_ms: dict[str, dict[str, int]] = {}
        self._reader: TopicReader | None = None
        self._writer = RecordWriter(self._cluster, topic, self._end, timeout_s=timeout_s)
        self._tails = ExitStack()

    @classmethod
    def of(
        cls,
        connection: Connection,
        *,
        timeout_s: float = 10.0,
        on_malformed: OnMalformed = log_malformed,
        committed_only: bool = False,
    ) -> Self:
        """Return the store of a job's coordinator stream."""
        return cls(
            connection.bootstrap_servers,
            connection.coordinator_stream_topic,
            client_config=connection.client_config,
            timeout_s=timeout_s,
            on_malformed=on_malformed,
            committed_only=committed_only,
        )

    def __repr__(self) -> str:
        return f"KafkaMetadataStore({self._cluster!r}, {self._topic!r})"

    def get(self, namespace: str, key: str) -> bytes | None:
        """Return the newest value up to the end at the time of the call; None when absent."""
        with self._view_lock:
            self._catch_up()
            found = self._view.get(namespace, {}).get(key)
            return None if found is None else found.value

    def all(self, namespace: str) -> dict[str, bytes]:
        """Return every key of a namespace with its newest value."""
        with self._view_lock:
            self._catch_up()
            return {key: kept.value for key, kept in self._view.get(namespace, {}).items()}

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        """Return every namespace with its keys and their newest values, by one request."""
        with self._view_lock:
            self._catch_up()
            return {namespace: dict(keys) for namespace, keys in self._view.items()}

    def written_ms(self, namespace: str, keys: Iterable[str]) -> dict[str, int]:
        """Return when each of these keys got its newest value, by the records read so far."""
        # Deleted values count too.
        with self._view_lock:
            found = self._written_ms.get(namespace, {})
            return {key: found[key] for key in keys if key in found}

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """Write and wait for the acknowledgement of all replicas; return the offset."""
        return self._write(namespace, key, value)

    def remove(self, namespace: str, key: str) -> int:
        """Delete the key (if it exists); return the deletion's offset."""
        return self._write(namespace, key, None)

    def prepare_writes(self) -> None:
        """Prepare the first write (`RecordWriter.prepare`); return at once."""
        self._writer.prepare()

    def end_position(self) -> int:
        """Return the end offset, transaction markers counted.

        With `committed_only` it is the begin of the first open transaction: a watch from there
        delivers everything that the view may lack.
        """
        return self._end.offset(self._timeout_s, committed_only=self._committed_only)

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        """Return a namespace's records from an offset up to the present end, and that end."""
        # It has a connection of its own, so the cost is that of the records since the offset.
        deadline = time.monotonic() + self._timeout_s
        end = self.end_position()
        if since >= end:
            return (), end
        records = read_stretch(
            self._cluster,
            self._topic,
            end,
            remaining_s(deadline),
            start=max(since, 0),
            committed_only=self._committed_only,
        )
        changes = map(self._change, records)
        return tuple(c for c in changes if c is not None and c.namespace == namespace), end

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> TopicTail:
        """Call `on_change` for every record of these namespaces from an offset on, in order.

        None starts now. The calls come from a thread of its own, which survives an absence of
        brokers.
        """
        end = self._end.offset(self._timeout_s)

        def on_record(record: TopicRecord) -> None:
            change = self._change(record)
            if change is not None and change.namespace in namespaces:
                on_change(change)

        start = end if since is None else max(since, 0)
        tail = TopicTail(self._cluster, self._topic, start, on_record, committed_only=False)
        return self._tails.enter_context(closing(tail))

    def close(self) -> None:
        """End all watches and release connections."""
        self._tails.close()
        with self._view_lock:
            self._forget_view()
            self._view, self._written_ms = {}, {}
        self._writer.close()
        self._end.close()

    def _catch_up(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        if self._committed_only:
            settled, end = self._end.settled(self._timeout_s)
        else:
            settled = end = self._end.offset(self._timeout_s)
        if self._reader is None:
            self._view, self._written_ms = {}, {}
            self._reader = TopicReader(
                self._cluster, self._topic, committed_only=self._committed_only
            )
        try:
            self._reader.read_until(settled, self._apply, remaining_s(deadline))
        except Unreachable:
            self._forget_view()  # its client may be lost for good (`kept_client`)
            raise
        if self._reader.position < end:
            self._read_undecided(self._reader.position, end, deadline)

    def _read_undecided(self, start: int, end: int, deadline: float) -> None:
        """Read on behind a transaction that stays open, as if it were committed."""
        # Later records count too: without them a view would be old, and a new deployment would give
        # tasks other changelog partitions.
        _log.warning(
            "a transaction on %s stays open at offset %d: what is behind it is read as if it "
            "were committed, until the broker ends it (transaction.max.timeout.ms) or an operator "
            "does (kafka-transactions.sh find-hanging, abort)",
            self._topic,
            start,
        )
        try:
            for record in read_stretch(
                self._cluster,
                self._topic,
                end,
                remaining_s(deadline),
                start=start,
                committed_only=False,
            ):
                self._apply(record)
        finally:
            self._forget_view()

    def _forget_view(self) -> None:
        """Drop the reader, so that the next call reads the topic anew."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _apply(self, record: TopicRecord) -> None:
        change = self._change(record)
        if change is None:
            return
        keys = self._view.setdefault(change.namespace, {})
        if change.value is None:
            keys.pop(change.key, None)
        else:
            keys[change.key] = KeptValue(change.value, change.position)
            self._written_ms.setdefault(change.namespace, {})[change.key] = change.timestamp_ms

    def _change(self, record: TopicRecord) -> Change | None:
        try:
            key = decode_key(record.key, topic=self._topic, offset=record.offset)
        except MalformedRecord as error:
            self._on_malformed(error)
            return None
        return Change(key.namespace, key.key, record.value, record.offset, record.timestamp_ms)

    def _write(self, namespace: str, key: str, value: bytes | None) -> int:
        asked = f"write {namespace} {key} to topic {self._topic}"
        return self._writer.write(asked, encode_key(namespace, key), value)
