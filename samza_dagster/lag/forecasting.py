"""From how a replica has been applying: when it will have caught up, with a 90 % interval, and a back-test. Pure.

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
"""Of a rate that one interval alone tells: by what part of it the next ones may differ."""
LEAST_SPREAD = 0.01
"""No forecast is taken for better: a report's time and its offset aren't of one instant."""
_LONGEST_MS = 366 * 86_400_000
_NORMAL_95 = 1.645
_MOST_EXPONENT = 700.0
"""Of what `math.exp` can tell: a rate of so wide a spread may be anything."""
_CARRIED_OVER = math.sqrt(3)
"""What is slow now is slow a while: of a deviation half carries over to the next interval, and so
averages deviate by the root of (1 + ½) ÷ (1 − ½) more."""


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
class Errors:
    """How far past forecasts were off, in their own spreads: 5 % were lower, 5 % higher.

    `low` and `high` belong to the rate: one that was too small makes a time that was too long. None
    known: those of a normal distribution.
    """

    low: float
    high: float


_UNLEARNED = Errors(-_NORMAL_95 * _CARRIED_OVER, _NORMAL_95 * _CARRIED_OVER)


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
NEVER = Forecast(None, None, None)


def trend(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of points (x, y), by the median of those of all pairs (Theil–Sen); None of fewer than two.

    Up to three in ten points may be anything without moving it far.
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
    catching_up = _since_at_end(_in_order(samples))
    if len(catching_up) < 2:
        return None
    apply, write = apply_rate(catching_up), trend(_by_seconds(catching_up, lambda one: one.end))
    assert apply is not None
    assert write is not None
    spans = [(after.at_ms - before.at_ms) for before, after in pairwise(catching_up)]
    gains = [
        1000 * (before.behind - after.behind) / span
        for (before, after), span in zip(pairwise(catching_up), spans, strict=True)
    ]
    return Pace(apply, write, _noise(gains, apply - write, apply), len(gains), fmean(spans))


def forecast(
    left: int,
    known: Pace | None,
    *,
    ready_s: float = 0.0,
    writes_go_on: bool = True,
    start_ms: int = 0,
    errors: Errors | None = None,
) -> Forecast | None:
    """When a replica that has `left` offsets to apply is ready: left ÷ (apply rate − write rate) + start.

    Ready is one that needs no more than `ready_s` for what is left by then. Without `writes_go_on`
    its active is taken for dead, and nothing more is written: what a takeover waits for. `errors`
    are those of past forecasts (`back_test`). None: no pace is known, and something is left.
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
    expected = errors or _UNLEARNED
    if net <= 0:
        soonest = _time(distance, net + expected.high * deviation, start_ms)
        return Forecast(None, soonest, None)
    spread = deviation / net
    return Forecast(
        ready_in_ms=_time(distance, net, start_ms),
        soonest_ms=_time(
            distance, net * math.exp(min(expected.high * spread, _MOST_EXPONENT)), start_ms
        ),
        latest_ms=_time(distance, net * math.exp(expected.low * spread), start_ms),
        spread=spread,
    )


def time_to_ready(
    samples: Sequence[Applied],
    *,
    ready_s: float = 0.0,
    writes_go_on: bool = True,
    errors: Errors | None = None,
) -> Forecast | None:
    """`forecast` for one that stood so: what the newest sample leaves, as fast as all of them tell.

    None when that isn't known: no sample, or one that isn't ready and no other in which it had
    anything to apply.
    """
    if not samples:
        return None
    left = samples[-1].behind
    known = pace(samples) if left else None
    return forecast(left, known, ready_s=ready_s, writes_go_on=writes_go_on, errors=errors)


def last_of(forecasts: Iterable[Forecast | None]) -> Forecast | None:
    """When all parts of a replica are ready; None when it isn't known of one of them.

    A part that makes no headway, or has no latest time, stands for the whole. The spread is that
    of the part that is ready last.
    """
    parts = list(forecasts)
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    last = max(known, key=lambda part: _or_never(part.ready_in_ms), default=READY)
    return Forecast(
        ready_in_ms=_last(part.ready_in_ms for part in known),
        soonest_ms=_last(part.soonest_ms for part in known),
        latest_ms=_last(part.latest_ms for part in known),
        spread=last.spread,
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
    """How long it has applied nothing while its changelog grew; `since` of `stalled_since`.

    A changelog that doesn't grow proves nothing: its last offsets may be transaction
    markers, which nobody ever applies.
    """
    if since is None or newest.end <= since.end:
        return 0
    return newest.at_ms - since.at_ms


LEAST_PAST = 40
"""Forecasts that must have come true, or not, before the next ones are widened or narrowed by them."""


@dataclass(frozen=True, slots=True)
class Past:
    """A forecast that was kept, and what came: the ms from then until it was ready.

    `came_ms` None: it isn't ready `open_ms` later, at the newest sample of that process.
    """

    forecast: Forecast
    came_ms: int | None
    open_ms: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of a replica at one snapshot, which `made_ms` is the newest report of.

    `ready_since_ms` is when this process was within the bound first, as far as its reports of then
    tell (`ReplicaReadiness`); None: it wasn't.
    """

    made_ms: int
    process: str
    forecast: Forecast | None
    ready_since_ms: int | None


@dataclass(frozen=True, slots=True)
class PastError:
    """How good the forecasts were of which it can be told.

    `within` is the share that came within its interval, which should be 0.9. `off` is the median
    of how far the time forecast was from the time that it took, as a part of that. `late` is the share
    that took longer than the latest time. All None while `judged` is 0. `errors` is what the next
    forecasts go by, None while there are too few.
    """

    judged: int
    within: float | None
    off: float | None
    late: float | None
    errors: Errors | None


def ready_at_ms(samples: Sequence[Applied], since_ms: int, goal: float = 0.0) -> int | None:
    """When a replica was first at most `goal` offsets behind, of samples in order of time; None: it wasn't.

    Between two reports it is taken to have gained evenly.
    """
    after = [sample for sample in samples if sample.at_ms >= since_ms]
    if after and after[0].behind <= goal:
        return after[0].at_ms
    for before, now in pairwise(after):
        if now.behind <= goal:
            share = (before.behind - goal) / (before.behind - now.behind)
            return round(before.at_ms + share * (now.at_ms - before.at_ms))
    return None


def pasts(kept: Sequence[Kept]) -> list[Past]:
    """What came of each forecast of one replica; `kept` is all of it, in order of time.

    Of another process nothing follows: one that was moved or lost its disk began anew.
    """
    found: list[Past] = []
    for number, one in enumerate(kept):
        if one.forecast is None:
            continue
        later = [other for other in kept[number + 1 :] if other.process == one.process]
        ready = (o.ready_since_ms for o in later if o.ready_since_ms is not None)
        came_ms = min((ms - one.made_ms for ms in ready if ms >= one.made_ms), default=None)
        open_ms = max((other.made_ms - one.made_ms for other in later), default=0)
        found.append(Past(one.forecast, came_ms, open_ms))
    return found


def back_test(kept: Iterable[Past]) -> PastError:
    """The error of former forecasts.

    Judged is each whose latest time is over: which of them are judged must not depend on what came,
    or the quick ones would be judged first and make the next forecasts too short. One that has no
    latest time is judged when it has come; one that said never, or ready, isn't.
    """
    judged = [one for one in kept if _is_due(one)]
    if not judged:
        return PastError(0, None, None, None, None)
    late = sum(_is_late(one) for one in judged)
    early = sum(
        one.came_ms is not None and one.came_ms < (one.forecast.soonest_ms or 0) for one in judged
    )
    off = [
        abs((one.forecast.ready_in_ms or 0) - one.came_ms) / max(1, one.came_ms)
        for one in judged
        if one.came_ms is not None
    ]
    return PastError(
        judged=len(judged),
        within=1 - (late + early) / len(judged),
        off=median(off) if off else None,
        late=late / len(judged),
        errors=_errors(judged),
    )


def _by_seconds(
    samples: Sequence[Applied], of: Callable[[Applied], float]
) -> list[tuple[float, float]]:
    return [((one.at_ms - samples[0].at_ms) / 1000, of(one)) for one in samples]


def _in_order(samples: Sequence[Applied]) -> list[Applied]:
    """Those of equal time count once."""
    return [s for s, after in pairwise(samples) if after.at_ms > s.at_ms] + list(samples[-1:])


def _since_at_end(ordered: Sequence[Applied]) -> Sequence[Applied]:
    """From the last sample in which it was at the end and had applied all that was written."""
    for index in range(len(ordered) - 1, 0, -1):
        if _was_idle(ordered[index - 1], ordered[index]):
            return ordered[index:]
    return ordered


def _was_idle(before: Applied, after: Applied) -> bool:
    return before.behind == 0 and after.applied == before.applied


def _noise(gains: Sequence[float], typical: float, apply: float) -> float:
    """The standard deviation of what is gained in an interval."""
    if len(gains) == 1:
        return _UNSEEN_SPREAD * max(abs(typical), abs(apply))
    return math.sqrt(sum((gain - typical) ** 2 for gain in gains) / (len(gains) - 1))


def _student(intervals: int) -> float:
    """By what a deviation that so few intervals tell is to be widened: Student's t at 95 % to the normal's."""
    free = max(1, intervals - 1)
    return 1 + (1.5 / free + 1.8 / free**2) / _NORMAL_95  # within 3 % from two on


def _time(distance: float, per_s: float, start_ms: int) -> int | None:
    ms = 1000 * distance / per_s if per_s > 0 else math.inf
    return round(ms) + start_ms if ms < _LONGEST_MS else None


def _or_never(ms: int | None) -> float:
    return math.inf if ms is None else ms


def _last(times: Iterable[int | None]) -> int | None:
    latest = max((_or_never(time) for time in times), default=0)
    return None if latest == math.inf else int(latest)


def _is_due(one: Past) -> bool:
    forecast = one.forecast
    if not forecast.ready_in_ms or forecast.spread is None:
        return False
    if forecast.latest_ms is None:
        return one.came_ms is not None
    return max(one.open_ms, one.came_ms or 0) >= forecast.latest_ms


def _is_late(one: Past) -> bool:
    latest_ms = one.forecast.latest_ms
    return latest_ms is not None and (one.came_ms is None or one.came_ms > latest_ms)


def _errors(judged: Sequence[Past]) -> Errors | None:
    """The 5 % and the 95 % of the rates' errors, in the forecasts' own spreads."""
    if len(judged) < LEAST_PAST:
        return None
    scores = sorted(_score(one) for one in judged)
    # With one more to come: of n and it, so many are beyond in the long run.
    beyond = max(0, math.floor(0.05 * (len(scores) + 1)) - 1)
    return Errors(min(scores[beyond], 0.0), max(scores[-1 - beyond], 0.0))


def _score(one: Past) -> float:
    """By how many spreads the rate was larger than the forecast one, as a ratio; none at all: infinitely less."""
    spread = max(one.forecast.spread or 0.0, LEAST_SPREAD)
    if one.came_ms is None:
        return -math.inf
    return math.log((one.forecast.ready_in_ms or 1) / max(1, one.came_ms)) / spread
