"""Requests that Samza's wire can't express: they go through our own state topic.

Key `request/<uuid>`, value a JSON object with `"version": 1`; answered under
`response/<uuid>` with the fields and statuses of Samza's responses. None of them
enters the coordinator stream, where an unmodified Samza would stumble over it.
"""

from __future__ import annotations

import json
import uuid as uuid_module
from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.job_model import WireModel, malformed
from samza_dagster.model.numbers import JAVA_LONG_MAX
from samza_dagster.model.placement_messages import (
    HOST_LENGTH_MAX,
    NAME_LENGTH_MAX,
    PlacementResponse,
    parse_response,
)

REQUEST_PREFIX = "request/"
RESPONSE_PREFIX = "response/"
LONGEST_EXPIRY_MS = 86_400_000
EXECUTION_ID_MAX = 200
"""An agent starts none that is longer (`agent/protocol.py`)."""
_KIND = "request of our own"
_FIX = "a request as samza-dagster's client writes it"


class RequestKind(StrEnum):
    """The kind of a request of our own; the values are on the wire."""

    PLACE = "place"
    FAIL_OVER = "fail-over"
    START_STANDBY = "start-standby"
    STOP_STANDBY = "stop-standby"
    COMMIT = "commit"
    RELEASE = "release"
    CANCEL = "cancel"

    @property
    def is_about_another(self) -> bool:
        """Return whether it is about an earlier request, named by `refers_to`."""
        return self in (RequestKind.COMMIT, RequestKind.RELEASE, RequestKind.CANCEL)


class OwnRequest(WireModel):
    """A request; its UUID is in the record's key, not in the value.

    `timestamp` in ms since the epoch. `request_expiry` in ms bounds the reservation, and
    with `hold` how long it is held for a commit. `refers_to` is the UUID of the request
    that a commit, release or cancel is about. `execution_id` is the incarnation that a
    fail-over is about; without it any incarnation is meant. Readers ignore unknown fields.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    version: Literal[1] = 1
    kind: RequestKind
    processor_id: str = Field(min_length=1, max_length=HOST_LENGTH_MAX)
    destination_host: str = Field(min_length=1, max_length=HOST_LENGTH_MAX)
    deployment_id: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    timestamp: int = Field(ge=0, le=JAVA_LONG_MAX)
    request_expiry: int | None = Field(default=None, ge=0, le=LONGEST_EXPIRY_MS)
    hold: bool = False
    refers_to: str | None = Field(default=None, validate_default=True)
    execution_id: str | None = Field(default=None, min_length=1, max_length=EXECUTION_ID_MAX)

    @field_validator("version", mode="before")
    @classmethod
    def _a_number(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("a number")
        return value

    @field_validator("hold")
    @classmethod
    def _of_a_place(cls, value: bool, info: ValidationInfo) -> bool:
        kind = _kind_of(info)
        if value and kind not in (None, RequestKind.PLACE):
            raise ValueError(f"a {kind} can't be held, only a place")
        return value

    @field_validator("refers_to")
    @classmethod
    def _about_another(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            return str(uuid_module.UUID(value))
        kind = _kind_of(info)
        if kind is not None and kind.is_about_another:
            raise ValueError(f"a {kind} names the request that it is about")
        return None

    @field_validator("execution_id")
    @classmethod
    def _of_a_fail_over(cls, value: str | None, info: ValidationInfo) -> str | None:
        kind = _kind_of(info)
        if value is not None and kind not in (None, RequestKind.FAIL_OVER):
            raise ValueError(f"a {kind} names no incarnation, only a fail-over")
        return value


def _kind_of(info: ValidationInfo) -> RequestKind | None:
    """Return the request's kind; None where that was refused itself."""
    return info.data.get("kind")


def parse_own_request(payload: str | bytes) -> OwnRequest:
    """Read a request; raises `MalformedRecord` that names the field."""
    try:
        request = OwnRequest.model_validate_json(payload, strict=True)
    except ValidationError as error:
        seen = malformed(_KIND, error, to_camel).seen
        raise MalformedRecord(f"read a {_KIND}", seen=seen, fix=_FIX) from error
    if "version" not in request.model_fields_set:
        raise MalformedRecord(f"read a {_KIND}", seen="field version: it is missing", fix=_FIX)
    return request


def response_value(response: PlacementResponse) -> dict[str, Any]:
    """Return the value of a `response/<uuid>` record, without its version."""
    return response.to_wire()


def parse_own_response(uuid: str, value: dict[str, Any]) -> PlacementResponse:
    """Parse a record's value as a response; raises `MalformedRecord` that names the field."""
    fields = {name: entry for name, entry in value.items() if name != "version"}
    response = parse_response(json.dumps(fields))
    if response.uuid != uuid:
        raise MalformedRecord(
            "read a response of our own", seen=f"field uuid: {response.uuid} under key {uuid}"
        )
    return response


def uuid_of_key(key: str) -> str | None:
    """Return the UUID of a `request/…` or `response/…` key in canonical form, or None."""
    for prefix in (REQUEST_PREFIX, RESPONSE_PREFIX):
        if key.startswith(prefix):
            return canonical_uuid_or_none(key.removeprefix(prefix))
    return None


def canonical_uuid_or_none(text: str) -> str | None:
    """Return a UUID's canonical form; None for any other text."""
    try:
        return str(uuid_module.UUID(text))
    except ValueError:
        return None
