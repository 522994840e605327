"""What a shadow's log adds up to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from samza_dagster.coordinator.shadow.episodes import Episode
from samza_dagster.coordinator.shadow.log import ShadowHistory


@dataclass(frozen=True)
class Downtimes:
    """Seconds of several downtimes."""

    count: int
    median_s: float
    most_s: float
    sum_s: float


@dataclass(frozen=True)
class Summary:
    """`kinds` and `ours` count events by kind and by what ours would have done.

    `samza` is Samza's measured downtime of actives, by kind and in all; `both` are the same of those events
    alone for which ours has a figure, and `expected` is that. `same_host` of `chosen` events, in which both
    chose a host, had one host. `listened_s` and `blind_s` add up all shadows of the log, of which
    `killed` wrote no closing record.
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
    episodes, spans = history.episodes, history.spans
    measured = [e for e in episodes if e.downtime_s is not None]
    kinds = Counter(e.kind for e in episodes)
    samza = {
        kind: known
        for kind in (*kinds, "all")
        if (known := _downtimes(_samza(e) for e in measured if kind in (e.kind, "all")))
    }
    figures = [e for e in measured if e.ours is not None and e.ours.expected_s is not None]
    chosen = [e for e in episodes if e.same_host is not None]
    return Summary(
        events=len(episodes),
        unfinished=sum(e.state != "over" for e in episodes),
        kinds=dict(sorted(kinds.items())),
        ours=dict(sorted(Counter(e.ours.action for e in episodes if e.ours is not None).items())),
        samza=samza,
        both=_downtimes(map(_samza, figures)),
        expected=_downtimes(
            e.ours.expected_s
            for e in figures
            if e.ours is not None and e.ours.expected_s is not None
        ),
        same_host=sum(e.same_host is True for e in chosen),
        chosen=len(chosen),
        listened_s=round(sum(span.listened_s for span in spans), 1),
        blind_s=round(sum(span.blind_s for span in spans), 1),
        shadows=len(spans),
        killed=sum(not span.ended for span in spans),
    )


def _samza(episode: Episode) -> float:
    return episode.downtime_s or 0.0


def _downtimes(seconds: Iterable[float]) -> Downtimes | None:
    known = list(seconds)
    if not known:
        return None
    return Downtimes(
        len(known), round(median(known), 1), round(max(known), 1), round(sum(known), 1)
    )
