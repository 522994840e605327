"""The only writer of a job's durable state: leadership and commits by Kafka transactions.

The last writer to take over the transactional id leads; the broker refuses the writes of all
before it. Kafka's KIP-98 and KIP-360 have the reasons and measurements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from samza_dagster.errors import Fenced, InvalidInput, SamzaDagsterError, Unreachable
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.replicas import TRANSACTIONS, kept_topics, no_write_because
from samza_dagster.metadata.state_topic import (
    TAKE_OVER,
    Snapshot,
    encode_record,
    read_snapshot,
)
from samza_dagster.metadata.topic_reader import TopicEnd

Records = Sequence[tuple[str, bytes, bytes | None]]
"""Topic, key, value (None deletes); all go to partition 0."""

# The time for which a broker keeps the open transaction of a lost leader; a take-over ends it at
# once. Long, because a leader that lost its broker within a commit must be able to finish it and
# not be fenced by time alone. Brokers allow 15 minutes by default.
_TRANSACTION_TIMEOUT_MS = 600_000
_OTHERS_S = 2.0
_BACK_S = 5.0
"""A sound client finds returned brokers and the transaction's coordinator within this time."""
RECORDS_MAX = 50_000  # half of the client's queue, which so never fills within a transaction


class StateWriter:
    """Commits records to the state topic and others, in one transaction per call.

    One thread at a time may call it. `timeout_s` bounds every call; a call that fails takes 12 s
    more to find out why and whether the brokers answer others.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        state_topic: str,
        transactional_id: str,
        *,
        client_config: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._cluster = KafkaCluster(bootstrap_servers, client_config)
        self._state_topic = state_topic
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._end = TopicEnd(self._cluster, state_topic)
        self._producer: Producer | None = None
        self._pending: Records | None = None
        self._fenced = ""
        self._in_transaction = False
        self._all_sent = False
        self._refused: KafkaError | None = None
        self._last_offset = -1  # the offset of the record that was acknowledged last
        self._known_topics: set[str] = set()
        self._lock = threading.Lock()

    @property
    def has_pending(self) -> bool:
        """Return whether a commit missed its deadline and its outcome is unknown."""
        return self._pending is not None

    @property
    def is_leading(self) -> bool:
        """Return whether it took over, and knows of no later take-over."""
        return self._producer is not None and not self._fenced

    def take_over(
        self, timeout_s: float = 30.0, *, claim: Mapping[str, Any] | None = None
    ) -> Snapshot:
        """Take the lead: fence the writer before, then read all current records.

        The older writer's open transaction is aborted. Then a mark is committed that contains
        `claim`, and everything before it is read: a broker that has just restarted may report an
        end of the topic below the last commit, but can't append there. The snapshot has no marks.
        The call tries until `timeout_s`.

        Raises `InvalidInput` when the state topic doesn't exist, and `Fenced` when another writer took over
        meanwhile. Raises `MalformedRecord` for an unreadable state (this writer then leads and must not
        continue), and `Unreachable` (the leader is unknown: call again).
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._end.offset(timeout_s)  # raises before it fences another writer
            self._known_topics.add(self._state_topic)
            try:
                self._producer = self._fence(self._transactional_id, deadline, timeout_s)
                self._fenced, self._pending, self._in_transaction = "", None, False
                mark = self._mark(claim or {}, deadline)
                snapshot = read_snapshot(
                    self._cluster,
                    self._state_topic,
                    end=mark + 1,
                    timeout_s=max(remaining_s(deadline), 1.0),
                )
            except Unreachable as error:
                self._producer = None
                self._pending = None
                self._raise_if_no_write(error)
                raise
        records = {key: r for key, r in snapshot.records.items() if key != TAKE_OVER}
        return replace(snapshot, records=records)

    def commit(self, records: Records) -> None:
        """Write all records or none; return when they are committed.

        It first finishes a pending commit of an earlier call. Raises `Fenced` when another writer
        took over (final), `InvalidInput` for records that the broker refuses (none is written),
        `Unreachable` after the deadline: the commit is then pending, and `finish_pending` or
        the next `commit` continues it. If it isn't pending after `Unreachable`, the client is
        unusable, as one without answers while others get them, and only a take-over shows the
        outcome.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            self._require_leading()
            if self._pending is not None:
                self._finish(deadline)
            if not records:
                return
            if len(records) > RECORDS_MAX:
                raise InvalidInput(
                    "commit state in one transaction",
                    seen=f"{len(records)} records",
                    fix=f"at most {RECORDS_MAX} records a commit",
                )
            # Pending before any request, because it must be pending when `Unreachable` is raised.
            self._pending = tuple(records)
            self._finish(deadline)

    def finish_pending(self) -> None:
        """Continue a commit that missed its deadline; raise as `commit` does."""
        with self._lock:
            self._require_leading()
            if self._pending is not None:
                self._finish(time.monotonic() + self._timeout_s)

    def close(self) -> None:
        """Release the connections; the next take-over aborts an open transaction.

        A pending commit's outcome stays unknown; the next leader reads it.
        """
        with self._lock:
            self._producer = None
            self._pending = None
            self._end.close()

    def _fence(self, transactional_id: str, deadline: float, timeout_s: float) -> Producer:
        """Take the id over: its former owner is fenced, and its open transaction aborted."""
        producer = self._cluster.producer(
            transactional_id=transactional_id, timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        while True:
            try:
                producer.init_transactions(max(remaining_s(deadline), 0.1))
            except KafkaException as error:
                reason = error.args[0]
                if not reason.retriable() or remaining_s(deadline) <= 0:
                    asked = f"lead by the transactional id {transactional_id}"
                    raise self._failure(asked, reason, timeout_s) from error
            else:
                return producer

    def _mark(self, claim: Mapping[str, Any], deadline: float) -> int:
        """Commit the mark of this take-over; return its offset."""
        while True:
            self._last_offset = -1
            self._pending = ((self._state_topic, *encode_record(TAKE_OVER, claim)),)
            self._finish(deadline)
            if self._last_offset >= 0:
                return self._last_offset
            # It was sent twice, and the broker knows it without its offset, so write it once more.

    def _require_leading(self) -> None:
        if self._fenced:
            raise self._fenced_error()
        if self._producer is None:
            raise InvalidInput(
                "commit state", seen="a writer that doesn't lead", fix="call take_over first"
            )

    def _check_topics(self, deadline: float) -> None:
        # A transactional producer would let the broker create a missing topic.
        assert self._pending is not None
        for topic in {topic for topic, _, _ in self._pending} - self._known_topics:
            end = TopicEnd(self._cluster, topic)
            try:
                end.offset(max(remaining_s(deadline), 0.1))
            except InvalidInput:
                self._pending = None
                raise
            finally:
                end.close()
            self._known_topics.add(topic)

    def _finish(self, deadline: float) -> None:
        """Finish as `commit`; drop a client that fails while the brokers answer others."""
        # librdkafka's client may never find a broker again (`kept_client`). It is kept where
        # brokers would take no write from any client: then it continues by itself when enough of
        # them return.
        try:
            self._try_until(deadline)
        except Unreachable as error:
            if self._pending is None:
                raise
            self._raise_if_no_write(error)
            if not self._is_answering_others():
                raise
        else:
            return
        try:
            self._try_until(time.monotonic() + _BACK_S)
        except Unreachable:
            self._producer = None
            self._pending = None
            raise

    def _raise_if_no_write(self, error: Unreachable) -> None:
        """Raise the brokers' own reason, where too few replicas are in sync for any writer."""
        topics = {self._state_topic, TRANSACTIONS, *(topic for topic, _, _ in self._pending or ())}
        try:
            why = no_write_because(kept_topics(self._cluster, topics, _OTHERS_S))
        except SamzaDagsterError:
            return
        if why:
            raise Unreachable(
                error.asked,
                seen=why,
                fix="start these brokers, or give these topics more replicas: samza-dagster doctor",
            ) from error

    def _is_answering_others(self) -> bool:
        end = TopicEnd(self._cluster, self._state_topic)
        try:
            end.offset(_OTHERS_S)
        except SamzaDagsterError:
            return False
        finally:
            end.close()
        return True

    def _try_until(self, deadline: float) -> None:
        producer = self._producer
        assert producer is not None
        while True:
            try:
                if self._in_transaction and not self._all_sent:
                    # Remains of an exception between begin and commit: half of it must not commit.
                    self._abort(producer, f"commit state as {self._transactional_id}", deadline)
                if not self._in_transaction:
                    self._check_topics(deadline)
                    self._begin(producer)
                producer.commit_transaction(max(remaining_s(deadline), 0.1))
            except KafkaException as error:
                self._after_error(producer, error.args[0], deadline)
            else:
                self._in_transaction = False
                self._pending = None
                return

    def _begin(self, producer: Producer) -> None:
        assert self._pending is not None
        self._refused = None
        self._all_sent = False
        producer.begin_transaction()
        self._in_transaction = True
        for topic, key, value in self._pending:
            producer.produce(
                topic, key=key, value=value, partition=0, on_delivery=self._on_delivery
            )
        self._all_sent = True

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            self._last_offset = -1 if offset is None else offset
        elif self._refused is None:
            self._refused = error

    def _after_error(self, producer: Producer, error: KafkaError, deadline: float) -> None:
        """Return when the transaction may be tried again, else raise."""
        asked = f"commit state as {self._transactional_id}"
        if error.fatal():
            self._producer = None
            self._pending = None
            raise self._failure(asked, error, self._timeout_s)
        if not error.txn_requires_abort() and not error.retriable():
            # produce() refused a record before anything was sent.
            self._refused = self._refused or error
        if error.txn_requires_abort() or self._refused is not None:
            self._abort(producer, asked, deadline)
            refused = self._permanent(asked)
            if refused is not None:
                self._pending = None
                raise refused
        if remaining_s(deadline) <= 0:
            raise self._cluster.unreachable(asked, self._timeout_s, error.str())

    def _abort(self, producer: Producer, asked: str, deadline: float) -> None:
        while True:
            try:
                producer.abort_transaction(max(remaining_s(deadline), 0.1))
            except KafkaException as error:
                reason = error.args[0]
                if reason.fatal():
                    self._producer = None
                    self._pending = None
                    raise self._failure(asked, reason, self._timeout_s) from error
                if not reason.retriable() or remaining_s(deadline) <= 0:
                    raise self._cluster.unreachable(asked, self._timeout_s, reason.str()) from error
            else:
                self._in_transaction = False
                return

    def _permanent(self, asked: str) -> SamzaDagsterError | None:
        if self._refused is None:
            return None
        failure = self._cluster.failure(asked, self._refused, self._timeout_s)
        return None if isinstance(failure, Unreachable) else failure

    def _failure(self, asked: str, error: KafkaError, timeout_s: float) -> SamzaDagsterError:
        if error.code() in (
            KafkaError._FENCED,  # noqa: SLF001 - the public name has the underscore
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        ):
            self._fenced = error.str()
            return self._fenced_error()
        return self._cluster.failure(asked, error, timeout_s, self._state_topic)

    def _fenced_error(self) -> Fenced:
        return Fenced(
            f"write state as {self._transactional_id}",
            seen=f"the broker refused it: {self._fenced}",
            fix="end this process; the newer leader goes on",
        )
