"""Container placement requests and responses (SEP-22), as Samza reads and writes them.

Every field that Samza's reader needs is required here: a record without one of
them stops a real Application Master's placement thread.
"""

from __future__ import annotations

import uuid as uuid_module
from enum import StrEnum
from typing import Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.job_model import WireModel, malformed
from samza_dagster.model.numbers import JAVA_LONG_MAX

PLACEMENT_NAMESPACE = "samza-place-container-v1"
REQUEST = "ContainerPlacementRequestMessage"
RESPONSE = "ContainerPlacementResponseMessage"
NAME_LENGTH_MAX = 1024
HOST_LENGTH_MAX = 255
"""Of a host's name, as name services have it; a processor's id is no longer."""


class StatusCode(StrEnum):
    """Status of a placement action (`ContainerPlacementMessage.StatusCode`)."""

    CREATED = "CREATED"
    BAD_REQUEST = "BAD_REQUEST"
    ACCEPTED = "ACCEPTED"
    IN_PROGRESS = "IN_PROGRESS"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Return whether no later status follows."""
        return self in (StatusCode.BAD_REQUEST, StatusCode.SUCCEEDED, StatusCode.FAILED)


class _PlacementMessage(WireModel):
    model_config = ConfigDict(alias_generator=to_camel)

    uuid: str
    deployment_id: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    processor_id: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    destination_host: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    status_code: StatusCode
    timestamp: int = Field(ge=0, le=JAVA_LONG_MAX)
    request_expiry: int | None = Field(default=None, ge=0, le=JAVA_LONG_MAX)

    @field_validator("uuid")
    @classmethod
    def _parsable(cls, value: str) -> str:
        return str(uuid_module.UUID(value))


class PlacementRequest(_PlacementMessage):
    """A client's request; `timestamp` in ms since the epoch, `request_expiry` in ms.

    The coordinator keeps it until its turn, so its names have tighter bounds than those of an
    answer, which repeats another client's request.
    """

    processor_id: str = Field(min_length=1, max_length=HOST_LENGTH_MAX)
    destination_host: str = Field(min_length=1, max_length=HOST_LENGTH_MAX)
    sub_type: Literal["ContainerPlacementRequestMessage"] = REQUEST
    status_code: StatusCode = StatusCode.CREATED


class ResponseDetails(WireModel):
    """The part of a response for programs, beside its text for people.

    `stage` is the action's stage (`queued`, or as `ActionView.stage`); None once the request
    has ended. `started` is the processor that has started for it, on `host`; without one `host` is
    reserved for it. `stopped` are the processors that were stopped for it, and aren't known
    to live on. `refers_to` is the request that a commit, release or cancel is about.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    stage: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    started: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    host: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    stopped: tuple[str, ...] = Field(default=(), max_length=NAME_LENGTH_MAX)
    refers_to: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)


class PlacementResponse(_PlacementMessage):
    """A coordinator's answer; each status overwrites the one before in the stream.

    `details` are our coordinator's; Samza's AM writes none, and Samza's readers ignore them.
    """

    sub_type: Literal["ContainerPlacementResponseMessage"] = RESPONSE
    response_message: str
    details: ResponseDetails | None = None


_Message = TypeVar("_Message", PlacementRequest, PlacementResponse)
# They have defaults for code that writes a message; Samza's reader needs them on the wire.
_ALWAYS_WRITTEN = {"sub_type": "subType", "status_code": "statusCode"}


def _parse(model: type[_Message], kind: str, payload: str | bytes) -> _Message:
    try:
        # Strict: Samza reads a number in quotes as 0.
        message = model.model_validate_json(payload, strict=True)
    except ValidationError as error:
        raise malformed(kind, error) from error
    for name, wire_name in _ALWAYS_WRITTEN.items():
        if name not in message.model_fields_set:
            raise MalformedRecord(
                f"read a {kind}",
                seen=f"field {wire_name}: it is missing",
                fix=f"a {kind} as Samza writes it",
            )
    return message


def parse_request(payload: str | bytes) -> PlacementRequest:
    """Read a request; raises `MalformedRecord` that names the field."""
    return _parse(PlacementRequest, REQUEST, payload)


def parse_response(payload: str | bytes) -> PlacementResponse:
    """Read a response; raises `MalformedRecord` that names the field."""
    return _parse(PlacementResponse, RESPONSE, payload)
