"""The shadow's log: JSON lines, appended, that a kill may cut short anywhere, and what they add up to.

A line has an `event` that is over, or tells for how long a shadow has `listened` so far: of several
that one shadow wrote the last counts.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter, ValidationError

from samza_dagster.coordinator.shadow.events import UNFINISHED, ShadowEvent
from samza_dagster.errors import InvalidInput, MalformedRecord

VERSION = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Span:
    """How long one shadow listened. Times are ms since the epoch, by its clock.

    `blind_s` is the part in which the brokers didn't answer. `why` it ended in order; empty while
    it goes on.
    """

    began_ms: int
    last_ms: int
    listened_s: float = 0.0
    blind_s: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class _Line:
    version: int
    job: str
    event: ShadowEvent | None = None
    listened: Span | None = None


_LINE = TypeAdapter(_Line)


@dataclass(frozen=True)
class ShadowHistory:
    """A whole log: each shadow's span, and the events in the order in which they were over.

    `unreadable` names lines that can't be read.
    """

    spans: tuple[Span, ...]
    events: tuple[ShadowEvent, ...]
    unreadable: tuple[str, ...] = ()


class ShadowLog:
    """Appends lines to a file. Each is with the kernel when a call returns; raises `OSError`."""

    def __init__(self, path: Path, job: str) -> None:
        """Open the file; raises `InvalidInput` for one that can't be written."""
        self._job = job
        try:
            self._out = path.open("ab", buffering=0)
        except OSError as error:
            raise InvalidInput(
                f"write the shadow's log to {path}",
                seen=str(error),
                fix="a file that can be written",
            ) from error
        self._out.write(b"\n")  # an earlier shadow may have been killed within a line

    def add_span(self, span: Span) -> None:
        """Log that the shadow has listened for so long."""
        rounded = replace(
            span, listened_s=round(span.listened_s, 1), blind_s=round(span.blind_s, 1)
        )
        self._write(listened=asdict(rounded))

    def event(self, event: ShadowEvent) -> None:
        """Log an event that is over, or that the shadow's end cuts off."""
        self._write(event=event.to_json())

    def close(self) -> None:
        """Close the file."""
        self._out.close()

    def _write(self, **content: Any) -> None:
        line = {"version": VERSION, "job": self._job, **content}
        left = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        while left:
            left = left[self._out.write(left) or 0 :]


def read_history(path: Path, since_ms: int = 0) -> ShadowHistory:
    """Read a log; what began before `since_ms`, and spans that had ended by then, are left out.

    A torn line is skipped, with a warning. Raises `InvalidInput` for a file that can't be read, and
    `MalformedRecord` for a line of another release.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(
            f"read {path}", seen=str(error.strerror), fix="the file of coordinator run --shadow-log"
        ) from error
    spans: dict[int, Span] = {}
    events: list[ShadowEvent] = []
    unreadable: list[str] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _LINE.validate_json(text)
        except ValidationError as error:
            unreadable.append(f"line {number}: {error.errors()[0]['msg']}")
            _log.warning("%s: skipped %s", path, unreadable[-1])
            continue
        if line.version != VERSION:
            raise MalformedRecord(
                f"read {path}",
                seen=f"line {number}: version {line.version}",
                fix="the samza_dagster that wrote it",
            )
        if line.event is not None and line.event.noticed_ms >= since_ms:
            events.append(line.event)
        if line.listened is not None and line.listened.last_ms >= since_ms:
            spans[line.listened.began_ms] = line.listened
    return ShadowHistory(tuple(spans.values()), tuple(events), tuple(unreadable))


@dataclass(frozen=True)
class Downtimes:
    """Seconds of several downtimes."""

    count: int
    median_s: float
    most_s: float
    sum_s: float

    @classmethod
    def of(cls, seconds: Iterable[float | None]) -> Downtimes | None:
        """Return those that are known; None where none is."""
        known = [each for each in seconds if each is not None]
        if not known:
            return None
        median_s, most_s = round(median(known), 1), round(max(known), 1)
        return cls(len(known), median_s, most_s, round(sum(known), 1))


@dataclass(frozen=True)
class Summary:
    """`kinds` and `ours` count events by kind and by what ours would have done.

    `samza` is Samza's measured downtime of actives, by kind and in all; `both` are the same of
    those events alone for which ours has a figure, and `expected` is that. `same_host` of `chosen`
    events, in which both chose a host, had one host. `listened_s` and `blind_s` add up all shadows
    of the log, of which `killed` wrote no closing record.
    """

    events: int
    unfinished: int
    kinds: Mapping[str, int]
    ours: Mapping[str, int]
    samza: Mapping[str, Downtimes]
    both: Downtimes | None
    expected: Downtimes | None
    same_host: int
    chosen: int
    listened_s: float
    blind_s: float
    shadows: int
    killed: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def summary(history: ShadowHistory) -> Summary:
    """Sum up a log."""
    events, spans = history.events, history.spans
    kinds = Counter(e.kind for e in events)
    samza = {
        kind: known
        for kind in (*kinds, "all")
        if (known := Downtimes.of(e.downtime_s for e in events if kind in (e.kind, "all")))
    }
    decided = [e.ours for e in events if e.ours is not None]
    compared = [
        (e.downtime_s, e.ours.expected_s)
        for e in events
        if e.downtime_s is not None and e.ours is not None and e.ours.expected_s is not None
    ]
    chosen = [e.same_host for e in events if e.same_host is not None]
    return Summary(
        events=len(events),
        unfinished=sum(e.state == UNFINISHED for e in events),
        kinds=dict(sorted(kinds.items())),
        ours=dict(sorted(Counter(each.action for each in decided).items())),
        samza=samza,
        both=Downtimes.of(samzas for samzas, _ in compared),
        expected=Downtimes.of(ours for _, ours in compared),
        same_host=sum(chosen),
        chosen=len(chosen),
        listened_s=round(sum(span.listened_s for span in spans), 1),
        blind_s=round(sum(span.blind_s for span in spans), 1),
        shadows=len(spans),
        killed=sum(not span.why for span in spans),
    )
