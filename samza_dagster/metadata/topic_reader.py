"""Read a one-partition topic: catch up to its end, and tail it.

Ends may be transaction markers, which no reader ever receives: the end of a read is
reported by the client's end-of-partition event, which counts markers too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s, share_of
from samza_dagster.metadata.kept_client import KeptClient

_log = logging.getLogger(__name__)
_POLL_S = 0.1
_PATIENCE_S = 1.0
_SILENCE_S = 5.0
"""A tail that hears nothing for so long asks whether the brokers answer it at all."""
_ANSWER_S = 1.0


@dataclass(frozen=True)
class TopicRecord:
    """A record as it stands in the topic; `value` None is a deletion.

    `timestamp_ms` is the broker's (`by_broker`) or the producer's, as the topic is set. `offset`
    tells what was written before what, in one partition; `timestamp_ms` doesn't.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    offset: int = -1
    partition: int = 0
    by_broker: bool = False


class TopicEnd:
    """Asks for the end offset of a topic's only partition.

    By a connection of its own, so that no question waits behind a fetch. (The admin
    client's `list_offsets` now and then took one or three whole seconds.)
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._kept = {
            committed_only: KeptClient(
                partial(cluster.reader, committed_only=committed_only), _close
            )
            for committed_only in (False, True)
        }

    def offset(self, deadline_s: float, *, committed_only: bool = False) -> int:
        """The offset after the last record or marker, open transactions included.

        With `committed_only`, the offset at which the first open transaction begins.
        Raises `InvalidInput` when the topic doesn't exist, `Unreachable` when no broker
        answers within `deadline_s`.

        Each question may take `share_of` the time, and looks up the partition's leader again.
        """
        asked = f"read the end of topic {self._topic}"
        deadline = time.monotonic() + deadline_s
        with self._kept[committed_only].use() as consumer:
            while True:
                try:
                    offsets = consumer.get_watermark_offsets(
                        TopicPartition(self._topic, 0),
                        timeout=share_of(remaining_s(deadline)),
                        cached=False,
                    )
                except KafkaException as error:
                    consumer.poll(0)  # hands over the connection's errors, which say why
                    failure = self._cluster.failure(asked, error.args[0], deadline_s)
                    if isinstance(failure, InvalidInput) or remaining_s(deadline) <= 0:
                        raise failure from error
                    if not self._exists(consumer, remaining_s(deadline)):
                        raise self._cluster.unknown_topic(asked, self._topic) from error
                    consumer.poll(0.05)  # its leader is being elected
                else:
                    return offsets[1]

    def settled(self, deadline_s: float) -> tuple[int, int]:
        """Return the offset up to which every transaction has ended, and the end at the time of the call.

        Waits for a transaction that is open at the time, but not longer than a second: its
        producer may be dead. Raises as `offset` does.
        """
        # A commit returns when it is decided; its marker, which makes it visible, may come later.
        patience = time.monotonic() + _PATIENCE_S
        written = self.offset(deadline_s)
        while True:
            settled = self.offset(deadline_s, committed_only=True)
            if settled >= written or time.monotonic() > patience:
                return settled, written
            time.sleep(0.005)

    def close(self) -> None:
        """Closes the connections."""
        for kept in self._kept.values():
            kept.close()

    def _exists(self, consumer: Consumer, timeout_s: float) -> bool:
        try:
            return self._topic in consumer.list_topics(timeout=max(timeout_s, 0.1)).topics
        except KafkaException:
            return True  # no answer says nothing; the deadline ends the question


class TopicReader:
    """Reads a topic forward from its start, as far as it is asked to. Not thread-safe."""

    def __init__(
        self, cluster: KafkaCluster, topic: str, *, committed_only: bool, start: int = 0
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._consumer = cluster.reader(committed_only=committed_only)
        # Offset 0, not "beginning": that would be asked of the broker, after half a second.
        # Where the log begins later, the client's reset to the earliest offset finds it.
        self._consumer.assign([TopicPartition(topic, 0, start)])
        self.position = start

    def read_until(
        self, end: int, on_record: Callable[[TopicRecord], None], deadline_s: float
    ) -> None:
        """Calls `on_record` for every record before `end` (later ones may come too).

        Returns when the position has reached `end`. Raises `Unreachable` when it hasn't
        by `deadline_s`: no broker answers, or a transaction stays open before `end`.
        """
        deadline = time.monotonic() + deadline_s
        last_error = ""
        while self.position < end:
            wait_s = remaining_s(deadline)
            if wait_s <= 0:
                raise self._cluster.unreachable(
                    f"read topic {self._topic} up to offset {end}",
                    deadline_s,
                    last_error or f"position {self.position}",
                )
            message = self._consumer.poll(min(wait_s, 1.0))
            if message is None:
                continue
            record, error = _received(message)
            if record is not None:
                on_record(record)
                self.position = record.offset + 1
            elif error is None:
                self.position = max(self.position, cast("int", message.offset()))
            else:
                last_error = error

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()


def read_stretch(
    cluster: KafkaCluster,
    topic: str,
    end: int,
    timeout_s: float,
    *,
    start: int = 0,
    committed_only: bool = True,
) -> list[TopicRecord]:
    """The records from `start` up to `end`, by a connection of its own.

    Raises `Unreachable` when `end` isn't reached in time.
    """
    found: list[TopicRecord] = []
    reader = TopicReader(cluster, topic, committed_only=committed_only, start=start)
    try:
        reader.read_until(end, found.append, timeout_s)
    finally:
        reader.close()
    return [record for record in found if record.offset < end]


class TopicTail:
    """Calls `on_record` for every record from `start`, in a thread of its own, until closed.

    When brokers go away and come back it goes on where it was, by a new client if the one
    that it has isn't answered (`kept_client`). An exception of `on_record` is logged and the
    tail goes on.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        start: int,
        on_record: Callable[[TopicRecord], None],
        *,
        committed_only: bool,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._position = start
        self._on_record = on_record
        self._committed_only = committed_only
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tail-{topic}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the tail and waits for its thread."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            consumer = self._cluster.reader(committed_only=self._committed_only, report_ends=False)
            consumer.assign([TopicPartition(self._topic, 0, self._position)])
            try:
                self._follow(consumer)
            finally:
                consumer.close()

    def _follow(self, consumer: Consumer) -> None:
        """Until closed, or until brokers don't answer this client."""
        heard_s = time.monotonic()
        while not self._closed.is_set():
            message = consumer.poll(_POLL_S)
            if message is not None:
                heard_s = time.monotonic()
                self._take(message)
            elif time.monotonic() - heard_s > _SILENCE_S:
                if not self._is_answered(consumer):
                    return
                heard_s = time.monotonic()

    def _is_answered(self, consumer: Consumer) -> bool:
        try:
            consumer.list_topics(self._topic, timeout=_ANSWER_S)
        except KafkaException as error:
            _log.debug("Tailing %s by a new client: %s", self._topic, error.args[0].str())
            return False
        return True

    def _take(self, message: Message) -> None:
        record, error = _received(message)
        if error is not None:
            _log.warning("Tailing %s: %s", self._topic, error)
        elif record is not None:
            self._position = record.offset + 1
            self._deliver(record)

    def _deliver(self, record: TopicRecord) -> None:
        try:
            self._on_record(record)
        except Exception:
            _log.exception("A watch's callback failed at %s, offset %d", self._topic, record.offset)


def _close(consumer: Consumer) -> None:
    consumer.close()


def _received(message: Message) -> tuple[TopicRecord | None, str | None]:
    """The record, or the error's text; neither for an end of the partition."""
    error = message.error()
    if error is None:
        at_ms, offset = message.timestamp()[1], cast("int", message.offset())
        return TopicRecord(message.key(), message.value(), at_ms, offset), None
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name has the underscore
        return None, None
    return None, error.str()
