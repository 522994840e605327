"""Sensors: what happened on the coordinator stream becomes events that Dagster keeps."""

# No `from __future__ import annotations`: Dagster reads the annotations of sensors as types.

import dagster as dg

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.history import (
    KEY,
    MOST_IN_A_TICK,
    STATE_TOPIC,
    STREAM,
    Cursor,
    history_event,
    next_batch,
)
from samza_dagster.orchestration.resource import SamzaClientResource

REMEMBERED = 4 * MOST_IN_A_TICK  # of a repeated tick, from both topics


def placement_responses_sensor(interval_s: int = 5, *, running: bool = True) -> dg.SensorDefinition:
    """`placement_responses`: every outcome of a placement request as an event of `placement_history`.

    A fresh cursor starts from now. A tick that is repeated records nothing twice: what
    the last events hold is passed over. Dagster looks at sensors every 5 s at most.
    """

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name="placement_responses",
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING
        if running
        else dg.DefaultSensorStatus.STOPPED,
        description="Records each outcome of a placement request in placement_history.",
    )
    def placement_responses(
        context: dg.SensorEvaluationContext, samza: SamzaClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        cursor = Cursor.read(context.cursor, samza.job)
        try:
            client = samza.open_client()
        except Unreachable as error:
            return dg.SkipReason(f"Kafka doesn't answer: {error}")
        try:
            responses, end = client.responses_since(cursor.position if cursor else None)
            answers, own_end = client.own_responses_since(cursor.own if cursor else None)
        except Unreachable as error:
            return dg.SkipReason(f"Kafka doesn't answer: {error}")
        finally:
            client.close()
        if cursor is None:
            start = Cursor(samza.job, end, own_end)
            return dg.SensorResult(
                skip_reason=f"starting from now, position {end}", cursor=start.to_text()
            )
        if end < cursor.position:
            start = Cursor(samza.job, end, own_end)
            return dg.SensorResult(
                skip_reason=f"the stream ends at {end}, before {cursor.position}: it was made anew;"
                " starting from now",
                cursor=start.to_text(),
            )
        batch, own = next_batch(responses, end), next_batch(answers, own_end)
        outcomes = [
            *((STREAM, *outcome) for outcome in batch.outcomes),
            *((STATE_TOPIC, *outcome) for outcome in own.outcomes),
        ]
        known = recorded_requests(context.instance) if outcomes else frozenset[str]()
        events = [
            history_event(samza.job, position, response, topic)
            for topic, position, response in outcomes
            if response.uuid not in known
        ]
        went_on = Cursor(samza.job, batch.next_position, own.next_position)
        if not events:
            return dg.SensorResult(
                skip_reason=f"no new outcome up to position {batch.next_position}",
                cursor=went_on.to_text(),
            )
        if batch.more or own.more:
            context.log.info(f"more than {MOST_IN_A_TICK} outcomes: the rest in the next ticks")
        return dg.SensorResult(asset_events=events, cursor=went_on.to_text())

    return placement_responses


def recorded_requests(instance: dg.DagsterInstance) -> frozenset[str]:
    """Requests whose outcome is among the newest events of `placement_history`."""
    records = instance.fetch_materializations(KEY, limit=REMEMBERED).records
    found = (record.asset_materialization for record in records)
    return frozenset(str(event.metadata["request"].value) for event in found if event is not None)
