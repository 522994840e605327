"""Requests as read from either topic: usable, malformed, or none at all. Pure.

Any client with the right to write can write anything: nothing here raises, whatever the bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.own_requests import (
    REQUEST_PREFIX,
    OwnRequest,
    canonical_uuid_or_none,
    parse_own_request,
)
from samza_dagster.model.placement_messages import (
    NAME_LENGTH_MAX,
    REQUEST,
    PlacementRequest,
    parse_request,
)
from samza_dagster.placement.state import PlacementAsk

LONGEST_KEY = 200
"""Characters of a request's key; a UUID and its kind have 70."""
UNKNOWN = "unknown"
"""Stands in an answer for a field of the request that can't be read: Samza reads all of them."""


@dataclass(frozen=True)
class Arrived:
    """A request that the reducer can judge."""

    ask: PlacementAsk


@dataclass(frozen=True)
class Malformed:
    """An unreadable request with a UUID in its key, so that it can be answered.

    `key` is the record's, as it was written. `deployment_id` "" is not known.
    """

    own: bool
    key: str
    uuid: str
    why: str
    deployment_id: str
    processor_id: str
    destination_host: str

    def response(self, now_ms: int) -> PlacementResponse:
        """Return BAD_REQUEST, with every field that Samza's readers need."""
        return PlacementResponse(
            uuid=self.uuid,
            deployment_id=self.deployment_id or UNKNOWN,
            processor_id=self.processor_id,
            destination_host=self.destination_host,
            status_code=StatusCode.BAD_REQUEST,
            response_message=f"BAD_REQUEST reason: {self.why}",
            timestamp=now_ms,
            details=ResponseDetails(),
        )


@dataclass(frozen=True)
class Ignored:
    """A record without a findable answer; `why` is for the log, "" where the log has it."""

    why: str
    counted_as: str = "ignored-requests"
    times: int = 1


Mail = Arrived | Malformed | Ignored


def read_stream_request(key: str, value: bytes) -> Mail | None:
    """Read a request under a key of Samza's placement namespace; None for any other key."""
    suffix = f".{REQUEST}"
    if not key.endswith(suffix):
        return None
    if len(key) > LONGEST_KEY:
        return _too_long(key, "the coordinator stream")
    name = key.removesuffix(suffix)
    uuid = canonical_uuid_or_none(name)
    if uuid is None:
        return Ignored(f"key {key!r} of the coordinator stream: no UUID")
    try:
        request = parse_request(value)
    except MalformedRecord as error:
        return _malformed(key, uuid, error.seen, value, own=False)
    if request.uuid != uuid or name != uuid:
        # Its sender could never find an answer: answers and deletions use the uuid.
        return _malformed(
            key, uuid, f"field uuid: {request.uuid}, under the key {name[:80]}", value, own=False
        )
    return Arrived(_ask(uuid, request))


def read_own_request(key: bytes, value: bytes) -> Mail | None:
    """Read a request under a key of our state topic; None for any other key."""
    if not key.startswith(REQUEST_PREFIX.encode()):
        return None
    if len(key) > LONGEST_KEY:
        return _too_long(key, "the state topic")
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return Ignored(f"key {key!r} of the state topic: no UTF-8")
    name = text.removeprefix(REQUEST_PREFIX)
    uuid = canonical_uuid_or_none(name)
    if uuid is None:
        return Ignored(f"key {text!r} of the state topic: no UUID")
    if name != uuid:
        return _malformed(
            text, uuid, f"the key's UUID: not in its usual form {uuid}", value, own=True
        )
    try:
        request = parse_own_request(value)
    except MalformedRecord as error:
        return _malformed(text, uuid, error.seen, value, own=True)
    ask = _ask(uuid, request).evolve(
        kind=request.kind,
        hold=request.hold,
        refers_to=request.refers_to or "",
        own=True,
        execution_id=request.execution_id or "",
    )
    return Arrived(ask)


def _ask(uuid: str, request: PlacementRequest | OwnRequest) -> PlacementAsk:
    return PlacementAsk(
        uuid=uuid,
        deployment_id=request.deployment_id,
        processor_id=request.processor_id,
        destination_host=request.destination_host,
        timestamp_ms=request.timestamp,
        expiry_ms=request.request_expiry,
    )


def _too_long(key: str | bytes, where: str) -> Ignored:
    """Ignore a key that no deletion of ours could carry: a compressing writer can bring one."""
    seen = f"key {key[:80]!r}\N{HORIZONTAL ELLIPSIS} of {where}"
    return Ignored(f"{seen}: {len(key)} long, a request's has at most {LONGEST_KEY}")


def _malformed(key: str, uuid: str, why: str, value: bytes, *, own: bool) -> Malformed:
    fields = _fields(value)
    return Malformed(
        own=own,
        key=key,
        uuid=uuid,
        why=why,
        deployment_id=_text(fields, "deploymentId") or "",
        processor_id=_text(fields, "processorId") or UNKNOWN,
        destination_host=_text(fields, "destinationHost") or UNKNOWN,
    )


def _fields(value: bytes) -> dict[str, Any]:
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= NAME_LENGTH_MAX:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no topic can hold it
        return None
    return value
