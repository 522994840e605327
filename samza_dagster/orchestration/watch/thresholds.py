"""From when on something looks bad to `auto_failover`; what definitions load of it, apart from its memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from samza_dagster.lag import silent_after_ms
from samza_dagster.orchestration.watch.hysteresis import Hysteresis

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on something looks bad, and how often it must. Times in ms."""

    bad_looks: int = 3
    bad_within_ms: int = 60_000
    good_looks: int = 3
    host_silent_ms: int = 12_000
    report_silent_ms: int = 90_000
    backlog_records: int = 10_000
    stuck_ms: int = 180_000
    growing_commits: int = 3
    growing_ms: int = 60_000
    standby_behind_records: int = 1_000
    standby_stands_ms: int = 240_000
    standby_down_ms: int = 300_000
    leader_beats: int = 3

    @property
    def hysteresis(self) -> Hysteresis:
        """How often something must look bad, and good again."""
        return Hysteresis(self.bad_looks, 0, self.good_looks, self.bad_within_ms)

    def for_reports(self, patience_ms: int, *, ours: bool) -> Thresholds:
        """The same for a job that reports thrice within `patience_ms`; 0: how often isn't known.

        A container is silent after `silent_after_ms`: so it is told within three intervals. Under
        Samza's AM (not `ours`) nobody else looks after a standby that stands: two reports in turn of
        one offset count, a minute apart or nearly that.
        """
        silent_ms = max(self.report_silent_ms, silent_after_ms(patience_ms))
        stands_ms = self.standby_stands_ms
        if not ours:
            stands_ms = min(stands_ms, max(_MINUTE_MS, patience_ms // 3) * 3 // 4)
        return replace(self, report_silent_ms=silent_ms, standby_stands_ms=stands_ms)
