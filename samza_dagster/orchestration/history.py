"""`placement_history`: each outcome of a placement request as an event, once, for every requester.

The sensor `placement_responses` records them. What the topics hold is read again from where the oldest request
without an outcome began, so no status is kept; of a request that waits the cursor keeps since when the sensor has
seen it so.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import dagster as dg

from samza_dagster.client import ActionView, JobView, PlacementClient
from samza_dagster.client.responses import details_of
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, in_each_job, job_sensor
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.gallery import Hang, embedded, hanging
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.show.timeline import timeline_svg
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.versioned import Versioned

HISTORY = "placement_history"
KEY = dg.AssetKey(HISTORY)
BOUNCES = "bounce_history"
GROUP = "samza"
"""Of assets."""
NO_END = "no-end"
STREAM, STATE_TOPIC = "coordinator stream", "state topic"
IN_ZOOKEEPER = "ZooKeeper"
"""The topic of a standalone group's messages, in place of a cluster's coordinator stream."""
MOST_IN_A_TICK = 200
REMEMBERED = 4 * MOST_IN_A_TICK  # of a repeated tick, from both topics
READ_FOR_NAMES = 5_000
"""Newest observations that are read before a request is named, from all runs."""
MOST_STATUSES = 12
UNKNOWN_ALL_BUT_END = "unknown: only its end was read"
ANSWER_MS = 5_000
"""A reservation that has run out is answered and read within this time."""
ANSWER_OF_NEXT_MS = 30_000
"""A coordinator that has begun a deployment has answered what was asked of the one before."""
DAY_MS = 86_400_000
_EXPIRIES = {"reserving-standby": 1, "reserving": 1, "held": 2, "accepted": 1, "in_progress": 1}
"""Stages that a request's own time-out bounds, and how many of them: a hold comes after a
reservation. Samza's AM doesn't tell a stage, but its last status and since when."""
Status = tuple[str, str, int]
"""Status, message, ms since the epoch."""
Responses = Sequence[tuple[int, PlacementResponse]]
"""Each with its position in its topic, in their order."""
Recorded = dg.AssetKey | dg.AssetRecordsFilter
"""Which events of `placement_history`: all of it, or of one job of several."""


@dataclass(frozen=True)
class Position:
    """Where the sensor goes on in one topic.

    Outcomes before `next` are recorded. Requests that may have no outcome yet have no status before `begin`.
    """

    next: int
    begin: int


@dataclass(frozen=True)
class Waiting:
    """A request in flight, as the sensor has seen it.

    `news_ms` is the time of its latest news by its coordinator's clock. `seen_ms` is when the sensor
    first saw it in this state, by its own clock. `is_over`: its deployment has ended, so it gets no
    answer. `named`: the sensor has reported that it has no outcome.
    """

    news_ms: int
    seen_ms: int
    is_over: bool = False
    named: bool = False


@dataclass(frozen=True)
class HistoryCursor(Versioned):
    """Where the sensor goes on in the coordinator stream of one job, and in our state topic.

    In the state topic requests of our own are answered. `waiting`: uuid → the request in flight.
    """

    VERSION: ClassVar[int] = 3

    job: str
    stream: Position
    own: Position
    waiting: Mapping[str, Waiting] = field(default_factory=dict[str, Waiting])


@dataclass(frozen=True)
class TopicRead:
    """New records of one topic, which ends at `end`."""

    name: str
    responses: Responses
    end: int

    @cached_property
    def of_request(self) -> Mapping[str, Responses]:
        """Each request's responses, by its uuid."""
        found: dict[str, list[tuple[int, PlacementResponse]]] = defaultdict(list)
        for position, response in self.responses:
            found[response.uuid].append((position, response))
        return found

    def statuses(self, uuid: str, until: int) -> list[Status]:
        """Return a request's statuses up to a position, each once; of many the first and the last ones."""
        told = [r for at, r in self.of_request[uuid] if at <= until]
        each = dict.fromkeys((r.status_code.value, r.response_message, r.timestamp) for r in told)
        first, *later = each
        return [first, *later[-MOST_STATUSES + 1 :]]

    def went_on(self, at: Position, batch: NewOutcomes, in_flight: Collection[str]) -> Position:
        """Return where the next tick starts reading: at the oldest request without an outcome.

        Such a request had news in this tick, or is in flight. A topic that was created again is read
        from its end.
        """
        if batch.more:
            return Position(batch.next_position, at.begin)
        ended = {r.uuid for _, r in self.responses if r.status_code.is_terminal}
        open_now = {*in_flight, *(r.uuid for p, r in self.responses if p >= at.next)} - ended
        began = (self.of_request[uuid][0][0] for uuid in open_now & self.of_request.keys())
        return Position(self.end, min(began, default=self.end))


@dataclass(frozen=True)
class NewOutcomes:
    """Outcomes to record now and the position to go on from."""

    outcomes: Responses
    next_position: int
    more: bool


def next_batch(responses: Responses, next_position: int, most: int = MOST_IN_A_TICK) -> NewOutcomes:
    """Return the first `most` outcomes in order, one a request; statuses on the way are passed over.

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


@dataclass(frozen=True)
class RecordedOutcome:
    """The position of a recorded outcome, and the time of its answer, in ms."""

    topic: str
    position: int
    at_ms: int

    @classmethod
    def of(cls, event: dg.AssetMaterialization, job: str) -> RecordedOutcome | None:
        """Return that of an event of this job; None for another's, or one that can't be read."""
        fields = {name: value.value for name, value in event.metadata.items()}
        position, at_s = fields.get("position"), fields.get("responded_at")
        if fields.get("job") != job or not isinstance(position, int):
            return None
        at_ms = round(at_s * 1000) if isinstance(at_s, (int, float)) else 0
        topic = str(fields.get("topic", STREAM))
        return cls(STREAM if topic == IN_ZOOKEEPER else topic, position, at_ms)


def resumed(marks: Sequence[RecordedOutcome], topic: TopicRead) -> Position:
    """Return where to continue in a topic, after the outcome that was recorded last.

    `marks` are the newest first, at least one. In a topic without a recorded outcome it continues after
    the time of the last one in the other topic.
    """
    later = (at for at, response in topic.responses if response.timestamp > marks[0].at_ms)
    own = next((mark.position + 1 for mark in marks if mark.topic == topic.name), None)
    return Position(next(later, topic.end) if own is None else own, 0)


def placement_history_spec(
    job: str, prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetSpec:
    """Return the asset whose events the sensor `placement_responses` writes."""
    return dg.AssetSpec(
        asset_key(prefix, HISTORY),
        partitions_def=partitions,
        group_name=GROUP,
        description=f"Every outcome of a placement request of {job}, from any requester.",
        kinds={"kafka"},
    )


def placement_responses_sensor(
    interval_s: int = 5,
    *,
    running: bool = True,
    no_end_s: int = 600,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    prefix: str = "",
) -> dg.SensorDefinition:
    """`placement_responses`: every outcome of a placement request as an event of `placement_history`.

    The first start ever is from now; after a lost cursor it goes on from the newest outcome that
    was recorded. A tick that is repeated records nothing twice: what the last events hold is
    passed over. A request that the sensor has seen without news for its own time-out, or `no_end_s`
    where that doesn't tell, is named once, as an observation. Dagster looks at sensors every 5 s at most.
    """

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return recorded(one, samza, client, no_end_s=no_end_s, now_ms=now_ms())

    return job_sensor(
        "placement_responses",
        in_each_job(tick),
        prefix=prefix,
        interval_s=interval_s,
        running=running,
        description="Records each outcome of a placement request in placement_history.",
    )


def recorded(
    one: JobTick,
    samza: SamzaClientResource,
    client: PlacementClient,
    *,
    no_end_s: int,
    now_ms: int,
) -> TickResult:
    """Record what was answered since the last tick, and name what should have ended by now."""
    cursor = HistoryCursor.read(one.cursor, samza.job, one.log.warning)
    key, records = samza.asset_key(HISTORY), samza.records_of(HISTORY)
    marks: Sequence[RecordedOutcome] = ()
    if cursor is None:
        marks = _recorded_marks(one.instance, samza.job, records)
    if cursor is None and not marks:
        _, end = client.responses_since(None)
        _, own_end = client.own_responses_since(None)
        waiting = _lost_before(client.view(), now_ms)
        begun = HistoryCursor(samza.job, Position(end, end), Position(own_end, own_end), waiting)
        text = f"starting from now, position {end}"
        return dg.SensorResult(skip_reason=text, cursor=begun.to_text())
    stream = TopicRead(STREAM, *client.responses_since(cursor.stream.begin if cursor else 0))
    own = TopicRead(STATE_TOPIC, *client.own_responses_since(cursor.own.begin if cursor else 0))
    view, anew = client.view(), list[str]()
    if cursor is None:
        recorded_ms = max(mark.at_ms for mark in marks)
        old = _lost_before(view, now_ms, recorded_ms - DAY_MS)
        cursor = HistoryCursor(samza.job, resumed(marks, stream), resumed(marks, own), old)
    waiting = _waiting(view, cursor.waiting, now_ms)
    lost = {action.uuid for action in view.over if waiting[action.uuid].named}
    in_flight = {*cursor.waiting, *waiting} - lost
    positions: list[Position] = []
    outcomes: list[tuple[TopicRead, int, PlacementResponse]] = []
    for topic, at in ((stream, cursor.stream), (own, cursor.own)):
        if topic.end < at.next:
            anew.append(
                f"the {topic.name} ends at {topic.end}, before {at.next}: it was made anew; starting from now"
            )
            positions.append(Position(topic.end, topic.end))
            continue
        batch = next_batch([(p, r) for p, r in topic.responses if p >= at.next], topic.end)
        outcomes += [(topic, *outcome) for outcome in batch.outcomes]
        positions.append(topic.went_on(at, batch, in_flight))
        if batch.more:
            one.log.info(f"more than {MOST_IN_A_TICK} outcomes: the rest in the next ticks")
    known = _recorded_requests(one.instance, records) if outcomes else frozenset[str]()
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [
        history_event(
            *(samza.job, position, response, topic.name),
            *(topic.statuses(response.uuid, position), key),
            group_of=view.group_of,
            hang=hanging(one.instance, response.uuid),
        )
        for topic, position, response in outcomes
        if response.uuid not in known
    ]
    late = without_end(view, waiting, now_ms=now_ms, after_ms=no_end_s * 1000)
    if late:
        named = _named_requests(one.instance, records)
        fresh = [action for action in late if action.uuid not in named][:MOST_IN_A_TICK]
        events += [
            no_end_event(
                *(samza.job, action, now_ms - waiting[action.uuid].seen_ms, now_ms, key),
                ours=view.capabilities.has_own_requests,
                group_of=view.group_of,
            )
            for action in fresh
        ]
        for uuid in named.union(action.uuid for action in fresh) & waiting.keys():
            waiting[uuid] = replace(waiting[uuid], named=True)
    at_stream, at_own = positions
    went_on = HistoryCursor(samza.job, at_stream, at_own, waiting).to_text()
    if not events:
        quiet = f"no new outcome up to position {at_stream.next}"
        return dg.SensorResult(skip_reason="; ".join(anew) or quiet, cursor=went_on)
    for text in anew:
        one.log.warning(text)
    return dg.SensorResult(asset_events=events, cursor=went_on)


def _waiting(view: JobView, before: Mapping[str, Waiting], now_ms: int) -> dict[str, Waiting]:
    """Return requests without an end; those with news since, or seen by a later clock, are seen again."""
    found: dict[str, Waiting] = {}
    over = {action.uuid for action in view.over}
    for action in (*view.actions, *view.queued, *view.over):
        is_over, since_ms = action.uuid in over, action.since_ms
        known = before.get(action.uuid) or Waiting(since_ms, now_ms, is_over)
        is_news = (known.news_ms, known.is_over) != (since_ms, is_over) or known.seen_ms > now_ms
        seen_ms = now_ms if is_news else known.seen_ms
        found[action.uuid] = Waiting(since_ms, seen_ms, is_over, known.named)
    return found


def _lost_before(view: JobView, now_ms: int, until_ms: int | None = None) -> dict[str, Waiting]:
    """Return requests up to a time that get no answer, so that the sensor doesn't report them at its start."""
    return {
        action.uuid: Waiting(action.since_ms, now_ms, is_over=True, named=True)
        for action in view.over
        if until_ms is None or action.since_ms <= until_ms
    }


def without_end(
    view: JobView, waiting: Mapping[str, Waiting], *, now_ms: int, after_ms: int
) -> list[ActionView]:
    """Return the requests that should have ended by now and weren't named yet; see `patience_ms`.

    What counts is since when the sensor has seen them without news, or their deployment ended.
    """
    return [
        action
        for action in (*view.actions, *view.queued, *view.over)
        for seen in [waiting[action.uuid]]
        for least_ms in [ANSWER_OF_NEXT_MS if seen.is_over else 0]
        if not seen.named and now_ms - seen.seen_ms > max(least_ms, patience_ms(action, after_ms))
    ]


def patience_ms(action: ActionView, after_ms: int) -> int:
    """Return how long a request may take to end.

    Its own time-out, where it tells one and that is what it waits for; `after_ms` where it
    doesn't. In the queue and once its container is stopped: the longer of the two.
    """
    if action.expiry_ms is None:
        return after_ms
    times = _EXPIRIES.get(action.stage)
    if times is None:
        return max(after_ms, action.expiry_ms)
    return times * action.expiry_ms + ANSWER_MS


def history_event(
    job: str,
    position: int,
    response: PlacementResponse,
    topic: str = STREAM,
    timeline: Sequence[Status] = (),
    key: dg.AssetKey = KEY,
    *,
    group_of: Callable[[str], str],
    hang: Hang = embedded,
) -> dg.AssetMaterialization:
    """The event of one outcome. Numbers among its metadata are plotted over time.

    `group_of` is the view's. `timeline` are its statuses as they were read, the outcome last. Where nothing but
    the outcome was read, how long it took isn't known, unless it was refused at once.
    """
    statuses: Sequence[Status] = timeline or (
        (response.status_code.value, response.response_message, response.timestamp),
    )
    began = statuses[0][2]
    seconds: float | str = max(0, response.timestamp - began) / 1000
    if len(statuses) == 1 and response.status_code is not StatusCode.BAD_REQUEST:
        seconds = UNKNOWN_ALL_BUT_END
    return dg.AssetMaterialization(
        asset_key=key,
        description=f"{response.status_code.value}: processor {response.processor_id}"
        f" to {response.destination_host}: {response.response_message}",
        metadata={
            "timeline_picture": hang(
                timeline_svg([("", status, at_ms) for status, _, at_ms in statuses]), "timeline"
            ),
            **_of_request(job, response, group_of),
            "destination": response.destination_host,
            "status": response.status_code.value,
            "message": response.response_message,
            "deployment_id": response.deployment_id,
            "responded_at": dg.MetadataValue.timestamp(response.timestamp / 1000),
            "position": position,
            "topic": IN_ZOOKEEPER if response.deployment_id == STANDALONE_DEPLOYMENT else topic,
            "succeeded": int(response.status_code.value == "SUCCEEDED"),
            "seconds": seconds,
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


def no_end_event(
    job: str,
    action: ActionView,
    silent_ms: int,
    at_ms: int,
    key: dg.AssetKey = KEY,
    *,
    ours: bool = True,
    group_of: Callable[[str], str],
) -> dg.AssetObservation:
    """Name a request that should have ended by now. `ours`: our coordinator has it, and can cancel it."""
    seconds = silent_ms / 1000
    how = f"is {action.stage}, without news for {seconds:,.0f} s"
    what_to_do = f"samza-dagster status {action.uuid}; " + (
        f"while nothing is stopped: samza-dagster cancel {action.uuid}"
        if ours
        else f"Samza's AM has no cancel: does {action.processor_id} run? Its log, and the AM's"
    )
    if action.trouble.startswith("over"):
        how = f"was {action.stage}, and is {action.trouble}"
        what_to_do = (
            f"nobody goes on with it; samza-dagster status {action.processor_id} tells where that"
            " is, then ask again"
        )
    return dg.AssetObservation(
        asset_key=key,
        description=f"no end: request {action.uuid} for {action.processor_id} to"
        f" {action.destination} {how}",
        metadata={
            **_of_request(job, action, group_of),
            "destination": action.destination,
            "stage": action.stage,
            "kind": action.kind,
            "asked_at": dg.MetadataValue.timestamp(action.since_ms / 1000),
            "seconds": seconds,
            "what_to_do": what_to_do,
            "told_at": dg.MetadataValue.timestamp(at_ms / 1000),
        },
        tags={EVENT: NO_END},
    )


def _of_request(
    job: str, asked: PlacementResponse | ActionView, group_of: Callable[[str], str]
) -> dict[str, str]:
    """Return what every event of a request has, by which it is looked for."""
    return {
        "request": asked.uuid,
        "job": job,
        "processor": asked.processor_id,
        "container_group": f"{job}/{group_of(asked.processor_id)}",
    }


def _named_requests(instance: dg.DagsterInstance, of: Recorded = KEY) -> frozenset[str]:
    """Return the requests that the newest observations name as being without an end."""
    records = instance.fetch_observations(of, limit=READ_FOR_NAMES).records
    found = (record.asset_observation for record in records)
    return frozenset(
        str(event.metadata["request"].value)
        for event in found
        if event is not None and event.tags.get(EVENT) == NO_END
    )


def _recorded_requests(instance: dg.DagsterInstance, of: Recorded = KEY) -> frozenset[str]:
    """Return the requests whose outcome is among the newest events of `placement_history`."""
    return frozenset(str(event.metadata["request"].value) for event in _recorded(instance, of))


def _recorded_marks(
    instance: dg.DagsterInstance, job: str, of: Recorded = KEY
) -> tuple[RecordedOutcome, ...]:
    """Return where the newest outcomes of a job stand that were recorded, newest first."""
    found = (RecordedOutcome.of(event, job) for event in _recorded(instance, of))
    return tuple(mark for mark in found if mark is not None)


def _recorded(instance: dg.DagsterInstance, of: Recorded) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(of, limit=REMEMBERED).records
    found = (record.asset_materialization for record in records)
    return [event for event in found if event is not None]
