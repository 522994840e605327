"""What became of each trouble that `auto_failover` told: what it would have asked, and what was done.

All of it is read from what the sensor told, so that no cursor can lose it. A trouble whose end wasn't
told is open, and counts as nothing else. Pure.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import dagster as dg

from samza_dagster.orchestration.show.pictures import WIDTH, box, picture, svg_of
from samza_dagster.orchestration.show.pictures import text as text_at
from samza_dagster.orchestration.show.tables import table_within
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.text import clock, in_words
from samza_dagster.orchestration.watch.outcomes import Resolution
from samza_dagster.orchestration.watch.policy import FailoverVerdict
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

SHOWN = 30
MOST_OF_TABLE = 30_000
COLUMNS: Mapping[str, str] = {
    "told at": "When it was told first, UTC.",
    "signal": "What looked bad.",
    "about": "Host, container, coordinator or job.",
    "verdict": "What became of the decision.",
    "would ask": "What it would ask, or did.",
    "outcome": "How it ended; open: it hasn't.",
    "what was done": "What was seen in the coordinator stream or in the reports.",
    "s until done": "From when it was told until that was seen.",
    "s sooner": "So long before that its own request would have been written; below 0: after it.",
}
_WOULD = (FailoverVerdict.ADVISE.value, FailoverVerdict.SHADOW.value)
_ASKED = (FailoverVerdict.ASK.value, FailoverVerdict.ADOPT.value)


@dataclass(frozen=True)
class Incident:
    """One trouble from its first report to its end. Times in ms since the epoch; None: not yet, or not known.

    `suspect` is the key of the trouble. `would_ms` is when its request would have been written, had
    the mode been `act`.
    """

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
    outcome: str = Resolution.OPEN.value
    done: str = ""
    done_ms: int | None = None
    over_ms: int | None = None

    @property
    def sooner_s(self) -> float | None:
        """From its request, had it been written, to what was done without it; None: no such thing."""
        if self.would_ms is None or self.done_ms is None:
            return None
        return (self.done_ms - self.would_ms) / 1000

    def to_json(self) -> dict[str, Any]:
        """All of it, with `sooner_s`."""
        return {**asdict(self), "sooner_s": self.sooner_s}


def incidents(events: Iterable[dg.AssetObservation], job: str) -> tuple[Incident, ...]:
    """Of what was told of a job, oldest first, the incidents in that order."""
    found: list[Incident] = []
    opened: dict[str, int] = {}
    for event in events:
        kind, suspect = event.tags.get(EVENT), text(event, "suspect")
        if text(event, "job") != job or not suspect:
            continue
        at = opened.get(suspect)
        if kind == DECIDED and at is None:
            opened[suspect] = len(found)
            found.append(_begun(event))
        elif kind == DECIDED and at is not None:
            found[at] = _reported_again(found[at], event)
        elif kind == RECOVERED and at is not None:
            found[at] = _ended(found[at], event)
            del opened[suspect]
    return tuple(found)


def summary(found: Sequence[Incident]) -> dict[str, Any]:
    """How many ended how, and how much sooner its requests would have been: the median, in s."""
    sooner = [s for one in found if (s := one.sooner_s) is not None]
    return {
        "incidents": len(found),
        "outcomes": dict(Counter(one.outcome for one in found)),
        "sooner_s_median": statistics.median(sooner) if sooner else None,
    }


def score_metadata(found: Sequence[Incident]) -> dict[str, Any]:
    """A table of the newest incidents, newest first, and a picture of them."""
    newest = found[: -SHOWN - 1 : -1]
    return {
        "score": table_within(
            [_row(one) for one in newest], tuple(COLUMNS), MOST_OF_TABLE, COLUMNS
        ),
        "score_picture": dg.MetadataValue.md(picture(_score_svg(newest), "score")),
    }


def _score_svg(found: Sequence[Incident]) -> str:
    """A line for each incident: from when it was told to what was done, or to its end."""
    row, left = 24, 420
    longest_ms = max((_lasted_ms(one) or 0 for one in found), default=0) or 1
    drawn = [text_at(20, 26, 16, f"from told to done, {in_words(longest_ms / 1000)} at most")]
    for line, one in enumerate(found):
        y, lasted_ms = 40 + line * row, _lasted_ms(one)
        share = 1.0 if lasted_ms is None else lasted_ms / longest_ms
        kind = _COLOURS.get(one.outcome, "p")
        said = f"{one.signal} {one.subject}"[:28]
        drawn += [
            text_at(20, y + 15, 12, f"{clock(one.reported_ms)} {said}"),
            box(kind, left, y + 2, max(4.0, share * (WIDTH - left - 20)), row - 6),
            text_at(left + 6, y + 15, 12, one.outcome),
        ]
    return svg_of(WIDTH, 52 + row * max(1, len(found)), "".join(drawn))


_COLOURS = {
    Resolution.OPEN.value: "d",
    Resolution.NOT_NEEDED.value: "o",
    Resolution.DONE_BY_COORDINATOR.value: "a",
    Resolution.DONE_ON_REQUEST.value: "s",
}


def _lasted_ms(one: Incident) -> int | None:
    until = one.done_ms if one.done_ms is not None else one.over_ms
    return None if until is None else until - one.reported_ms


def _row(one: Incident) -> dict[str, Any]:
    return {
        "told at": clock(one.reported_ms),
        "signal": one.signal,
        "about": one.subject,
        "verdict": one.verdict,
        "would ask": one.action,
        "outcome": one.outcome,
        "what was done": one.done or "-",
        "s until done": None if one.done_ms is None else (one.done_ms - one.reported_ms) / 1000,
        "s sooner": one.sooner_s,
    }


def _begun(event: dg.AssetObservation) -> Incident:
    begun = Incident(
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
    return _reported_again(begun, event)


def _reported_again(one: Incident, event: dg.AssetObservation) -> Incident:
    """A later decision on it: what is asked, or would be, counts; that it is watched doesn't."""
    verdict = text(event, "verdict")
    if one.verdict in _ASKED or verdict not in (*_WOULD, *_ASKED):
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
