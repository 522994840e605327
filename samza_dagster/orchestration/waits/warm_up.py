"""The wait for one standby within a run: looks at its lag until its reports have shown it small for long enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samza_dagster.errors import ActionFailed
from samza_dagster.orchestration.moves import CatchUp
from samza_dagster.orchestration.ticks import elapsed_ms
from samza_dagster.orchestration.waits.conditions import (
    Met,
    Reported,
    Wait,
    Watched,
    look,
    told,
)
from samza_dagster.orchestration.waits.heartbeat import Heartbeat

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

SAMPLE_S = 2.0


@dataclass
class WarmUp:
    """Looks at one standby's lag; `samples` are (ms, the most that any of its stores is behind)."""

    client: PlacementClient
    standby: str
    bounds: CatchUp
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = elapsed_ms
    log: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.samples: list[tuple[int, int | None]] = []
        self._deadline_ms = self.now_ms() + round(self.bounds.timeout_s * 1000)

    @property
    def left_ms(self) -> int:
        """How long it may take yet."""
        return max(0, self._deadline_ms - self.now_ms())

    def run(self, in_run_s: float | None = None, seen: Met | None = None) -> int | None:
        """For how many ms it has been steady; None when `in_run_s` is over first.

        `seen` is what was seen of it between two runs: a standby that was steady then, and
        isn't behind now, is warm, and it has the time that this wait left. Raises `ActionFailed`
        when it takes too long, and for a standby that is gone.
        """
        began = self.now_ms()
        if seen is not None and self.standby in seen.left_ms:
            self._deadline_ms = began + seen.left_ms[self.standby]
        limit, steady_s = self.bounds.lag_limit, self.bounds.steady_s
        wait = Wait({self.standby: self.left_ms}, limit, steady_s, 0, "")
        watched: Watched | None = None
        beat = Heartbeat(self.log, self.now_ms)
        while True:
            if self.standby not in self.client.view().processors:
                raise ActionFailed(
                    f"standby {self.standby} runs",
                    seen="it isn't in the job any more",
                    fix="launch a new run: it starts another one",
                )
            now_ms = self.now_ms()
            reported = Reported.by(self.client.lag())
            self.samples.append((now_ms, reported.lags.get(self.standby)))
            watched = look(wait, watched, reported, now_ms)
            steady_ms = watched.steady_ms(self.standby)
            if steady_ms is not None and seen is not None:
                steady_ms = max(steady_ms, seen.steady_ms.get(self.standby, 0))
            if steady_ms is not None and steady_ms >= steady_s * 1000:
                return steady_ms
            why = told(wait, watched, reported)
            if now_ms >= self._deadline_ms:
                raise ActionFailed(
                    f"standby {self.standby} is warm within {self.bounds.timeout_s:g} s",
                    seen=why if seen is None else f"{why}; between two runs: {seen.why}",
                    fix="re-execute this run from failure to wait on: the standby runs and catches up",
                )
            if in_run_s is not None and now_ms - began >= in_run_s * 1000:
                return None
            beat("not steady" if steady_ms is None else "steady", f"standby {why}")
            self.sleep(SAMPLE_S)
