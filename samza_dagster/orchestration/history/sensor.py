"""The sensor `placement_responses`: what happened on the coordinator stream becomes events that Dagster keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.orchestration.history.events import (
    MOST_IN_A_TICK,
    STATE_TOPIC,
    STREAM,
    HistoryCursor,
    InFlight,
    OpenRequest,
    RecordedOutcome,
    history_event,
    next_batch,
    of_request,
    resumed,
    without_answer,
    without_end,
)
from samza_dagster.orchestration.history.names import GROUP, HISTORY, KEY
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, in_each_job, job_sensor
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.gallery import hanging
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.ticks import since_boot, steady_now

Recorded = dg.AssetKey | dg.AssetRecordsFilter
"""Which events of `placement_history`: all of it, or of one job of several."""
NO_END = "no-end"
REMEMBERED = 4 * MOST_IN_A_TICK  # of a repeated tick, from both topics
READ_FOR_NAMES = 5_000
"""Newest observations that are read before a request is named, whoever wrote them."""


def placement_history_spec(
    job: str, prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetSpec:
    """The asset whose events the sensor `placement_responses` writes."""
    return dg.AssetSpec(
        asset_key(prefix, HISTORY),
        partitions_def=partitions,
        group_name=GROUP,
        description=f"Every outcome of a placement request of {job}, whoever asked.",
        kinds={"kafka"},
    )


def placement_responses_sensor(
    interval_s: int = 5,
    *,
    running: bool = True,
    no_end_s: int = 600,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    boot: Callable[[], tuple[str, int]] = since_boot,
    prefix: str = "",
) -> dg.SensorDefinition:
    """`placement_responses`: every outcome of a placement request as an event of `placement_history`.

    The first start ever is from now; after a lost cursor it goes on from the newest outcome that
    was recorded. A tick that is repeated records nothing twice: what the last events hold is
    passed over. A request that the sensor has seen without news for its own time-out, or `no_end_s`
    where that doesn't tell, is named once, as an observation. Dagster looks at sensors every 5 s at most.
    """

    def tick(one: JobTick, samza: SamzaClientResource, client: PlacementClient) -> TickResult:
        return recorded(one, samza, client, no_end_s=no_end_s, now_ms=now_ms, boot=boot)

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
    now_ms: Callable[[], int],
    boot: Callable[[], tuple[str, int]],
) -> TickResult:
    """One tick: what was answered since the last one, and who should have been by now."""
    cursor = HistoryCursor.read(one.cursor, samza.job, one.log.warning)
    key, records = samza.asset_key(HISTORY), samza.records_of(HISTORY)
    marks = _recorded_marks(one.instance, samza.job, records) if cursor is None else ()
    start, own_start = (cursor.position, cursor.own) if cursor is not None else (None, None)
    if marks:  # what was recorded tells where to go on
        start = own_start = 0
    responses, end = client.responses_since(start)
    answers, own_end = client.own_responses_since(own_start)
    if marks:
        cursor = resumed(samza.job, marks, responses, answers, (end, own_end))
        responses = [(at, r) for at, r in responses if at >= cursor.position]
        answers = [(at, r) for at, r in answers if at >= cursor.own]
    if cursor is None:
        return dg.SensorResult(
            skip_reason=f"starting from now, position {end}",
            cursor=HistoryCursor(samza.job, end, own_end).to_text(),
        )
    view = client.view()
    anew: list[str] = []
    if end < cursor.position:
        anew.append(_made_anew(STREAM, end, cursor.position))
        responses = ()
    if own_end < cursor.own:
        anew.append(_made_anew(STATE_TOPIC, own_end, cursor.own))
        answers = ()
    batch, own = next_batch(responses, end), next_batch(answers, own_end)
    outcomes = [
        *((STREAM, *outcome) for outcome in batch.outcomes),
        *((STATE_TOPIC, *outcome) for outcome in own.outcomes),
    ]
    read = [r for at, r in responses if at < batch.next_position]
    read += [r for at, r in answers if at < own.next_position]
    flight = cursor.flight.of_no_deployment() if anew else cursor.flight
    flight = flight.seen(read)
    known = _recorded_requests(one.instance, records) if outcomes else frozenset[str]()
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [
        history_event(
            samza.job,
            position,
            response,
            topic,
            flight.requests[response.uuid].statuses,
            key,
            whole=flight.requests[response.uuid].whole,
            group_of=view.group_of,
            hang=hanging(one.instance, response.uuid),
        )
        for topic, position, response in outcomes
        if response.uuid not in known
    ]
    flight = flight.ended(r.uuid for r in read if r.status_code.is_terminal)
    at_ms, clock = steady_now(flight.clock, now_ms(), *boot())
    flight = flight.by_clock(clock)
    flight = flight.followed_in(view, at_ms)
    lost = without_answer(flight, now_ms=at_ms, after_ms=no_end_s * 1000)
    if batch.more or own.more:
        lost = ()  # their answers may be among the rest
    late = without_end(view, flight, now_ms=at_ms, after_ms=no_end_s * 1000)
    flight, late = _newly_named(one.instance, flight, late, lost, records)
    ours = view.capabilities.has_own_requests
    events += [
        no_end_event(samza.job, each, at_ms, key, ours=ours, group_of=view.group_of)
        for each in late
    ]
    went_on = HistoryCursor(samza.job, batch.next_position, own.next_position, flight).bounded()
    if not events:
        quiet = f"no new outcome up to position {batch.next_position}"
        return dg.SensorResult(skip_reason="; ".join(anew) or quiet, cursor=went_on.to_text())
    for text in anew:
        one.log.warning(text)
    if batch.more or own.more:
        one.log.info(f"more than {MOST_IN_A_TICK} outcomes: the rest in the next ticks")
    return dg.SensorResult(asset_events=events, cursor=went_on.to_text())


def _made_anew(topic: str, end: int, position: int) -> str:
    return f"the {topic} ends at {end}, before {position}: it was made anew; starting from now"


def no_end_event(
    job: str,
    action: OpenRequest,
    at_ms: int,
    key: dg.AssetKey = KEY,
    *,
    ours: bool = True,
    group_of: Callable[[str], str],
) -> dg.AssetObservation:
    """A request that should have ended by now. `ours`: our coordinator has it, and can cancel it."""
    seconds = (at_ms - (action.over_ms or action.seen_ms)) / 1000
    how = f"is {action.stage}, without news for {seconds:,.0f} s"
    what_to_do = f"samza-dagster status {action.uuid}; " + (
        f"while nothing is stopped: samza-dagster cancel {action.uuid}"
        if ours
        else f"Samza's AM has no cancel: does {action.processor_id} run? Its log, and the AM's"
    )
    if action.over_ms:
        how = f"was {action.stage}: its deployment {action.deployment_id} ended before an answer"
        what_to_do = (
            f"nobody goes on with it; samza-dagster status {action.processor_id} tells where that"
            " is, then ask again"
        )
    return dg.AssetObservation(
        asset_key=key,
        description=f"no end: request {action.uuid} for {action.processor_id} to"
        f" {action.destination} {how}",
        metadata={
            **of_request(job, action, group_of),
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


def _newly_named(
    instance: dg.DagsterInstance,
    flight: InFlight,
    late: Sequence[OpenRequest],
    lost: Sequence[OpenRequest],
    of: Recorded,
) -> tuple[InFlight, Sequence[OpenRequest]]:
    """What is to be named in this tick, and what is known of requests then.

    `late` are in flight, `lost` were so when their deployment ended: named once, they are forgotten.
    """
    if lost:
        flight = flight.ended(_recorded_requests(instance, of))
    lost = [one for one in lost if one.uuid in flight.requests]
    late = [*late, *(one for one in lost if not one.named)]
    fresh: Sequence[OpenRequest] = ()
    if late:
        named = _named_requests(instance, of)
        fresh = [one for one in late if one.uuid not in named][:MOST_IN_A_TICK]
        flight = flight.with_named({one.uuid for one in late} & named)
        flight = flight.with_named(one.uuid for one in fresh)
    return flight.ended(one.uuid for one in lost if flight.requests[one.uuid].named), fresh


def _named_requests(instance: dg.DagsterInstance, of: Recorded = KEY) -> frozenset[str]:
    """Requests that the newest observations name as being without an end."""
    records = instance.fetch_observations(of, limit=READ_FOR_NAMES).records
    found = (record.asset_observation for record in records)
    return frozenset(
        str(event.metadata["request"].value)
        for event in found
        if event is not None and event.tags.get(EVENT) == NO_END
    )


def _recorded_requests(instance: dg.DagsterInstance, of: Recorded = KEY) -> frozenset[str]:
    """Requests whose outcome is among the newest events of `placement_history`."""
    return frozenset(str(event.metadata["request"].value) for event in _recorded(instance, of))


def _recorded_marks(
    instance: dg.DagsterInstance, job: str, of: Recorded = KEY
) -> tuple[RecordedOutcome, ...]:
    """Where the newest outcomes of a job stand that were recorded, newest first."""
    found = (RecordedOutcome.of(event, job) for event in _recorded(instance, of))
    return tuple(mark for mark in found if mark is not None)


def _recorded(instance: dg.DagsterInstance, of: Recorded) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(of, limit=REMEMBERED).records
    found = (record.asset_materialization for record in records)
    return [event for event in found if event is not None]
