"""The wait for one standby within a run: samples of its lag until it has been small and flat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.errors import ActionFailed
from samza_dagster.orchestration.moves import CatchUp
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.ticks import elapsed_ms
from samza_dagster.orchestration.waits.conditions import (
    Met,
    behind,
    lags_by_processor,
    reasons_unknown,
)
from samza_dagster.orchestration.waits.heartbeat import Heartbeat
from samza_dagster.readiness import Bounds, LagAt, Steadiness, steadiness

SAMPLE_S = 2.0


@dataclass
class WarmUp:
    """Samples of one standby's lag: the most that any of its stores is behind."""

    client: Placement
    standby: str
    bounds: CatchUp
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = elapsed_ms
    log: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.samples: list[LagAt] = []
        self._deadline_ms = self.now_ms() + round(self.bounds.timeout_s * 1000)

    @property
    def left_ms(self) -> int:
        """How long it may take yet."""
        return max(0, self._deadline_ms - self.now_ms())

    def run(self, in_run_s: float | None = None, seen: Met | None = None) -> Steadiness | None:
        """The verdict that says steady; None when `in_run_s` is over first.

        `seen` is what was seen of it between two runs: a standby that was steady then, and
        isn't behind now, is warm, and it has the time that this wait left. Raises `ActionFailed`
        when it takes too long, and for a standby that is gone.
        """
        limit = self.bounds.lag_limit
        bounds = Bounds(limit, limit, round(self.bounds.steady_s * 1000))
        began = self.now_ms()
        if seen is not None and self.standby in seen.left_ms:
            self._deadline_ms = began + seen.left_ms[self.standby]
        beat = Heartbeat(self.log, self.now_ms)
        while True:
            if self.standby not in self.client.view().processors:
                raise ActionFailed(
                    f"standby {self.standby} runs",
                    seen="it isn't in the job any more",
                    fix="launch a new run: it starts another one",
                )
            now_ms = self.now_ms()
            replicas = self.client.lag()
            records = lags_by_processor(replicas).get(self.standby)
            self.samples.append(LagAt(now_ms, records))
            verdict = steadiness(self.samples, now_ms, bounds)
            if not verdict.steady and seen is not None and self._was_steady(seen, records):
                held = seen.steady_ms[self.standby]
                return Steadiness(True, held, f"seen between two runs: {seen.why}")
            if verdict.steady:
                return verdict
            if now_ms >= self._deadline_ms:
                why = verdict.why_not
                raise ActionFailed(
                    f"standby {self.standby} is warm within {self.bounds.timeout_s:g} s",
                    seen=why if seen is None else f"{why}; between two runs: {seen.why}",
                    fix="re-execute this run from failure to wait on: the standby runs and catches up",
                )
            if in_run_s is not None and now_ms - began >= in_run_s * 1000:
                return None
            left = (self._deadline_ms - now_ms) / 1000
            reason = reasons_unknown(replicas).get(self.standby, "")
            beat(
                "steady" if verdict.steady_for_ms else "not steady",
                f"standby {self.standby}: {behind(records, reason)}; {verdict.why_not}; {left:.0f} s left",
            )
            self.sleep(SAMPLE_S)

    def _was_steady(self, seen: Met, records: int | None) -> bool:
        small = records is not None and records <= self.bounds.lag_limit
        return small and self.standby in seen.steady_ms
