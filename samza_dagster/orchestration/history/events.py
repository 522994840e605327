"""`placement_history`: one event for each outcome of a placement request. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import dagster as dg

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.orchestration.history.names import KEY
from samza_dagster.orchestration.history.open_requests import (
    LONGEST_MS,
    MOST_REQUESTS,
    InFlight,
    OpenRequest,
    Status,
)
from samza_dagster.orchestration.requests.step_request import details_of
from samza_dagster.orchestration.show.gallery import Hang, embedded
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.show.timeline import timeline_svg
from samza_dagster.orchestration.versioned import Versioned

MOST_IN_A_TICK = 200
STREAM, STATE_TOPIC = "coordinator stream", "state topic"
IN_ZOOKEEPER = "ZooKeeper"
"""In a standalone group, of what is in the stream in a cluster."""
MOST_BYTES = 400_000
"""Of a cursor: three statuses of each of `MOST_REQUESTS` have room in it."""
UNKNOWN_BEGIN = "unknown: its first statuses were not kept, too many requests were in flight"
UNKNOWN_ALL_BUT_END = "unknown: only its end was read"


@dataclass(frozen=True)
class HistoryCursor(Versioned):
    """Where the sensor goes on: positions in the coordinator stream of one job and in our state topic.

    In the state topic requests of our own are answered. `flight`: requests that have no end yet.
    """

    VERSION: ClassVar[int] = 2

    job: str
    position: int
    own: int
    flight: InFlight = field(default_factory=InFlight)

    def bounded(self) -> HistoryCursor:
        """The same within `MOST_BYTES`, however long the messages are."""
        kept = replace(self, flight=self.flight.newest(MOST_REQUESTS))
        while len(kept.to_text()) > MOST_BYTES:
            most = len(kept.flight.requests) * 3 // 4
            kept = replace(kept, flight=kept.flight.newest(most))
        return kept


@dataclass(frozen=True)
class RecordedOutcome:
    """Where an outcome that was recorded stands, and when it was answered, in ms."""

    topic: str
    position: int
    at_ms: int

    @classmethod
    def of(cls, event: dg.AssetMaterialization, job: str) -> RecordedOutcome | None:
        """Of an event of this job; None for another's, or one that can't be read."""
        fields = {name: value.value for name, value in event.metadata.items()}
        position, at_s = fields.get("position"), fields.get("responded_at")
        if fields.get("job") != job or not isinstance(position, int):
            return None
        at_ms = round(at_s * 1000) if isinstance(at_s, (int, float)) else 0
        topic = str(fields.get("topic", STREAM))
        return cls(STREAM if topic == IN_ZOOKEEPER else topic, position, at_ms)


Responses = Sequence[tuple[int, PlacementResponse]]


def resumed(
    job: str,
    marks: Sequence[RecordedOutcome],
    responses: Responses,
    answers: Responses,
    ends: tuple[int, int],
) -> HistoryCursor:
    """The cursor after what was recorded last; `marks` are the newest first, at least one.

    `responses` and `answers` are all that the topics hold, `ends` where they end. In a topic of
    which nothing was recorded it goes on after the time of what was.
    """
    positions: list[int] = []
    for topic, held, end in ((STREAM, responses, ends[0]), (STATE_TOPIC, answers, ends[1])):
        own = next((mark.position + 1 for mark in marks if mark.topic == topic), None)
        later = (at for at, response in held if response.timestamp > marks[0].at_ms)
        positions.append(next(later, end) if own is None else own)
    position, own_position = positions
    read = [r for at, r in responses if at < position]
    read += [r for at, r in answers if at < own_position]
    flight = InFlight().seen(read).ended(r.uuid for r in read if r.status_code.is_terminal)
    # What was lost before anything was recorded is no news.
    old = (u for u, r in flight.requests.items() if r.since_ms <= marks[0].at_ms - LONGEST_MS)
    return HistoryCursor(job, position, own_position, flight.with_named(old))


@dataclass(frozen=True)
class NewOutcomes:
    """Outcomes to record now and the position to go on from."""

    outcomes: tuple[tuple[int, PlacementResponse], ...]
    next_position: int
    more: bool


def next_batch(
    responses: Sequence[tuple[int, PlacementResponse]],
    next_position: int,
    most: int = MOST_IN_A_TICK,
) -> NewOutcomes:
    """The first `most` outcomes in order, one a request; statuses on the way are passed over.

    A new leader writes its predecessor's last response again, so a request may have
    its outcome in the stream twice. The outcome of a commit, release or cancel is that
    of the request which it is about.
    """
    outcomes: list[tuple[int, PlacementResponse]] = []
    seen: set[str] = set()
    for position, response in responses:
        if not response.status_code.is_terminal or response.uuid in seen:
            continue
        if details_of(response).refers_to is not None:
            continue
        if len(outcomes) == most:
            return NewOutcomes(tuple(outcomes), position, more=True)
        seen.add(response.uuid)
        outcomes.append((position, response))
    return NewOutcomes(tuple(outcomes), next_position, more=False)


def history_event(
    job: str,
    position: int,
    response: PlacementResponse,
    topic: str = STREAM,
    timeline: Sequence[Status] = (),
    key: dg.AssetKey = KEY,
    *,
    whole: bool = True,
    group_of: Callable[[str], str],
    hang: Hang = embedded,
) -> dg.AssetMaterialization:
    """The event of one outcome. Numbers among its metadata are plotted over time.

    `group_of` is the view's. `timeline` are its statuses as they were read, the outcome last; not
    `whole`: earlier ones were read and not kept. Then, and where nothing but the outcome was read,
    how long it took isn't known, unless it was refused at once.
    """
    statuses: Sequence[Status] = timeline or (
        (response.status_code.value, response.response_message, response.timestamp),
    )
    began = statuses[0][2]
    return dg.AssetMaterialization(
        asset_key=key,
        description=f"{response.status_code.value}: processor {response.processor_id}"
        f" to {response.destination_host}: {response.response_message}",
        metadata={
            "timeline_picture": hang(
                timeline_svg([("", status, at_ms) for status, _, at_ms in statuses]), "timeline"
            ),
            **of_request(job, response, group_of),
            "destination": response.destination_host,
            "status": response.status_code.value,
            "message": response.response_message,
            "deployment_id": response.deployment_id,
            "responded_at": dg.MetadataValue.timestamp(response.timestamp / 1000),
            "position": position,
            "topic": IN_ZOOKEEPER if response.deployment_id == STANDALONE_DEPLOYMENT else topic,
            "succeeded": int(response.status_code.value == "SUCCEEDED"),
            "seconds": _seconds(response, statuses, whole=whole),
            "timeline": table(
                [
                    {"status": status, "message": message, "ms since the first": at_ms - began}
                    for status, message, at_ms in statuses
                ],
                ("status", "message", "ms since the first"),
            ),
        },
        tags={"samza/status": response.status_code.value},
    )


def of_request(
    job: str, asked: PlacementResponse | OpenRequest, group_of: Callable[[str], str]
) -> dict[str, str]:
    """What every event of a request has, by which it is looked for."""
    return {
        "request": asked.uuid,
        "job": job,
        "processor": asked.processor_id,
        "container_group": f"{job}/{group_of(asked.processor_id)}",
    }


def _seconds(
    response: PlacementResponse, statuses: Sequence[Status], *, whole: bool
) -> float | str:
    """From the first status to the outcome, or why it isn't known."""
    if response.status_code is not StatusCode.BAD_REQUEST:  # which has no other status
        if not whole:
            return UNKNOWN_BEGIN
        if len(statuses) == 1:
            return UNKNOWN_ALL_BUT_END
    return max(0, response.timestamp - statuses[0][2]) / 1000
