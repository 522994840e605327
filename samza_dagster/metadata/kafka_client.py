"""librdkafka's clients in this package: settings, deadlines, errors.

All calls of confluent_kafka except reads and writes of records are here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from samza_dagster.errors import InvalidInput, SamzaDagsterError, UnknownTopic, Unreachable
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.metadata import shared_readers
from samza_dagster.metadata.connection import Connection, redacted

_log = logging.getLogger(__name__)
_Client = TypeVar("_Client")
_Found = TypeVar("_Found")
# For brokers on loopback or in one data centre: reconnect within a second.
_RECONNECT = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "1000"}
_LEAST_S = 1.0
PAUSE_S = 0.05


class KafkaCluster:
    """Makes clients of one cluster and turns their errors into ours.

    It remembers the clients' last error, to explain a missed deadline.
    """

    def __init__(
        self, bootstrap_servers: str, client_config: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._client_config = dict(client_config or {})
        self._last_error = (0.0, "")

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return the cluster of a job's coordinator stream."""
        return cls(connection.bootstrap_servers, connection.client_config)

    def __repr__(self) -> str:
        return f"KafkaCluster({self.bootstrap_servers!r}, {redacted(self._client_config)!r})"

    def tls_settings(self) -> dict[str, str]:
        """Return the settings that any client of this cluster needs, with any login."""
        return {k: v for k, v in self._client_config.items() if k.startswith("ssl.")}

    LARGEST = "message.max.bytes"

    @property
    def largest_record_bytes(self) -> int:
        """Return the limit of a record, uncompressed, above which a producer refuses it."""
        return int(self._client_config.get(self.LARGEST, "1000000"))

    @property
    def is_compressing(self) -> bool:
        """Return whether producers of this cluster may compress records."""
        of = self._client_config.get
        return (of("compression.type") or of("compression.codec") or "none") != "none"

    def reader(self, *, committed_only: bool, report_ends: bool = True) -> Consumer:
        """Return a consumer that takes part in no group and commits nothing.

        `report_ends`: it reports the end of the partition, within 25 ms of reaching it. The group
        `samza-dagster-reader` is only a name that the client needs.
        """
        own = {
            "group.id": "samza-dagster-reader",
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": "false",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "fetch.error.backoff.ms": "50",
            "fetch.queue.backoff.ms": "10",
            # An empty fetch reports an end; the broker delays it for this long.
            "enable.partition.eof": "true" if report_ends else "false",
            "fetch.wait.max.ms": "25" if report_ends else "500",
        }
        return shared_readers.reader(self._settings(own), partial(self._make, Consumer))

    def producer(
        self,
        *,
        transactional_id: str | None = None,
        timeout_ms: int = 10_000,
        is_idempotent: bool = True,
    ) -> Producer:
        """Return an idempotent producer without batching delay, or a transactional one.

        `timeout_ms` bounds the delivery of a record, or the broker's time for an open
        transaction. A producer that isn't idempotent may write a record twice. It starts at once,
        while another needs up to a second to get its id from the brokers.
        """
        settings = {"enable.idempotence": str(is_idempotent), "acks": "all", "linger.ms": "0"}
        if transactional_id is None:
            settings["message.timeout.ms"] = str(timeout_ms)
        else:
            settings["transactional.id"] = transactional_id
            # A cluster may allow less (`transaction.max.timeout.ms`): the caller's own wins.
            given = self._client_config.get("transaction.timeout.ms")
            settings["transaction.timeout.ms"] = given or str(timeout_ms)
        return self._make(Producer, self._settings(settings))

    def admin(self) -> AdminClient:
        """Return a client that creates and describes topics."""
        return self._make(AdminClient, self._settings({}))

    def unreachable(self, asked: str, deadline_s: float, seen: str = "") -> Unreachable:
        """Return the error for a missed deadline; it names the servers and the last error."""
        at, last_error = self._last_error
        recent = last_error if time.monotonic() - at < deadline_s + 5 else ""
        details = [seen, recent, f"no answer within {deadline_s:g} s"]
        return Unreachable(
            f"{asked} (Kafka at {self.bootstrap_servers})",
            seen=", ".join(detail for detail in details if detail),
            fix="start the brokers, or correct the bootstrap servers and the security settings",
        )

    def unread(self, topic: str, partition: int, error: KafkaError | None = None) -> Unreachable:
        """Return the error for a partition that couldn't be read, while others could.

        A negative number means the whole topic. Without an error, none of its records came in
        time. Raises `InvalidInput` for an error that is neither a broker's absence nor a missing
        right.
        """
        part = topic if partition < 0 else f"{topic}-{partition}"
        asked = f"read topic {topic}" if partition < 0 else f"read partition {partition} of {topic}"
        fix = "start a broker that has a replica of it"
        if error is None:
            seen = f"the leader of {part} doesn't answer"
        elif error.code() == KafkaError.LEADER_NOT_AVAILABLE:
            seen = f"{part} has no leader"
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            seen = f"no right to read topic {topic}"
            fix = f"ALLOW this client's principal DESCRIBE and READ on topic {topic}"
        elif isinstance(failure := self.failure(asked, error, 0.0), InvalidInput):
            raise failure
        else:
            seen = f"{part}: {error.str()}"
        return Unreachable(asked, seen=seen, fix=fix)

    def unknown_topic(self, asked: str, topic: str) -> UnknownTopic:
        """Return the error for a missing topic: the job is unknown to this cluster."""
        return UnknownTopic(
            asked,
            seen=f"no topic {topic} at {self.bootstrap_servers} (or no right to see it)",
            fix="deploy the job once, or correct its name and id, or the bootstrap servers",
        )

    def failure(
        self, asked: str, error: KafkaError, deadline_s: float, topic: str = ""
    ) -> SamzaDagsterError:
        """Return our error for an error of the client."""
        code = error.code()
        if topic and code in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the public name has the underscore
            KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        ):
            return self.unknown_topic(asked, topic)
        if is_final(error):
            return InvalidInput(
                asked,
                seen=f"{topic or self.bootstrap_servers}: {error.str()}",
                fix="as the broker says: the principal's rights, a size, or a limit of the cluster",
            )
        return self.unreachable(asked, deadline_s, error.str())

    def _make(self, kind: Callable[[dict[str, Any]], _Client], settings: dict[str, Any]) -> _Client:
        try:
            with interrupts_deferred():
                return kind(settings)
        except KafkaException as error:
            raise InvalidInput(
                f"connect to Kafka at {self.bootstrap_servers}",
                seen=error.args[0].str(),
                fix="correct this setting in client_config (librdkafka's names)",
            ) from error

    def _settings(self, own: dict[str, str]) -> dict[str, Any]:
        return {
            **_RECONNECT,
            "socket.keepalive.enable": "true",
            # Its own log goes to the process's stderr; important events arrive as errors.
            "log_level": "0",
            **self._client_config,
            **own,
            "bootstrap.servers": self.bootstrap_servers,
            "error_cb": self._note_error,
        }

    def _note_error(self, error: KafkaError) -> None:
        """Remember an error, except that all brokers are down, which only follows a reason."""
        down = error.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - the public name has the underscore
        at, reason = self._last_error
        if not (down and reason):
            at, reason = time.monotonic(), error.str()
        self._last_error = (at, reason)
        _log.debug("Kafka client: %s", error.str())


def end_admin(admin: AdminClient | None) -> None:
    """End a client that is kept beyond a `with`."""
    # Never leave it to its destructor, which loses an exception of a signal's handler: the Ctrl-C
    # of a command, the termination of a run (confluent_kafka 2.16).
    if admin is not None:
        admin.__exit__(None, None, None)


def end_producer(producer: Producer | None) -> None:
    """End a producer as `end_admin` does, and drop its unacknowledged records without a wait.

    Not for a transactional one: its `close` waits for the brokers, minutes while they hang.
    """
    if producer is not None:
        producer.purge()  # `close` alone waits without a deadline
        try:
            producer.close()
        except KafkaException:  # fatal, reported here for the first time, and of no more use
            producer.close()


def remaining_s(deadline: float) -> float:
    """Return the seconds until a deadline of the monotonic clock, at least 0."""
    return max(deadline - time.monotonic(), 0.0)


def share_of(left_s: float) -> float:
    """Return the time of one request, half of the seconds left, at least a second."""
    # librdkafka (2.16) sends a request to the broker that it knows as a leader and waits the whole
    # time, even when that broker is gone and another leads.
    return max(left_s / 2, min(left_s, _LEAST_S), 0.001)


def asked_until(
    deadline_s: float,
    ask: Callable[[float], _Found],
    who_leads: Callable[[float], object] = lambda _: None,
) -> _Found:
    """Return the result of `ask`, which gets the seconds that it may take.

    A failed request is repeated, after `who_leads` (called as `ask`) has refreshed the leaders: a
    request to a lost leader takes its `share_of` the time and not all of it. Raises the first
    `KafkaException` when the time is over, and an `is_final` one at once.
    """
    deadline = time.monotonic() + deadline_s
    failed: list[KafkaException] = []
    while True:
        try:
            if failed:
                who_leads(share_of(remaining_s(deadline)))
            return ask(share_of(remaining_s(deadline)))
        except KafkaException as error:
            if is_final(error.args[0]):
                raise
            failed.append(error)
            if remaining_s(deadline) <= 0:
                raise failed[0] from None
        time.sleep(PAUSE_S)


def is_passing(error: KafkaError) -> bool:
    """Return whether a reader continues by itself after this error, as without a leader."""
    return error.retriable() or is_of_another_epoch(error)


def is_of_another_epoch(error: KafkaError) -> bool:
    """Return whether client and leading broker disagree on the epoch of a partition's leader."""
    # This lasts a moment after a broker was restarted, or frozen and fenced. librdkafka doesn't
    # call it retriable.
    return error.code() in (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH)


def is_final(error: KafkaError) -> bool:
    """Return whether every broker would refuse too: a missing right, a limit, a bad setting."""
    return error.code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
    )
