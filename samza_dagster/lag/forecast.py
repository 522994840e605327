"""From how a replica has been applying: when it will have caught up, and whether it stands still. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median


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
        """Records still to apply, at least 0."""
        return max(0, self.end - self.applied)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Time until ready, in ms from the newest sample, and the interval it should lie in.

    `ready_in_ms` None: it makes no headway. `latest_ms` None: it has paused between
    two samples, so no latest time can be named.
    """

    ready_in_ms: int | None
    soonest_ms: int | None
    latest_ms: int | None


READY = Forecast(0, 0, 0)
NEVER = Forecast(None, None, None)


def time_to_ready(samples: Sequence[Applied]) -> Forecast | None:
    """When nothing will be left, as the samples' rates go on and nothing more is written.

    The middle one of the rates between neighbours gives the time, the fastest and the
    slowest its interval. Samples come in order of time; those
    of equal time count once. None when that isn't known: no sample, or one that isn't
    ready and no other in which it had anything to apply.
    """
    ordered = [s for s, after in pairwise(samples) if after.at_ms > s.at_ms] + list(samples[-1:])
    if not ordered:
        return None
    left = ordered[-1].behind
    if left == 0:
        return READY
    rates = [
        (after.applied - before.applied) / (after.at_ms - before.at_ms)
        for before, after in pairwise(ordered)
        if not _was_idle(before, after)
    ]
    if not rates:
        return None
    typical, slowest, fastest = median(rates), min(rates), max(rates)
    if fastest <= 0:
        return NEVER
    return Forecast(
        ready_in_ms=_time(left, typical),
        soonest_ms=_time(left, fastest),
        latest_ms=_time(left, slowest),
    )


def last_of(forecasts: Iterable[Forecast | None]) -> Forecast | None:
    """When all parts of a replica are ready; None when it isn't known of one of them.

    A part that makes no headway, or has no latest time, stands for the whole.
    """
    parts = list(forecasts)
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    return Forecast(
        ready_in_ms=_last(part.ready_in_ms for part in known),
        soonest_ms=_last(part.soonest_ms for part in known),
        latest_ms=_last(part.latest_ms for part in known),
    )


def stands_since(before: Applied | None, newest: Applied) -> Applied | None:
    """The first sample since which nothing was applied; None for one that has caught up.

    `before` is what this gave for the sample before.
    """
    if newest.behind == 0:
        return None
    if before is None or before.applied != newest.applied:
        return newest
    return before


def stalled_for_ms(since: Applied | None, newest: Applied) -> int:
    """How long it has applied nothing while its changelog grew; `since` of `stands_since`.

    A changelog that doesn't grow proves nothing: its last offsets may be transaction
    markers, which nobody ever applies.
    """
    if since is None or newest.end <= since.end:
        return 0
    return newest.at_ms - since.at_ms


def _was_idle(before: Applied, after: Applied) -> bool:
    return before.behind == 0 and after.applied == before.applied


def _time(left: int, rate: float) -> int | None:
    return round(left / rate) if rate > 0 else None


def _last(times: Iterable[int | None]) -> int | None:
    latest = 0
    for time in times:
        if time is None:
            return None
        latest = max(latest, time)
    return latest
