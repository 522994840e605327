"""A request of our own as a client shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from samza_dagster.client.views import View
from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Asked(View):
    """What was asked, under which UUID. Times in ms; `refers_to` is another request's UUID.

    `execution_id`: the incarnation that a fail-over is about; None is whichever runs.
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
        return cls(
            uuid=uuid,
            kind=request.kind.value,
            processor_id=request.processor_id,
            destination_host=request.destination_host,
            deployment_id=request.deployment_id,
            timestamp=request.timestamp,
            request_expiry=request.request_expiry,
            hold=request.hold,
            refers_to=request.refers_to,
            execution_id=request.execution_id,
        )


def same_asked(
    uuid: str, kind: RequestKind, processor_id: str | None, known: OwnRequest | PlacementResponse
) -> Asked:
    """What `known` says of the same UUID; raises `Refused` when it is another request."""
    is_request = isinstance(known, OwnRequest)
    other_kind = is_request and known.kind is not kind
    other_processor = processor_id is not None and known.processor_id != processor_id
    if other_kind or other_processor:
        what = known.kind.value if is_request else "a request"
        raise Refused(
            f"{kind.value} with UUID {uuid}: one UUID, one request",
            seen=f"it was given for {what} of {known.processor_id} --to {known.destination_host}",
            fix="another UUID, or none",
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
