"""`placement_history`: one event for each outcome of a placement request. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import dagster as dg

from samza_dagster.client import ActionView, JobView
from samza_dagster.client.responses import details_of
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.orchestration.history.names import KEY
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
Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""
MOST_REQUESTS = 3_000
MOST_STATUSES = 12
MOST_MESSAGE = 300
"""Characters of a status's message that are kept."""
LONGEST_MS = 86_400_000
ANSWER_MS = 5_000
"""A reservation that has run out is answered and read within this time."""
ANSWER_OF_NEXT_MS = 30_000
"""A coordinator that has begun a deployment has answered what was asked of the one before."""
_EXPIRIES = {"reserving-standby": 1, "reserving": 1, "held": 2, "accepted": 1, "in_progress": 1}
"""Stages that a request's own time-out bounds, and how many of them: a hold comes after a
reservation. Samza's AM doesn't tell a stage, but its last status and since when."""


@dataclass(frozen=True)
class OpenRequest:
    """A request without an end, as it was seen last. Times in ms since the epoch.

    `since_ms` is by the clock of whoever wrote it: it is shown, and tells whether there was news.
    By the observer's clock are `seen_ms`, when it was first seen like that, and `over_ms`, when its
    deployment was first seen to be over; 0: not yet. `statuses` are those that were read, oldest
    first; `whole`: no earlier one was read and given up. `named`: it was reported as being without
    an end.
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
    statuses: tuple[Status, ...] = ()
    whole: bool = True
    named: bool = False


@dataclass(frozen=True)
class InFlight:
    """`requests`: uuid → the open request, those of which there was news last at the end.

    `blind_until_ms`: requests whose statuses found no room may have begun before it; what is first
    read of a request before then may be no beginning. `clock` is the observer's.
    """

    requests: Mapping[str, OpenRequest] = field(default_factory=dict[str, OpenRequest])
    blind_until_ms: int = 0
    clock: str = ""

    def seen(self, responses: Iterable[PlacementResponse]) -> InFlight:
        """With these statuses, each once, however many; a cursor takes what is `newest`."""
        requests = dict(self.requests)
        for response in responses:
            before = requests.pop(response.uuid, None)
            one = _seen_at(_of_response(response), before, 0)
            requests[response.uuid] = self._with_status(one, response)
        return replace(self, requests=requests)

    def _with_status(self, one: OpenRequest, response: PlacementResponse) -> OpenRequest:
        """Of many the first is kept, by which its time is known, and the last ones."""
        text = response.response_message[:MOST_MESSAGE]
        status: Status = (response.status_code.value, text, response.timestamp)
        if status in one.statuses:
            return one
        whole = one.whole if one.statuses else response.timestamp >= self.blind_until_ms
        statuses = (*one.statuses, status)
        if len(statuses) > MOST_STATUSES:
            statuses = (statuses[0], *statuses[-MOST_STATUSES + 1 :])
        return replace(one, statuses=statuses, whole=whole)

    def ended(self, uuids: Iterable[str]) -> InFlight:
        """Without these requests."""
        gone = set(uuids)
        return replace(self, requests={u: r for u, r in self.requests.items() if u not in gone})

    def newest(self, most: int) -> InFlight:
        """With as many requests, those without a status given up first, then those without news."""
        order = sorted(self.requests.values(), key=lambda r: (bool(r.statuses), r.since_ms))
        gone = order[: max(0, len(order) - most)]
        lost_ms = max((r.statuses[-1][2] for r in gone if r.statuses), default=None)
        flight = self.ended(r.uuid for r in gone)
        if lost_ms is None:
            return flight
        return replace(flight, blind_until_ms=max(self.blind_until_ms, lost_ms + LONGEST_MS))

    def with_named(self, uuids: Iterable[str]) -> InFlight:
        """With these requests named."""
        named = {u: replace(r, named=True) for u in uuids if (r := self.requests.get(u))}
        return replace(self, requests={**self.requests, **named})

    def of_no_deployment(self) -> InFlight:
        """The same where a topic was made anew: only their statuses are still known to be theirs."""
        requests = {
            u: replace(r, deployment_id="", over_ms=0)
            for u, r in self.requests.items()
            if r.statuses
        }
        return replace(self, requests=requests)

    def by_clock(self, clock: str) -> InFlight:
        """The same by this clock: where it is another one, what lasts begins to last anew."""
        if clock == self.clock:
            return self
        requests = {u: replace(r, seen_ms=0, over_ms=0) for u, r in self.requests.items()}
        return replace(self, requests=requests, clock=clock)

    def followed_in(self, view: JobView, now_ms: int) -> InFlight:
        """With what the job is at now; requests that have no end to come are marked so."""
        now = {r.uuid: _seen_at(r, self.requests.get(r.uuid), now_ms) for r in _in_view(view)}
        before = {
            uuid: replace(r, over_ms=(r.over_ms or now_ms) if is_over else 0)
            for uuid, r in self.requests.items()
            if uuid not in now
            for is_over in [r.deployment_id and view.why_over(r.deployment_id)]
        }
        return replace(self, requests={**before, **now})


def _seen_at(one: OpenRequest, before: OpenRequest | None, now_ms: int) -> OpenRequest:
    """As it is seen now: since it was `before`, unless there is news of it."""
    if before is None:
        return replace(one, seen_ms=now_ms)
    is_news = not before.seen_ms or before.since_ms != one.since_ms
    seen_ms = now_ms if is_news else before.seen_ms
    kept = (before.statuses, before.whole, before.named)
    return replace(one, seen_ms=seen_ms, statuses=kept[0], whole=kept[1], named=kept[2])


def _of_response(response: PlacementResponse) -> OpenRequest:
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


def _in_view(view: JobView) -> Iterator[OpenRequest]:
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


def without_end(
    view: JobView, flight: InFlight, *, now_ms: int, after_ms: int
) -> Sequence[OpenRequest]:
    """Requests that should have ended by now and weren't named yet; see `patience_ms`.

    What counts is since when the observer has seen them without news.
    """
    there = (flight.requests.get(action.uuid) for action in (*view.actions, *view.queued))
    return [
        one
        for one in there
        if one is not None and not one.named and now_ms - one.seen_ms > patience_ms(one, after_ms)
    ]


def without_answer(flight: InFlight, *, now_ms: int, after_ms: int) -> Sequence[OpenRequest]:
    """Requests whose deployment ended before they were answered, named ones too.

    Their time-out counts anew from then: our coordinator answers them when the next one begins.
    """
    return [
        one
        for one in flight.requests.values()
        if one.over_ms and now_ms - one.over_ms > max(patience_ms(one, after_ms), ANSWER_OF_NEXT_MS)
    ]


def patience_ms(action: OpenRequest, after_ms: int) -> int:
    """How long a request may take to end.

    Its own time-out, where it tells one and that is what it waits for; `after_ms` where it
    doesn't. In the queue and once its container is stopped: the longer of the two.
    """
    if action.expiry_ms is None:
        return after_ms
    times = _EXPIRIES.get(action.stage)
    if times is None:
        return max(after_ms, action.expiry_ms)
    return times * action.expiry_ms + ANSWER_MS


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
