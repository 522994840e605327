"""When something that looks bad counts, and when it is over: one rule for every sensor that judges. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

SAME_LOOK_MS = 400
"""Two looks closer together than this count once."""
MOST_COUNTED = 1_000
"""Bad looks: no rule asks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for something that has looked bad since `since_ms`; `confirmed`: it counts.

    `bad` are its bad looks, `bad_ms` the times of the newest where the rule asks for them, `good` the
    good looks since.
    """

    since_ms: int
    bad: int = 0
    bad_ms: tuple[int, ...] = ()
    good: int = 0
    confirmed: bool = False


E = TypeVar("E", bound=Evidence)


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """It counts after `looks` bad looks over `for_ms`, and is over after `good_looks` in turn.

    With `within_ms` the newest bad looks count where they lie within it, and a good one among them
    clears none. Without (None) they are bad looks in turn: a good one begins it anew until it counts.
    """

    looks: int = 2
    for_ms: int = 0
    good_looks: int = 2
    within_ms: int | None = None

    def after_bad(self, one: E, now_ms: int, *, counts: bool) -> E:
        """The same after one more bad look; the first counts in any case."""
        bad, bad_ms = one.bad, one.bad_ms
        if counts or not bad:
            bad = min(bad + 1, MOST_COUNTED)
            bad_ms = () if self.within_ms is None else (*bad_ms, now_ms)[-self.looks :]
        # What needs no time isn't held back by a clock that was set back since it began.
        enough = bad >= self.looks and max(0, now_ms - one.since_ms) >= self.for_ms
        if self.within_ms is not None and enough:
            # By the first and the last of the times: the clock may have been set back between two.
            enough = len(bad_ms) >= self.looks and max(bad_ms) - min(bad_ms) <= self.within_ms
        confirmed = one.confirmed or enough
        return replace(one, bad=bad, bad_ms=bad_ms, good=0, confirmed=confirmed)

    def after_good(self, one: E, *, counts: bool) -> E:
        """The same after one more good look."""
        return replace(one, good=one.good + counts)

    def is_over(self, one: Evidence) -> bool:
        """Whether enough good looks have ended it, or any did before it counted."""
        begins_anew = self.within_ms is None and not one.confirmed
        return begins_anew or one.good >= self.good_looks


def is_another_look(former_ms: int, now_ms: int) -> bool:
    """Whether a look counts beside the last one that did; also by a clock that was set back since."""
    return not 0 <= now_ms - former_ms < SAME_LOOK_MS
