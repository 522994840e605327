"""Selects obsolete placement messages. Pure: the tool and the leader use one rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.own_requests import OwnRequest


class Where(StrEnum):
    """The topic that a message is in."""

    COORDINATOR_STREAM = "coordinator-stream"
    STATE_TOPIC = "state-topic"


@dataclass(frozen=True)
class Removal:
    """A message to delete."""

    where: Where
    kind: str  # `request`, `response`, or `record` for an unreadable one
    uuid: str  # the key of an unreadable record
    at_ms: int | None  # the message's own timestamp; None for an unreadable record
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the form of `--json`."""
        return asdict(self)


def finished_or_foreign(
    *,
    requests: Iterable[PlacementRequest],
    responses: Iterable[PlacementResponse],
    own_requests: Mapping[str, OwnRequest],
    own_responses: Mapping[str, PlacementResponse],
    deployment_id: str,
    in_flight: Collection[str],
    is_old: Callable[[PlacementResponse], bool],
    ended: str = "",
) -> tuple[Removal, ...]:
    """Return the messages to delete, oldest first.

    These are requests of other deployments, whatever their age, because no coordinator will take
    one. They are also old answers (`is_old`) that are final or of another deployment, with their
    requests. A message of an action in flight (`in_flight`, UUIDs) is never among them. An open
    request of this deployment is among them only if the deployment has `ended` (the reason) too.
    """
    found: list[Removal] = []
    for where, asked, answered in (
        (
            Where.COORDINATOR_STREAM,
            {r.uuid: (r.deployment_id, r.timestamp) for r in requests},
            {r.uuid: r for r in responses},
        ),
        (
            Where.STATE_TOPIC,
            {uuid: (r.deployment_id, r.timestamp) for uuid, r in own_requests.items()},
            own_responses,
        ),
    ):
        old: set[str] = set()
        for uuid, response in answered.items():
            done = response.status_code.value if response.status_code.is_terminal else ended
            why = "of another deployment" if response.deployment_id != deployment_id else done
            if why and uuid not in in_flight and is_old(response):
                old.add(uuid)
                found.append(Removal(where, "response", uuid, response.timestamp, why))
        for uuid, (deployment, timestamp) in asked.items():
            if uuid in in_flight:
                continue
            foreign = "of another deployment" if deployment != deployment_id else ended
            if foreign or uuid in old:
                found.append(Removal(where, "request", uuid, timestamp, foreign or "answered"))
    return tuple(sorted(found, key=lambda r: (r.at_ms or 0, r.uuid, r.kind, r.where)))
