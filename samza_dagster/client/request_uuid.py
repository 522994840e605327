"""One UUID, one request: what makes it safe to ask again."""

from __future__ import annotations

import uuid as uuid_module

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode


def canonical_uuid(uuid: str) -> str:
    """The UUID as it stands on the wire; raises `InvalidInput` for none."""
    try:
        return str(uuid_module.UUID(uuid))
    except ValueError as error:
        raise InvalidInput(
            "request UUID", seen=repr(uuid), fix="the UUID that place printed"
        ) from error


def same_request(
    known: PlacementRequest | PlacementResponse, processor_id: str, destination: str
) -> PlacementRequest:
    """The request that `known` is or answers; raises `Refused` when it asks for another move."""
    if (known.processor_id, known.destination_host) != (processor_id, destination):
        raise Refused(
            f"request {known.uuid} for {processor_id} --to {destination}: one UUID, one request",
            seen=f"it was given for {known.processor_id} --to {known.destination_host}",
            fix="another UUID, or none",
        )
    if isinstance(known, PlacementRequest):
        return known
    return PlacementRequest(
        uuid=known.uuid,
        deployment_id=known.deployment_id,
        processor_id=known.processor_id,
        destination_host=known.destination_host,
        status_code=StatusCode.CREATED,
        timestamp=known.timestamp,
        request_expiry=known.request_expiry,
    )
