"""A request as a client shows it, and one UUID for one request: what makes it safe to ask again."""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from samza_dagster.client.views import View
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Asked(View):
    """What was asked, under which UUID. Times in ms.

    `refers_to` is another request's UUID. `execution_id`: the incarnation that a fail-over is
    about; None is whichever runs. `own`: it stands in our state topic and not in Samza's
    coordinator stream, so our own coordinator alone knows it.
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
    own: bool = True

    @classmethod
    def of(
        cls, uuid: str, known: OwnRequest | PlacementRequest | PlacementResponse, kind: str = ""
    ) -> Self:
        """The request as it was written, or as its response has it: that says no `kind`."""
        if isinstance(known, OwnRequest):
            return cls(uuid, **known.model_dump(mode="json", exclude={"version"}))
        return cls(
            uuid,
            kind,
            known.processor_id,
            known.destination_host,
            known.deployment_id,
            known.timestamp,
            known.request_expiry,
            own=kind != RequestKind.PLACE.value,
        )

    def to_json(self) -> dict[str, Any]:
        """As it stands in its topic: by Samza's field names in the coordinator stream, else by ours."""
        if not self.own:
            return PlacementRequest(
                uuid=self.uuid,
                deployment_id=self.deployment_id,
                processor_id=self.processor_id,
                destination_host=self.destination_host,
                timestamp=self.timestamp,
                request_expiry=self.request_expiry,
            ).to_wire()
        shown = super().to_json()
        del shown["own"]
        return shown


def canonical_uuid(uuid: str | None) -> str:
    """The UUID as it stands on the wire, a new one for None; raises `InvalidInput` for none."""
    try:
        return str(uuid_module.uuid4() if uuid is None else uuid_module.UUID(uuid))
    except ValueError as error:
        raise InvalidInput(
            "request UUID", seen=repr(uuid), fix="the UUID that place printed"
        ) from error


def require_same(
    known: Asked, kind: RequestKind, processor_id: str | None, destination: str | None = None
) -> None:
    """Raises `Refused` when the UUID of `known` was given for another request; None: any."""
    if (
        known.kind in ("", kind.value)
        and processor_id in (None, known.processor_id)
        and destination in (None, known.destination_host)
    ):
        return
    asked = f"{kind.value} with UUID {known.uuid}"
    if destination is not None:
        asked = f"request {known.uuid} for {processor_id} --to {destination}"
    what = known.kind or "a request"
    raise Refused(
        f"{asked}: one UUID, one request",
        seen=f"it was given for {what} of {known.processor_id} --to {known.destination_host}",
        fix="another UUID, or none",
    )


@contextmanager
def perhaps_written(uuid: str) -> Generator[None]:
    """Around the write of a request: without an answer it isn't known whether it stands."""
    try:
        yield
    except Unreachable as error:
        raise Unreachable(
            error.asked,
            seen=f"{error.seen}; whether the request was written isn't known",
            fix=f"{error.fix}; then ask again with UUID {uuid}: nothing is done twice",
        ) from error
