"""One standby that is waited for: looked at until its reports have shown it small for long enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

from samza_dagster.orchestration.moves import CatchUp
from samza_dagster.orchestration.waits.conditions import Met, Reported, Wait, Watched, look, told


@dataclass
class WarmUp:
    """The wait for one standby. Times are by the clock of whoever looks.

    `seen` is what was seen of it between two runs: a standby that was steady then, and isn't behind
    now, is warm, and it has the time that this wait left.
    """

    standby: str
    wait: Wait
    within_s: float
    seen: Met | None = None
    line: str = ""
    watched: Watched | None = None

    @classmethod
    def of(
        cls, standby: str, bounds: CatchUp, seen: Met | None = None, *, is_new: bool = True
    ) -> WarmUp:
        """A wait that begins now; one that isn't new has to be small once."""
        left_ms = seen.left_ms.get(standby) if seen is not None else None
        left_ms = round(bounds.timeout_s * 1000) if left_ms is None else left_ms
        steady_s = bounds.steady_s if is_new else 0.0
        wait = Wait({standby: left_ms}, bounds.lag_limit, steady_s, 0, "", bounds.lag_limit_s)
        return cls(standby, wait, bounds.timeout_s, seen)

    def look(self, reported: Reported, now_ms: int) -> None:
        """One more look at what it reported; `line` then tells of it."""
        self.watched = look(self.wait, self.watched, reported, now_ms)
        self.line = told(self.wait, self.watched, reported)

    @property
    def steady_ms(self) -> int | None:
        """How long it has been steady, at the last look and before this run; None while it isn't."""
        steady_ms = self.watched.steady_ms(self.standby) if self.watched is not None else None
        before_ms = self.seen.steady_ms.get(self.standby, 0) if self.seen is not None else 0
        return None if steady_ms is None else max(steady_ms, before_ms)

    @property
    def is_warm(self) -> bool:
        """It has been steady for long enough."""
        return self.steady_ms is not None and self.steady_ms >= self.wait.steady_s * 1000

    @property
    def rest(self) -> Wait:
        """What is left of the wait after the last look."""
        if self.watched is None:
            return self.wait
        return replace(self.wait, left_ms=self.watched.left_ms(self.wait))

    @property
    def is_too_late(self) -> bool:
        """Its time is over."""
        return not self.rest.left_ms[self.standby]
