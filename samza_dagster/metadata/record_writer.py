"""Writes single records to a topic, each acknowledged by all replicas."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster, end_producer
from samza_dagster.metadata.topic_reader import TopicEnd


class RecordWriter:
    """An idempotent producer for partition 0 of one topic. Thread-safe.

    `timeout_s` bounds every call. Never creates the topic.
    """

    def __init__(
        self, cluster: KafkaCluster, topic: str, end: TopicEnd, *, timeout_s: float
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._end = end
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._topic_seen = False

    def prepare(self) -> None:
        """Make the producer at once, so that it has its id when the first record is written."""
        # An idempotent producer requests its id at its start, before it is connected, and again
        # after half a second: a record written meanwhile waits for that. The topic isn't involved,
        # so it isn't created.
        with self._lock:
            self._need_producer()

    def write(self, asked: str, key: bytes, value: bytes | None) -> int:
        """Write one record and return its offset; `asked` is for the error.

        Raises `InvalidInput` when the topic doesn't exist or refuses the record, `Unreachable`
        when no broker answers in time: the record may have been written then.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            if not self._topic_seen:
                # First, because a producer would let the broker create a missing topic.
                self._end.offset(self._timeout_s)
                self._topic_seen = True
            producer = self._need_producer()
            outcome: list[tuple[KafkaError | None, Message]] = []

            def on_delivery(error: KafkaError | None, message: Message) -> None:
                outcome.append((error, message))

            try:
                producer.poll(0)  # raises for a login without rights, before a record waits
                producer.produce(
                    self._topic, key=key, value=value, partition=0, on_delivery=on_delivery
                )
                # The client gives up by itself at the deadline; a little later it is stuck.
                while not outcome and time.monotonic() < deadline + 1:
                    producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].fatal():
                    self._forget()
                raise self._cluster.failure(
                    asked, error.args[0], self._timeout_s, self._topic
                ) from error
            if not outcome:
                self._forget()
                raise self._cluster.unreachable(asked, self._timeout_s)
            error, message = outcome[0]
            if error is not None:
                failure = self._cluster.failure(asked, error, self._timeout_s, self._topic)
                if error.fatal() or isinstance(failure, Unreachable):
                    self._forget()  # it may be lost for good (`kept_client`)
                raise failure
            offset = message.offset()
            assert offset is not None
            return offset

    def close(self) -> None:
        """End the producer."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        producer, self._producer, self._topic_seen = self._producer, None, False
        end_producer(producer)

    def _need_producer(self) -> Producer:
        if self._producer is None:
            timeout_ms = max(int(self._timeout_s * 1000), 1)
            self._producer = self._cluster.producer(timeout_ms=timeout_ms)
        return self._producer
