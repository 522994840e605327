"""How a changelog grows and how a standby follows it, as functions of time in ms."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from tests.rig.fleets.tempo import EVEN, Tempo

_LONGEST_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Changelog:
    """One partition: `end_at_start` at time 0, then `per_s` offsets a second.

    `anew_ms`: the topic is deleted then and made again, so that its offsets begin at 0.
    `records_per_offset` is below 1 where compaction or transaction markers have left offsets
    without a record. Without a `has_leader` nobody can ask for its end. `tempo` is how its rate varies.
    """

    beginning: int = 0
    end_at_start: int = 0
    per_s: int = 0
    anew_ms: int | None = None
    records_per_offset: float = 1.0
    has_leader: bool = True
    tempo: Tempo = EVEN

    def beginning_at(self, at_ms: int) -> int:
        """The first offset that is still there."""
        return 0 if self._is_anew(at_ms) else self.beginning

    def end_at(self, at_ms: int) -> int:
        """The offset of the next record."""
        if self._is_anew(at_ms):
            assert self.anew_ms is not None
            return self._written(self.anew_ms, at_ms)
        return self.end_at_start + self._written(0, at_ms)

    def _written(self, since_ms: int, at_ms: int) -> int:
        passed = self.tempo.passed(at_ms) - self.tempo.passed(since_ms)
        return int(self.per_s * passed // 1000)

    def _is_anew(self, at_ms: int) -> bool:
        return self.anew_ms is not None and at_ms >= self.anew_ms


@dataclass(frozen=True, slots=True)
class Restore:
    """One process of a standby: from `began_ms` on it applies from offset `first`, `per_s` a second.

    Once at the end it follows it. `stands_ms`: it reports on and applies nothing from then.
    `ends_ms`: its process is dead from then. It knows nothing of a topic made anew: it keeps the
    offset of the former one.
    """

    changelog: Changelog
    began_ms: int
    first: int
    per_s: int
    stands_ms: int | None = None
    ends_ms: int | None = None
    tempo: Tempo = EVEN

    def applied_at(self, at_ms: int) -> int | None:
        """The last offset applied; None before the first."""
        until = at_ms if self.stands_ms is None else min(at_ms, self.stands_ms)
        if self.changelog.anew_ms is not None:
            until = min(until, self.changelog.anew_ms - 1)
        applied = min(self._following(until), self.changelog.end_at(until)) - 1
        return applied if applied >= self.changelog.beginning else None

    def caught_up_ms(self) -> int | None:
        """When nothing is left for the first time; None: it never gets there."""
        left = self.changelog.end_at(self.began_ms) - self.first
        if left <= 0:
            return self.began_ms
        at_ms = self._meets_ms(left)
        stops = (self.stands_ms, self.changelog.anew_ms, self.ends_ms)
        if at_ms is None or any(stop is not None and stop < at_ms for stop in stops):
            return None
        return at_ms

    def _following(self, at_ms: int) -> int:
        """The offset that it would apply next if the changelog had no end."""
        passed = self.tempo.passed(max(at_ms, self.began_ms)) - self.tempo.passed(self.began_ms)
        return self.first + int(self.per_s * passed // 1000)

    def _meets_ms(self, left: int) -> int | None:
        """When it gets to the end: at even rates by division, else by looking at each of their courses."""
        if not (self.tempo.spread or self.changelog.tempo.spread):
            gains = self.per_s - self.changelog.per_s
            return self.began_ms + math.ceil(1000 * left / gains) if gains > 0 else None
        step = self.tempo.every_ms
        for before in range(self.began_ms, self.began_ms + _LONGEST_MS, step):
            if self._is_at_end(before + step):
                within = range(before, before + step)
                return before + bisect_left(within, True, key=self._is_at_end)
        return None

    def _is_at_end(self, at_ms: int) -> bool:
        return self._following(at_ms) >= self.changelog.end_at(at_ms)
