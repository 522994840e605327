"""What became of each trouble that `auto_failover` reported, read from its reports alone. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.watch.failover import FailoverVerdict
from samza_dagster.orchestration.watch.outcomes import Resolution
from samza_dagster.orchestration.watch.remedies import NOTHING
from samza_dagster.orchestration.watch.reported import (
    DECIDED,
    DONE_AT,
    RECOVERED,
    REPORTED_AT,
    WELL_AT,
    text,
    time_ms,
)

_ASKED = FailoverVerdict.ASK.value
_WOULD = (FailoverVerdict.ADVISE.value, FailoverVerdict.SHADOW.value)


@dataclass(frozen=True)
class Incident:
    """One trouble from its first report to its end. Times in ms since the epoch."""

    suspect: str
    signal: str
    subject: str
    processor: str
    host: str
    action: str
    verdict: str
    why: str
    reported_ms: int
    would_ms: int | None = None
    """When its run would have been requested, had the mode been `act`; None: not at all."""
    outcome: str = Resolution.OPEN.value
    done: str = ""
    done_ms: int | None = None
    over_ms: int | None = None

    @property
    def sooner_s(self) -> float | None:
        """How much sooner its run had been than what was done without it; None: no such thing."""
        if self.would_ms is None or self.done_ms is None:
            return None
        return (self.done_ms - self.would_ms) / 1000

    def to_json(self) -> dict[str, Any]:
        """Return all of it, with `sooner_s`."""
        return {**asdict(self), "sooner_s": self.sooner_s}


def incidents(events: Iterable[dg.AssetObservation], job: str) -> tuple[Incident, ...]:
    """Return the incidents of a job in the order of its events, oldest first."""
    found: list[Incident] = []
    opened: dict[str, int] = {}
    for event in events:
        kind, suspect = event.tags.get(EVENT), text(event, "suspect")
        if text(event, "job") != job or not suspect:
            continue
        if kind == DECIDED:
            if suspect not in opened:
                opened[suspect] = len(found)
                found.append(_begun(event))
            at = opened[suspect]
            found[at] = _with_decision(found[at], event)
        elif kind == RECOVERED and suspect in opened:
            at = opened.pop(suspect)
            found[at] = _ended(found[at], event)
    return tuple(found)


def summary(found: Sequence[Incident]) -> dict[str, Any]:
    """Count the outcomes, and return by how much its runs had been sooner: the median, in s."""
    sooner = [s for one in found if (s := one.sooner_s) is not None]
    return {
        "incidents": len(found),
        "outcomes": dict(Counter(one.outcome for one in found)),
        "sooner_s_median": statistics.median(sooner) if sooner else None,
    }


def _begun(event: dg.AssetObservation) -> Incident:
    return Incident(
        suspect=text(event, "suspect"),
        signal=text(event, "signal"),
        subject=text(event, "subject"),
        processor=text(event, "processor"),
        host=text(event, "host"),
        action=text(event, "action"),
        verdict=text(event, "verdict"),
        why=text(event, "why"),
        reported_ms=time_ms(event.metadata, REPORTED_AT),
    )


def _with_decision(one: Incident, event: dg.AssetObservation) -> Incident:
    """Take in a later decision: what is asked, or would be, counts; that it is watched doesn't."""
    verdict = text(event, "verdict")
    if one.verdict == _ASKED or verdict not in (*_WOULD, _ASKED):
        return one
    would = verdict in _WOULD and text(event, "action") != NOTHING
    would_ms = one.would_ms or (time_ms(event.metadata, REPORTED_AT) if would else None)
    return replace(
        one, verdict=verdict, action=text(event, "action"), would_ms=would_ms if would else None
    )


def _ended(one: Incident, event: dg.AssetObservation) -> Incident:
    return replace(
        one,
        outcome=text(event, "outcome") or Resolution.UNKNOWN.value,
        done=text(event, "done"),
        done_ms=time_ms(event.metadata, DONE_AT) or None,
        over_ms=time_ms(event.metadata, WELL_AT) or time_ms(event.metadata, REPORTED_AT),
    )
