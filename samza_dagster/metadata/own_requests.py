"""Requests that Samza's protocol cannot express, and their answers, in the job's state topic.

Clients write `request/<uuid>` by a plain producer. The leading coordinator answers
`response/<uuid>` and deletes the request in its transactions. All answers to a request have one
key, so each status overwrites the one before: watches see all of them, and so do readers until
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
    """Open requests and the newest answer to each request, by UUID."""

    requests: Mapping[str, OwnRequest] = field(default_factory=dict[str, OwnRequest])
    responses: Mapping[str, PlacementResponse] = field(default_factory=dict[str, PlacementResponse])
    unreadable: tuple[str, ...] = ()  # the names of the records that were left out
    # The answers that the topic still has, overwritten ones too, in order, as written.
    answers: tuple[TopicRecord, ...] = ()
    end: int = 0  # the end of the reading; 0 when unknown

    def answers_since(
        self, position: int | None
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        """Return each readable answer from `position` on with its position, and where to go on.

        None reads nothing and returns the end. The end is never before a former one, also after a
        deletion of answers, unless the topic was recreated.
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
    """Return the mail of a snapshot; unreadable records are named and left out."""
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

    Calls raise `InvalidInput` when the state topic doesn't exist (our coordinator never led the
    job) and `Unreachable` when no broker answers in time.
    """

    def __init__(self, connection: Connection, *, timeout_s: float = 10.0) -> None:
        topic = connection.state_topic
        cluster = KafkaCluster.of(connection)
        self._topic = topic
        self._end = TopicEnd(cluster, topic)
        self._writer = RecordWriter(cluster, topic, self._end, timeout_s=timeout_s)
        self._reader = StateReader.of(connection, timeout_s=timeout_s)

    def prepare_writes(self) -> None:
        """Prepare the first `write`; return at once."""
        self._writer.prepare()

    def write(self, uuid: str, request: OwnRequest) -> int:
        """Write a request and return its offset; a repetition has no second effect."""
        key = f"{REQUEST_PREFIX}{uuid}"
        return self._writer.write(
            f"write {key} to topic {self._topic}", key.encode(), request.to_json().encode()
        )

    def delete_request(self, uuid: str) -> None:
        """Delete a request (if present)."""
        self._delete(f"{REQUEST_PREFIX}{uuid}")

    def delete_response(self, uuid: str) -> None:
        """Delete an answer (if present)."""
        self._delete(f"{RESPONSE_PREFIX}{uuid}")

    def mail(self) -> OwnMail:
        """Return all requests and answers written before the call."""
        snapshot = self._reader.snapshot()
        return read_mail(snapshot.mail, snapshot.answers, snapshot.end)

    def end_position(self) -> int:
        """Return the end offset of the topic."""
        return self._reader.end_position()

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, int], None],
        *,
        from_position: int | None = None,
    ) -> Watch:
        """Call `on_response` with each answer and its offset, at its commit."""

        def deliver(record: TopicRecord) -> None:
            for response in read_mail([record]).responses.values() if record.value else ():
                on_response(response, record.offset)

        return self._reader.watch_mail(deliver, from_position=from_position)

    def close(self) -> None:
        """End watches and release connections."""
        self._reader.close()
        self._writer.close()
        self._end.close()

    def _delete(self, key: str) -> None:
        self._writer.write(f"delete {key} from topic {self._topic}", key.encode(), None)
