"""The records of our own durable state, and reading them (read-committed).

Keys are UTF-8 strings, values JSON objects with `"version": 1`. A record of any other
version, or an unreadable one, is an error that names its offset: a leader would destroy
a state that it doesn't understand. A record without one of our keys is
not part of the state (decision 15): it is left out and reported.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Self, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import OnMalformed, log_malformed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topic_reader import TopicEnd, TopicReader, TopicRecord, TopicTail
from samza_dagster.model.own_requests import REQUEST_PREFIX, RESPONSE_PREFIX
from samza_dagster.placement.restoring import GROUP, HOST, JOB, REFUSED, UUID

VERSION = 1
LEADER, DEPLOYMENT = "leader", "deployment"
TAKE_OVER = "take-over"
"""Key of the mark that begins each take-over; the leader's own record comes after it."""
_MAIL = (REQUEST_PREFIX.encode(), RESPONSE_PREFIX.encode())
_STATE = frozenset(name.encode() for name in (JOB, LEADER, DEPLOYMENT, TAKE_OVER))
_STATE_BY_NAME = tuple(prefix.encode() for prefix in (GROUP, HOST, UUID, REFUSED))


@dataclass(frozen=True)
class StateRecord:
    """A current record; `value` None (in a watch only) is a deletion."""

    key: str
    value: Mapping[str, Any] | None
    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class Snapshot:
    """All current records by key, in order of their offsets, read up to `end`.

    `mail` are the requests of clients and the answers to them, as they stand: any client
    with the right to ask can write one, so none of them is trusted here, or stops a leader. `answers` are
    all answers that the topic still holds, in order, those that were overwritten too. `foreign`
    has what is neither state nor mail.
    """

    records: Mapping[str, StateRecord]
    end: int
    mail: tuple[TopicRecord, ...] = ()
    answers: tuple[TopicRecord, ...] = ()
    foreign: tuple[TopicRecord, ...] = ()

    @property
    def values(self) -> dict[str, Mapping[str, Any]]:
        """Key → value of the records, in their order."""
        return {key: record.value or {} for key, record in self.records.items()}


def is_state(key: bytes | None) -> bool:
    """The record is the leader's own, so it must be understood."""
    return key is not None and (key in _STATE or key.startswith(_STATE_BY_NAME))


def _is_foreign(key: bytes | None) -> bool:
    """Return whether the record has no business in this topic: neither state nor mail."""
    return not is_state(key) and not is_mail(key)


def is_mail(key: bytes | None) -> bool:
    """The record is a client's request or the answer to one, no part of the leader's state."""
    return key is not None and key.startswith(_MAIL)


def _is_answer(key: bytes | None) -> bool:
    """The record is the answer to a client's request."""
    return key is not None and key.startswith(RESPONSE_PREFIX.encode())


def encode_record(key: str, value: Mapping[str, Any] | None) -> tuple[bytes, bytes | None]:
    """Key and value as bytes; the version is added to the value."""
    if value is None:
        return key.encode(), None
    return key.encode(), json.dumps(
        {"version": VERSION, **value}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def decode_record(topic: str, record: TopicRecord) -> StateRecord:
    """Reads a record; raises `MalformedRecord` that names topic, offset and what is wrong."""
    where = f"topic {topic}, offset {record.offset}"

    def refuse(seen: str, fix: str = "the samza_dagster that wrote it") -> MalformedRecord:
        return MalformedRecord("read the coordinator's state", seen=f"{where}: {seen}", fix=fix)

    if record.key is None:
        raise refuse("no key")
    try:
        key = record.key.decode()
    except UnicodeDecodeError as error:
        raise refuse("a key that is no UTF-8") from error
    if record.value is None:
        return StateRecord(key, None, record.offset, record.timestamp_ms)
    try:
        value: object = json.loads(record.value)
    except (ValueError, RecursionError) as error:
        raise refuse(f"key {key}, a value that is no JSON") from error
    if not isinstance(value, dict):
        raise refuse(f"key {key}, a value that is no object")
    fields = cast("dict[str, Any]", value)
    version: object = fields.get("version")
    if type(version) is not int or version != VERSION:
        raise refuse(
            f"key {key}, field version: {version!r} instead of {VERSION}",
            "a samza_dagster that knows this version",
        )
    return StateRecord(key, fields, record.offset, record.timestamp_ms)


class _CommittedRecords:
    """The newest committed record of each key, read on from where the last reading ended."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._topic = topic
        self._newest: dict[bytes | None, TopicRecord] = {}
        self._decoded: dict[bytes | None, StateRecord] = {}
        self._answers: list[TopicRecord] = []
        self._ahead: list[TopicRecord] = []
        self._reader = TopicReader(cluster, topic, committed_only=True)
        self.end = 0

    def read(self, end: int, timeout_s: float) -> Snapshot:
        """Read the topic before `end`; each record is decoded once.

        Raises `MalformedRecord` for a current record of the state that can't be read (one that
        was overwritten since doesn't count), `Unreachable` when `end` isn't reached in time.
        """
        ahead, self._ahead = self._ahead, []

        def take(record: TopicRecord) -> None:
            if record.offset < end:
                self._take(record)
            else:  # of a commit that may not be read whole
                self._ahead.append(record)

        for record in ahead:
            take(record)
        self._reader.read_until(end, take, timeout_s)
        self.end = end
        return self._snapshot()

    def close(self) -> None:
        """Releases the connection."""
        self._reader.close()

    def _take(self, record: TopicRecord) -> None:
        self._decoded.pop(record.key, None)
        self._newest.pop(record.key, None)  # what comes last stands last
        self._newest[record.key] = record
        if record.value is not None and _is_answer(record.key):
            self._answers.append(record)

    def _snapshot(self) -> Snapshot:
        mail: list[TopicRecord] = []
        foreign: list[TopicRecord] = []
        records: dict[str, StateRecord] = {}
        for key, record in self._newest.items():
            if not is_state(key):
                if record.value is not None:
                    (mail if is_mail(key) else foreign).append(record)
                continue
            decoded = self._decoded.get(key)
            if decoded is None:
                decoded = self._decoded[key] = decode_record(self._topic, record)
            if decoded.value is not None:
                records[decoded.key] = decoded
        return Snapshot(records, self.end, tuple(mail), tuple(self._answers), tuple(foreign))


def read_snapshot(cluster: KafkaCluster, topic: str, *, end: int, timeout_s: float) -> Snapshot:
    """The committed records before `end` (none later of its transactions), the newest of each key.

    Raises `MalformedRecord` for a current one that can't be read, `Unreachable` when `end` isn't
    reached in time.
    """
    with closing(_CommittedRecords(cluster, topic)) as records:
        return records.read(end, timeout_s)


class StateReader:
    """Reads a state topic outside its leader: clients, sensors, tests. Thread-safe.

    `keep` is for a caller that takes one snapshot after another: a state of 1,000 containers has 20,000
    remembered requests beside its groups, and only the new ones are read again. A candidate that
    is about to lead reads the whole topic again.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        client_config: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        keep: bool = False,
    ) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._records: _CommittedRecords | None = None
        self._cluster = KafkaCluster(bootstrap_servers, client_config)
        self._topic = topic
        self._timeout_s = timeout_s
        self._end = TopicEnd(self._cluster, topic)
        self._tails = ExitStack()

    @classmethod
    def of(cls, connection: Connection, *, timeout_s: float = 10.0, keep: bool = False) -> Self:
        """Return the reader of a job's state topic."""
        return cls(
            connection.bootstrap_servers,
            connection.state_topic,
            client_config=connection.client_config,
            timeout_s=timeout_s,
            keep=keep,
        )

    def snapshot(self) -> Snapshot:
        """Return all records whose commit had returned before the call.

        Waits for a transaction that is open at the time, but not longer than a
        second: its leader may be dead. Raises `InvalidInput` when the topic doesn't
        exist, `MalformedRecord`, `Unreachable`.
        """
        with self._lock:
            end, _ = self._end.settled(self._timeout_s)
            if self._records is not None and end < self._records.end:  # the topic was made anew
                self._forget()
            if self._records is None:
                self._records = _CommittedRecords(self._cluster, self._topic)
            try:
                found = self._records.read(end, self._timeout_s)
            except BaseException:
                self._forget()
                raise
            if not self._keep:
                self._forget()
            return found

    def watch(
        self,
        on_record: Callable[[StateRecord], None],
        *,
        from_position: int | None = None,
        on_malformed: OnMalformed = log_malformed,
    ) -> TopicTail:
        """Calls `on_record` for every committed record of the state from an offset (None: from now).

        Records that can't be read go to `on_malformed` and are skipped.
        """

        def deliver(record: TopicRecord) -> None:
            if not is_state(record.key):
                return
            try:
                state = decode_record(self._topic, record)
            except MalformedRecord as error:
                on_malformed(error)
            else:
                on_record(state)

        return self._tail(deliver, from_position)

    def watch_mail(
        self,
        on_record: Callable[[TopicRecord], None],
        *,
        from_position: int | None = None,
        on_foreign: Callable[[TopicRecord], None] = lambda _: None,
    ) -> TopicTail:
        """Calls `on_record` for every committed request and answer from an offset (None: from now).

        What is neither that nor state goes to `on_foreign`, except deletions.
        """

        def deliver(record: TopicRecord) -> None:
            if is_mail(record.key):
                on_record(record)
            elif _is_foreign(record.key) and record.value is not None:
                on_foreign(record)

        return self._tail(deliver, from_position)

    def end_position(self) -> int:
        """The end offset, open transactions and markers counted."""
        return self._end.offset(self._timeout_s)

    def _tail(self, deliver: Callable[[TopicRecord], None], from_position: int | None) -> TopicTail:
        end = self._end.offset(self._timeout_s, committed_only=True)
        start = end if from_position is None else max(from_position, 0)
        tail = TopicTail(self._cluster, self._topic, start, deliver, committed_only=True)
        return self._tails.enter_context(closing(tail))

    def close(self) -> None:
        """Ends all watches and releases connections."""
        self._tails.close()
        with self._lock:
            self._forget()
        self._end.close()

    def _forget(self) -> None:
        records, self._records = self._records, None
        if records is not None:
            records.close()
