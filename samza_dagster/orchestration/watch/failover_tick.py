"""A tick of `auto_failover`: one look, one judgement, and what is reported and requested of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import some_of
from samza_dagster.orchestration.history.names import HISTORY, KEY
from samza_dagster.orchestration.job_sensor import JobTick, TickResult
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag
from samza_dagster.orchestration.ticks import since_boot, steady_now
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.failover import MOST_SUSPECTS, Judgement, judge
from samza_dagster.orchestration.watch.observation import Observation, observation_of
from samza_dagster.orchestration.watch.reported import (
    READ_AGAIN,
    Events,
    decision_event,
    history,
    recovered_event,
    text,
    with_events,
)
from samza_dagster.orchestration.watch.runs import run_request
from samza_dagster.orchestration.watch.settings import AutoFailover

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient


def look(client: PlacementClient) -> Observation:
    """Look at the job once."""
    seen = client.look()
    return observation_of(seen.job, seen.lags, seen.input_lags, seen.host_words, seen.unread)


def evaluated(
    one: JobTick, samza: SamzaClientResource, client: PlacementClient, settings: AutoFailover
) -> TickResult:
    """Look, judge and report; the runs that are requested do what is to be done."""
    observation, key = look(client), samza.asset_key(HISTORY)
    kept = FailoverCursor.read(one.cursor, observation.job, one.log.warning)
    kept = kept or FailoverCursor(observation.job)
    now_ms, clock = steady_now(kept.clock, time.time_ns() // 1_000_000, *since_boot())
    events = history(one.instance, key, max(0, kept.read_to - READ_AGAIN))
    judged, new = judged_now(kept.at(now_ms, clock), observation, events, settings, now_ms, key=key)
    runs = [
        run_request(d, job_tag(observation.job, samza.prefix), samza.prefix) for d in judged.asked
    ]
    return dg.SensorResult(
        run_requests=runs,
        asset_events=new,
        skip_reason=None if new or runs else dg.SkipReason(quiet(judged, observation)),
        cursor=judged.cursor.to_text(),
    )


def judged_now(
    cursor: FailoverCursor,
    observation: Observation,
    events: Events,
    settings: AutoFailover,
    now_ms: int,
    *,
    key: dg.AssetKey = KEY,
) -> tuple[Judgement, list[dg.AssetObservation]]:
    """Judge one look, and return what is to be reported of it that `events` don't report yet."""
    cursor, reported = with_events(cursor, events)
    judged, job = judge(cursor, observation, settings, now_ms), observation.job
    new = [
        decision_event(
            decision,
            job=job,
            host=seen.host if (seen := observation.by_id.get(decision.case.processor)) else None,
            now_ms=now_ms,
            key=key,
        )
        for decision in judged.advice
    ]
    new += [recovered_event(suspect, job=job, now_ms=now_ms, key=key) for suspect in judged.over]
    return judged, [event for event in new if text(event, "event") not in reported]


def quiet(judged: Judgement, observation: Observation) -> str:
    """Return the skip reason of a tick that has nothing new; it names what could not be read."""
    suspects = judged.cursor.suspects.values()
    if judged.too_many:
        said = (
            f"{judged.too_many} things look bad at once, of more than {MOST_SUSPECTS} none is judged:"
            " nothing is reported or asked until they are fewer"
        )
    elif suspects:
        bad = sorted({f"{s.subject} {s.kind}" for s in suspects})
        said = f"nothing new; looks bad: {some_of(bad)}"
    else:
        said = "all looks well"
    return f"{said}; not known: {some_of(observation.unread)}" if observation.unread else said
