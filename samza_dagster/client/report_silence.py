"""Lags whose containers have reported nothing new for too long aren't told as of now.

A partition of a metrics topic holds old reports for as long as nobody writes a newer one there.
How old they are no clock tells but that of whoever has seen when the last one was new.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from samza_dagster.client.views import ReplicaLag
from samza_dagster.readiness import Heard, heard


@dataclass
class ReportSilence:
    """What one process has seen of one job's reports, and when by its monotonic clock. Thread-safe.

    What it sees for the first time counts as of now.
    """

    _heard: Mapping[str, Heard] = field(default_factory=dict[str, Heard])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def judged(
        self, lags: Sequence[ReplicaLag], *, now_s: float, patience_s: float
    ) -> tuple[ReplicaLag, ...]:
        """The lags; unknown, with the reason, of those without news for longer than `patience_s`."""
        # A sum: of one with several reports any may be the new one, and be dated before the others.
        marks: dict[str, int | None] = {}
        for lag in lags:
            if _is_reported(lag):
                marks[_source(lag)] = (marks.get(_source(lag)) or 0) + (lag.observed_at_ms or 0)
        with self._lock:
            known = self._heard = heard(self._heard, marks, round(now_s * 1000))
        return tuple(_as_of_now(lag, known, now_s, patience_s) for lag in lags)


def _as_of_now(
    lag: ReplicaLag, known: Mapping[str, Heard], now_s: float, patience_s: float
) -> ReplicaLag:
    silent_s = now_s - known[_source(lag)].at_ms / 1000 if _is_reported(lag) else 0.0
    if silent_s <= patience_s:
        return lag
    why = f"{lag.processor_id} has reported nothing new for {silent_s:.0f} s"
    return replace(lag, lag=None, applied_offset=None, basis="none", reason=why)


def _is_reported(lag: ReplicaLag) -> bool:
    return lag.basis != "checkpoint" and lag.observed_at_ms is not None


def _source(lag: ReplicaLag) -> str:
    return f"{lag.processor_id} {lag.execution_id}"
