"""From how a replica has been applying: when it will have caught up, with a 90 % interval. Pure.

Counted in offsets, and so are the rates: where compaction has left offsets without a record, both
are too large by the same factor, and their quotient is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean, median

_UNSEEN_SPREAD = 0.5
"""The part of a rate by which the next ones may differ, if only one interval tells the rate."""
LEAST_SPREAD = 0.01
"""No forecast is taken for better: a report's time and its offset aren't of one instant."""
_LONGEST_MS = 366 * 86_400_000
_NORMAL_95 = 1.645
_MOST_EXPONENT = 700.0
"""Of what `math.exp` can tell: a rate of so wide a spread may be anything."""
_CARRIED_OVER = math.sqrt(5)
"""What is slow now is slow a while: two thirds of a deviation carry over to the next interval, and so
averages deviate by the root of (1 + ⅔) ÷ (1 − ⅔) more."""
_BEYOND = _NORMAL_95 * _CARRIED_OVER
"""How many spreads the rate may be off: it is lower in 5 % of cases, and higher in 5 %."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Where one replica of one changelog partition stood.

    `applied` and `end` are offsets: of the next record to apply, of the next to be
    written. `at_ms` is of one clock for all samples of a replica, whichever that is.
    """

    at_ms: int
    applied: int
    end: int

    @property
    def behind(self) -> int:
        """Offsets still to apply, at least 0."""
        return max(0, self.end - self.applied)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a replica applies and its changelog is written, in offsets a second.

    `noise_per_s` is the standard deviation of what it gains in one of the `intervals` of `every_ms`
    that were seen.
    """

    apply_per_s: float
    write_per_s: float
    noise_per_s: float
    intervals: int
    every_ms: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Time until ready, in ms from the newest sample, and the interval that it lies in with 90 %.

    `ready_in_ms` None: it makes no headway. `latest_ms` None: it may make none, so that no latest
    time can be named. `spread` is the standard deviation of the rate behind it, as a part of that
    rate; None where none was needed.
    """

    ready_in_ms: int | None
    soonest_ms: int | None
    latest_ms: int | None
    spread: float | None = None


READY = Forecast(0, 0, 0)


def trend(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of points (x, y): the median of the slopes of all pairs (Theil–Sen); None of fewer than two.

    Up to three in ten points may be arbitrary without moving it far.
    """
    slopes = [
        (later[1] - before[1]) / (later[0] - before[0])
        for before, later in combinations(points, 2)
        if later[0] != before[0]
    ]
    return median(slopes) if slopes else None


def apply_rate(samples: Sequence[Applied]) -> float | None:
    """Offsets a second that it has been applying; None of fewer than two samples."""
    return trend(_by_seconds(samples, lambda one: one.applied))


def pace(samples: Sequence[Applied]) -> Pace | None:
    """How fast it has been applying, in order of time; None where fewer than two tell.

    Samples before it was last at the end tell nothing: there its changelog sets the pace.
    """
    # Those of equal time count once.
    ordered = [one for one, after in pairwise(samples) if after.at_ms > one.at_ms]
    ordered += samples[-1:]
    for index in range(len(ordered) - 1, 0, -1):
        before, after = ordered[index - 1 : index + 1]
        if before.behind == 0 and after.applied == before.applied:
            ordered = ordered[index:]
            break
    if len(ordered) < 2:
        return None
    apply, write = apply_rate(ordered), trend(_by_seconds(ordered, lambda one: one.end))
    assert apply is not None
    assert write is not None
    spans = [after.at_ms - before.at_ms for before, after in pairwise(ordered)]
    steps = zip(pairwise(ordered), spans, strict=True)
    gains = [1000 * (before.behind - after.behind) / span for (before, after), span in steps]
    net = apply - write
    noise = _UNSEEN_SPREAD * max(abs(net), abs(apply))
    if len(gains) > 1:
        noise = math.sqrt(sum((gain - net) ** 2 for gain in gains) / (len(gains) - 1))
    return Pace(apply, write, noise, len(gains), fmean(spans))


def forecast(
    left: int,
    known: Pace | None,
    *,
    ready_s: float = 0.0,
    writes_go_on: bool = True,
    start_ms: int = 0,
) -> Forecast | None:
    """Return when a replica that has `left` offsets to apply is ready: left ÷ (apply rate − write rate) + start.

    It is ready when it needs no more than `ready_s` for the rest. Without `writes_go_on` its active
    counts as dead, and nothing more is written, as for a takeover. None: no pace is known, and
    something is left.
    """
    goal = 0.0 if known is None else ready_s * known.apply_per_s
    if left <= goal:
        return READY if not start_ms else Forecast(start_ms, start_ms, start_ms)
    if known is None:
        return None
    net = known.apply_per_s - (known.write_per_s if writes_go_on else 0.0)
    distance = left - goal
    ahead = max(1.0, 1000 * distance / net / known.every_ms) if net > 0 else known.intervals
    deviation = known.noise_per_s * math.sqrt(1 / known.intervals + 1 / ahead)
    deviation = max(deviation * _student(known.intervals), LEAST_SPREAD * abs(net))

    def at(per_s: float) -> int | None:
        ms = 1000 * distance / per_s if per_s > 0 else math.inf
        return round(ms) + start_ms if ms < _LONGEST_MS else None

    if net <= 0:
        return Forecast(None, at(net + _BEYOND * deviation), None)
    spread = deviation / net
    fast = math.exp(min(_BEYOND * spread, _MOST_EXPONENT))
    return Forecast(at(net), at(net * fast), at(net * math.exp(-_BEYOND * spread)), spread)


def time_to_ready(
    samples: Sequence[Applied], *, ready_s: float = 0.0, writes_go_on: bool = True
) -> Forecast | None:
    """`forecast` for one that stood so: what the newest sample leaves, as fast as all of them tell.

    None when that isn't known: no sample, or one that isn't ready and no other in which it had
    anything to apply.
    """
    if not samples:
        return None
    left = samples[-1].behind
    known = pace(samples) if left else None
    return forecast(left, known, ready_s=ready_s, writes_go_on=writes_go_on)


def last_of(forecasts: Iterable[Forecast | None]) -> Forecast | None:
    """Return when all parts of a replica are ready; None if that isn't known of one of them.

    A part that makes no headway, or has no latest time, decides. The spread is that of the part that is
    ready last.
    """
    parts = list(forecasts)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    last = max(known, key=lambda part: _or_never(part.ready_in_ms), default=READY)
    return Forecast(
        last.ready_in_ms,
        max((part.soonest_ms for part in known), key=_or_never, default=0),
        max((part.latest_ms for part in known), key=_or_never, default=0),
        last.spread,
    )


def stalled_since(before: Applied | None, newest: Applied) -> Applied | None:
    """The first sample since which nothing was applied; None for one that has caught up.

    `before` is what this gave for the sample before.
    """
    if newest.behind == 0:
        return None
    if before is None or before.applied != newest.applied:
        return newest
    return before


def stalled_for_ms(since: Applied | None, newest: Applied) -> int:
    """Return how long it has applied nothing while its changelog grew; `since` of `stalled_since`.

    A changelog that doesn't grow proves nothing: its last offsets may be transaction markers, which are
    never applied.
    """
    if since is None or newest.end <= since.end:
        return 0
    return newest.at_ms - since.at_ms


def ready_at_ms(samples: Sequence[Applied], goal: float = 0.0) -> int | None:
    """When a replica was first at most `goal` offsets behind, of samples in order of time; None: it wasn't.

    Between two reports it is taken to have gained evenly.
    """
    if samples and samples[0].behind <= goal:
        return samples[0].at_ms
    for before, now in pairwise(samples):
        if now.behind <= goal:
            share = (before.behind - goal) / (before.behind - now.behind)
            return round(before.at_ms + share * (now.at_ms - before.at_ms))
    return None


def _by_seconds(
    samples: Sequence[Applied], of: Callable[[Applied], float]
) -> list[tuple[float, float]]:
    return [((one.at_ms - samples[0].at_ms) / 1000, of(one)) for one in samples]


def _student(intervals: int) -> float:
    """Return the factor that widens a deviation of so few intervals: Student's t at 95 % to the normal's."""
    free = max(1, intervals - 1)
    return 1 + (1.5 / free + 1.8 / free**2) / _NORMAL_95  # within 3 % from two on


def _or_never(ms: int | None) -> float:
    return math.inf if ms is None else ms
