"""Container placement requests and responses (SEP-22), as Samza reads and writes them.

Every field that Samza's reader needs is required here: a record without one of
them stops a real Application Master's placement thread.
"""

from __future__ import annotations

import uuid as uuid_module
from enum import StrEnum
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from samza_dagster.errors import MalformedRecord
from samza_dagster.model.job_model import WireModel

PLACEMENT_NAMESPACE = "samza-place-container-v1"
REQUEST = "ContainerPlacementRequestMessage"
RESPONSE = "ContainerPlacementResponseMessage"


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
        """No later status follows."""
        return self in (StatusCode.BAD_REQUEST, StatusCode.SUCCEEDED, StatusCode.FAILED)


class _PlacementMessage(WireModel):
    uuid: str
    deployment_id: str = Field(alias="deploymentId", min_length=1)
    processor_id: str = Field(alias="processorId", min_length=1)
    destination_host: str = Field(alias="destinationHost", min_length=1)
    status_code: StatusCode = Field(alias="statusCode")
    timestamp: int = Field(ge=0)
    request_expiry: int | None = Field(default=None, alias="requestExpiry", ge=0)

    @field_validator("uuid")
    @classmethod
    def _parsable(cls, value: str) -> str:
        return str(uuid_module.UUID(value))


class PlacementRequest(_PlacementMessage):
    """What a client asks; `timestamp` in ms since the epoch, `request_expiry` in ms."""

    sub_type: Literal["ContainerPlacementRequestMessage"] = Field(default=REQUEST, alias="subType")
    status_code: StatusCode = Field(default=StatusCode.CREATED, alias="statusCode")


class PlacementResponse(_PlacementMessage):
    """What a coordinator answers; each status overwrites the one before in the stream."""

    sub_type: Literal["ContainerPlacementResponseMessage"] = Field(
        default=RESPONSE, alias="subType"
    )
    response_message: str = Field(alias="responseMessage")


def _malformed(kind: str, error: ValidationError) -> MalformedRecord:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "(whole document)"
    return MalformedRecord(f"read a {kind}", seen=f"field {field}: {first['msg']}")


def parse_request(payload: str | bytes) -> PlacementRequest:
    """Reads a request; raises `MalformedRecord` that names the field."""
    try:
        return PlacementRequest.model_validate_json(payload)
    except ValidationError as error:
        raise _malformed(REQUEST, error) from error


def parse_response(payload: str | bytes) -> PlacementResponse:
    """Reads a response; raises `MalformedRecord` that names the field."""
    try:
        return PlacementResponse.model_validate_json(payload)
    except ValidationError as error:
        raise _malformed(RESPONSE, error) from error
