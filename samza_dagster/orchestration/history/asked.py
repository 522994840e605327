"""What was asked by a request that has no end yet, as far as that must outlive its deployment. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samza_dagster.model import PlacementResponse

if TYPE_CHECKING:
    from samza_dagster.client import ActionView, JobView


@dataclass(frozen=True)
class OpenRequest:
    """An action as it was seen last, and of which deployment. Times in ms since the epoch.

    `since_ms` is by the clock of whoever wrote it: it is shown, and tells whether there was news.
    By the observer's clock are `seen_ms`, when it was first seen like that, and `over_ms`, when that
    deployment was first seen to be over; 0: not yet.
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
    seen_ms: int = 0


def seen_at(one: OpenRequest, before: OpenRequest | None, now_ms: int) -> OpenRequest:
    """As it is seen now: since it was `before`, unless there is news of it."""
    is_news = before is None or not before.seen_ms or before.since_ms != one.since_ms
    return replace(one, seen_ms=now_ms if before is None or is_news else before.seen_ms)


def asked_of(response: PlacementResponse) -> OpenRequest:
    """What a status on the way tells."""
    return OpenRequest(
        response.uuid,
        response.deployment_id,
        response.processor_id,
        response.destination_host,
        response.status_code.value.lower(),
        "place",
        response.timestamp,
        response.request_expiry,
    )


def asked_in(view: JobView) -> Iterator[OpenRequest]:
    """What is in flight or waits now: requests of the present deployment."""
    actions: tuple[ActionView, ...] = (*view.actions, *view.queued)
    for action in actions:
        yield OpenRequest(
            action.uuid,
            view.deployment_id or "",
            action.processor_id,
            action.destination,
            action.stage,
            action.kind,
            action.since_ms,
            action.expiry_ms,
        )
