"""Reports of `auto_failover`, and how they are read back: observations of `placement_history`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from samza_dagster.orchestration.history import KEY
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.watch.cursor import Act, FailoverCursor, Suspect
from samza_dagster.orchestration.watch.failover import Decision, FailoverVerdict

DECIDED, RECOVERED, ACKNOWLEDGED = "auto-failover", "auto-failover-over", "acknowledged"
REPORTED_AT = "told_at"
WORDS = {
    FailoverVerdict.ASK: "asked",
    FailoverVerdict.ADVISE: "advised",
    FailoverVerdict.SHADOW: "would be asked",
    FailoverVerdict.WATCH: "watched",
    FailoverVerdict.HELD: "held back",
}
MOST_READ = 5_000
"""Observations of one asset; `placement_responses` writes 200 in a tick."""
PAGE = 1_000
READ_AGAIN = 1_000
"""Numbers before the newest that was read: a database may show a lower one later than a higher."""
Events = list[tuple[int, dg.AssetObservation]]
"""With the number of each in Dagster's storage."""


def decision_event(
    decision: Decision, *, job: str, now_ms: int, key: dg.AssetKey
) -> dg.AssetObservation:
    """Report what was decided, why, and what a person can do."""
    because = f" ({decision.because})" if decision.because else ""
    return dg.AssetObservation(
        asset_key=key,
        description=f"{decision.action} of {decision.processor} {WORDS[decision.verdict]}:"
        f" {decision.suspect.why}{because}",
        metadata={
            **_about(decision.suspect, decision.event, job, now_ms),
            "processor": decision.processor,
            "container_group": f"{job}/{decision.group}",
            "host": decision.host or "-",
            "incarnation": decision.incarnation or "-",
            "action": decision.action,
            "verdict": decision.verdict.value,
            "why": decision.suspect.why,
            "because": decision.because or "-",
            "what_to_do": decision.command,
            "run_key": decision.uuid,
        },
        tags={EVENT: DECIDED},
    )


def recovered_event(
    suspect: Suspect, *, job: str, now_ms: int, key: dg.AssetKey
) -> dg.AssetObservation:
    """Report that something looks well again, and what became of it."""
    outcome, done = "unknown", ""
    if suspect.was and suspect.was == suspect.became:
        outcome = "nothing was needed"
    elif suspect.was and suspect.became:
        outcome, done = "moved or restarted", f"{suspect.became}; it was {suspect.was}"
    return dg.AssetObservation(
        asset_key=key,
        description=f"{suspect.subject} looks well again: {suspect.kind} is over"
        f" ({': '.join(filter(None, (outcome, done)))})",
        metadata={
            **_about(suspect, f"{suspect.key}/{suspect.since_ms}/over", job, now_ms),
            "outcome": outcome,
            "done": done,
        },
        tags={EVENT: RECOVERED},
    )


def _about(suspect: Suspect, event: str, job: str, now_ms: int) -> dict[str, Any]:
    return {
        "event": event,
        "job": job,
        "signal": suspect.kind.value,
        "subject": suspect.subject,
        "suspect": suspect.key,
        "bad_since": dg.MetadataValue.timestamp(suspect.since_ms / 1000),
        REPORTED_AT: dg.MetadataValue.timestamp(now_ms / 1000),
    }


def acknowledgement(
    job: str,
    group: str,
    *,
    at_ms: int,
    who: str,
    why: str,
    ticket: str = "",
    key: dg.AssetKey = KEY,
    partition: str | None = None,
) -> dg.AssetObservation:
    """Report that a person has looked at a group: the sensor may act on it again.

    It lifts what blocks the group when it is stored; `at_ms` is only shown.
    """
    return dg.AssetObservation(
        asset_key=key,
        description=f"acknowledged: {job}/{group}: {why}",
        metadata={
            "job": job,
            "container_group": f"{job}/{group}",
            "group": group,
            REPORTED_AT: dg.MetadataValue.timestamp(at_ms / 1000),
            "who": who or "-",
            "why": why,
            "ticket": ticket or "-",
        },
        tags={EVENT: ACKNOWLEDGED},
        partition=partition,
    )


def history(instance: dg.DagsterInstance, key: dg.AssetKey = KEY, after: int = 0) -> Events:
    """Read a job's newest observations after a number, `MOST_READ` at most, in their order."""
    found: Events = []
    records_filter = dg.AssetRecordsFilter(asset_key=key, after_storage_id=after)
    cursor: str | None = None
    while len(found) < MOST_READ:
        page = instance.fetch_observations(records_filter, limit=PAGE, cursor=cursor)
        events = ((record.storage_id, record.asset_observation) for record in page.records)
        found += [(number, event) for number, event in events if event is not None]
        if not page.has_more or not page.records:
            break
        cursor = page.cursor
    return sorted(found, key=lambda one: one[0])


def with_events(cursor: FailoverCursor, events: Events) -> tuple[FailoverCursor, frozenset[str]]:
    """Take in acknowledgements, and the runs that were requested; return what was reported, too.

    A cursor that was lost so forgets no block and no cap.
    """
    acts, acknowledged = dict(cursor.acts), dict(cursor.acknowledged)
    reported: set[str] = set()
    for number, event in events:
        if text(event, "job") != cursor.job:
            continue
        if event.tags.get(EVENT) == ACKNOWLEDGED:
            acknowledged[text(event, "group")] = number
            continue
        reported.add(text(event, "event"))
        if text(event, "verdict") == FailoverVerdict.ASK.value:
            group = text(event, "container_group").removeprefix(f"{cursor.job}/")
            at_ms = time_ms(event.metadata, REPORTED_AT)
            known = acts.get(text(event, "run_key")) or Act(group, at_ms)
            acts[text(event, "run_key")] = replace(known, number=number)
    read_to = max([cursor.read_to, *(number for number, _ in events)])
    after = replace(cursor, acts=acts, acknowledged=acknowledged, read_to=read_to)
    return after, frozenset(reported)


def text(event: dg.AssetObservation, name: str) -> str:
    """Return a value of an event's metadata; empty: it has none of that name."""
    value = event.metadata.get(name)
    return str(value.value) if value is not None else ""


def time_ms(metadata: Mapping[str, dg.MetadataValue], name: str) -> int:
    """Return a time of an event or an evaluation in ms since the epoch; 0: it has none."""
    value = metadata.get(name)
    return round(value.value * 1000) if isinstance(value, dg.TimestampMetadataValue) else 0
