"""What became of former forecasts: how far they were off, and what follows for the next ones. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from samza_dagster.lag.forecasting import LEAST_SPREAD, Applied, Errors, Forecast

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
