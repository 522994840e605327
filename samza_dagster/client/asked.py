"""A request as a client shows it, and one UUID for one request: what makes it safe to ask again."""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import dataclass
from typing import Self

from samza_dagster.client.views import View
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Asked(View):
    """What was asked of our own coordinator, under which UUID. Times in ms.

    `refers_to` is another request's UUID. `execution_id`: the incarnation that a fail-over is
    about; None is whichever runs.
    """

    uuid: str
    kind: str
    processor_id: str
    destination_host: str
    deployment_id: str
    timestamp: int
    request_expiry: int | None = None
    hold: bool = False
    refers_to: str | None = None
    execution_id: str | None = None

    @classmethod
    def of(cls, uuid: str, request: OwnRequest) -> Self:
        """The request as it was written."""
        return cls(uuid, **request.model_dump(mode="json", exclude={"version"}))


def canonical_uuid(uuid: str | None) -> str:
    """The UUID as it stands on the wire, a new one for None; raises `InvalidInput` for none."""
    try:
        return str(uuid_module.uuid4() if uuid is None else uuid_module.UUID(uuid))
    except ValueError as error:
        raise InvalidInput(
            "request UUID", seen=repr(uuid), fix="the UUID that place printed"
        ) from error


def same_placement(
    known: PlacementRequest | PlacementResponse, processor_id: str, destination: str
) -> PlacementRequest:
    """The request that `known` is or answers; raises `Refused` when it asks for another move."""
    if (known.processor_id, known.destination_host) != (processor_id, destination):
        raise _another(
            f"request {known.uuid} for {processor_id} --to {destination}",
            f"{known.processor_id} --to {known.destination_host}",
        )
    if isinstance(known, PlacementRequest):
        return known
    return PlacementRequest(
        uuid=known.uuid,
        deployment_id=known.deployment_id,
        processor_id=known.processor_id,
        destination_host=known.destination_host,
        timestamp=known.timestamp,
        request_expiry=known.request_expiry,
    )


def same_asked(
    uuid: str, kind: RequestKind, processor_id: str | None, known: OwnRequest | PlacementResponse
) -> Asked:
    """What `known` says of the same UUID; raises `Refused` when it is another request."""
    is_request = isinstance(known, OwnRequest)
    other_kind = is_request and known.kind is not kind
    if other_kind or processor_id not in (None, known.processor_id):
        what = known.kind.value if is_request else "a request"
        raise _another(
            f"{kind.value} with UUID {uuid}",
            f"{what} of {known.processor_id} --to {known.destination_host}",
        )
    if is_request:
        return Asked.of(uuid, known)
    return Asked(
        uuid=uuid,
        kind=kind.value,
        processor_id=known.processor_id,
        destination_host=known.destination_host,
        deployment_id=known.deployment_id,
        timestamp=known.timestamp,
        request_expiry=known.request_expiry,
    )


def _another(asked: str, given_for: str) -> Refused:
    return Refused(
        f"{asked}: one UUID, one request",
        seen=f"it was given for {given_for}",
        fix="another UUID, or none",
    )


def perhaps_written(error: Unreachable, uuid: str) -> Unreachable:
    """The error of whoever doesn't know whether a request was written."""
    return Unreachable(
        error.asked,
        seen=f"{error.seen}; whether the request was written isn't known",
        fix=f"{error.fix}; then ask again with UUID {uuid}: nothing is done twice",
    )
