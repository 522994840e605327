"""What was asked by a request that has no end yet, as far as that must outlive its deployment. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.watching_ports import ActionView, JobView


@dataclass(frozen=True)
class Asked:
    """An action as it was seen last, and of which deployment. Times in ms since the epoch.

    `over_ms` is when that deployment was first seen to be over; 0: it goes on.
    """

    uuid: str
    deployment_id: str
    processor_id: str
    destination: str
    stage: str
    kind: str
    since_ms: int
    expiry_ms: int | None
    over_ms: int = 0

    @property
    def reserved_host(self) -> str | None:
        """Not remembered: nobody holds a place for it any more once its deployment is over."""
        return None


def asked_of(response: PlacementResponse) -> Asked:
    """What a status on the way tells."""
    return Asked(
        response.uuid,
        response.deployment_id,
        response.processor_id,
        response.destination_host,
        response.status_code.value.lower(),
        "place",
        response.timestamp,
        response.request_expiry,
    )


def asked_in(view: JobView) -> Iterator[Asked]:
    """What is in flight or waits now: requests of the present deployment."""
    actions: tuple[ActionView, ...] = (*view.actions, *view.queued)
    for action in actions:
        yield Asked(
            action.uuid,
            view.deployment_id or "",
            action.processor_id,
            action.destination,
            action.stage,
            action.kind,
            action.since_ms,
            action.expiry_ms,
        )
