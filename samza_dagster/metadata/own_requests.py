"""Requests that Samza's wire has no form for, and their answers, in the job's state topic.

Clients write `request/<uuid>` by a plain producer; the leading coordinator answers
`response/<uuid>` and deletes the request in its transactions. One key per answer, so
each status overwrites the one before: all of them are there for those who watch, and until
the topic is compacted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import Watch
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.record_writer import RecordWriter
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.topic_reader import TopicEnd, TopicRecord
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import (
    REQUEST_PREFIX,
    RESPONSE_PREFIX,
    OwnRequest,
    parse_own_request,
    parse_own_response,
    uuid_of_key,
)


@dataclass(frozen=True)
class OwnMail:
    """Requests that no coordinator has taken and the newest answer to each, by UUID.

    `unreadable` names the records that were left out. `answers` are those that the topic still
    holds, overwritten ones too, in order and as they stand. `end` is where the topic was read up
    to; 0: not told.
    """

    requests: Mapping[str, OwnRequest] = field(default_factory=dict[str, OwnRequest])
    responses: Mapping[str, PlacementResponse] = field(default_factory=dict[str, PlacementResponse])
    unreadable: tuple[str, ...] = ()
    answers: tuple[TopicRecord, ...] = ()
    end: int = 0

    def answers_since(
        self, position: int | None
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        """Each answer from `position` on with its own position, and where to go on.

        None reads nothing and tells where they end. Those that can't be read are left out. Where
        to go on is never before a former one, also when answers were deleted since, unless the
        topic was made anew.
        """
        end = max(self.end, self.answers[-1].offset + 1 if self.answers else 0)
        found: list[tuple[int, PlacementResponse]] = []
        for record in self.answers if position is not None else ():
            if record.offset >= (position or 0):
                found += [(record.offset, r) for r in read_mail([record]).responses.values()]
        return tuple(found), end


def read_mail(
    records: Iterable[TopicRecord], answers: tuple[TopicRecord, ...] = (), end: int = 0
) -> OwnMail:
    """The mail of a snapshot; what can't be read is named and left out."""
    requests: dict[str, OwnRequest] = {}
    responses: dict[str, PlacementResponse] = {}
    unreadable: list[str] = []
    for record in records:
        try:
            key, uuid = _key(record)
            if key.startswith(REQUEST_PREFIX):
                requests[uuid] = parse_own_request(record.value or b"")
            else:
                responses[uuid] = _response(uuid, record.value or b"")
        except MalformedRecord as error:
            unreadable.append(f"offset {record.offset}, key {record.key!r}: {error.seen}")
    return OwnMail(requests, responses, tuple(unreadable), answers, end)


def _key(record: TopicRecord) -> tuple[str, str]:
    try:
        key = (record.key or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord("read a request's key", seen="no UTF-8") from error
    uuid = uuid_of_key(key)
    if uuid is None:
        raise MalformedRecord("read a request's key", seen="no UUID in the key")
    return key, uuid


def _response(uuid: str, value: bytes) -> PlacementResponse:
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord("read a response of our own", seen="no JSON") from error
    if not isinstance(parsed, dict):
        raise MalformedRecord("read a response of our own", seen="no object")
    return parse_own_response(uuid, cast("dict[str, Any]", parsed))


class OwnRequestStore:
    """A client's side of the mail of one job. Thread-safe.

    Calls raise `InvalidInput` when the state topic doesn't exist (our coordinator never
    led the job) and `Unreachable` when no broker answers in time.
    """

    def __init__(self, connection: Connection, *, timeout_s: float = 10.0) -> None:
        topic = connection.state_topic
        cluster = KafkaCluster.of(connection)
        self._topic = topic
        self._end = TopicEnd(cluster, topic)
        self._writer = RecordWriter(cluster, topic, self._end, timeout_s=timeout_s)
        self._reader = StateReader.of(connection, timeout_s=timeout_s)

    def prepare_writes(self) -> None:
        """Gets ready for the first `write`; returns at once."""
        self._writer.prepare()

    def write(self, uuid: str, request: OwnRequest) -> int:
        """Writes a request and returns its offset; the same one again has no second effect."""
        key = f"{REQUEST_PREFIX}{uuid}"
        return self._writer.write(
            f"write {key} to topic {self._topic}", key.encode(), request.to_json().encode()
        )

    def delete_request(self, uuid: str) -> None:
        """Deletes a request (if present)."""
        self._delete(f"{REQUEST_PREFIX}{uuid}")

    def delete_response(self, uuid: str) -> None:
        """Deletes an answer (if present)."""
        self._delete(f"{RESPONSE_PREFIX}{uuid}")

    def mail(self) -> OwnMail:
        """All requests and answers whose write had returned before the call."""
        snapshot = self._reader.snapshot()
        return read_mail(snapshot.mail, snapshot.answers, snapshot.end)

    def end_position(self) -> int:
        """The end offset of the topic."""
        return self._reader.end_position()

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, int], None],
        *,
        from_position: int | None = None,
    ) -> Watch:
        """Calls `on_response` with each answer and its offset, as it is committed."""

        def deliver(record: TopicRecord) -> None:
            for response in read_mail([record]).responses.values() if record.value else ():
                on_response(response, record.offset)

        return self._reader.watch_mail(deliver, from_position=from_position)

    def close(self) -> None:
        """Ends watches and releases connections."""
        self._reader.close()
        self._writer.close()
        self._end.close()

    def _delete(self, key: str) -> None:
        self._writer.write(f"delete {key} from topic {self._topic}", key.encode(), None)
