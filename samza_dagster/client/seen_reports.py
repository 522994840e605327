"""Reports that this process has seen: when each was new, and between which two looks it came.

A partition of a metrics topic holds old reports until newer ones are written there. No clock tells
their age, except that of an observer that has seen when the last one was new. Only the ends that were
seen before and after tell where the changelog ended when a report came.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from samza_dagster.client.views import NO_OBSERVATION, JobView, ReplicaLag
from samza_dagster.lag import Heard, all_silent, heard, silent_after_ms


class _Came(NamedTuple):
    """A report, and the changelog's end at the look before the one that first saw it, and at that look."""

    mark: tuple[str, int | None]
    least_end: int
    most_end: int


class _Look(NamedTuple):
    """The newest look, at a deployment that was first seen at `began_ms`; why it counts as dead, or nothing."""

    deployment_id: str | None
    began_ms: int
    at_ms: int
    patience_ms: int
    silent: str


@dataclass
class SeenReports:
    """Reports seen by this process, by its monotonic clock. Thread-safe. A report seen first counts as of now."""

    _heard: Mapping[str, Heard] = field(default_factory=dict[str, Heard])
    _came: Mapping[tuple[str, str], _Came] = field(default_factory=dict[tuple[str, str], _Came])
    _ends: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _committed: Mapping[str, Heard] = field(default_factory=dict[str, Heard])
    _look: _Look | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def bounded(self, lags: Sequence[ReplicaLag]) -> tuple[ReplicaLag, ...]:
        """The lags, each by an end of its changelog between those of the two looks that saw its report come.

        So whatever clocks say, a lag is wrong by no more than was written between two looks. Nobody has
        seen how a report came that the first look found: that can only be no later than this look.
        """
        came: dict[tuple[str, str], _Came] = {}
        bounded: list[ReplicaLag] = []
        with self._lock:
            for lag in lags:
                if lag.basis != "metrics" or lag.end_offset is None or lag.lag is None:
                    bounded.append(lag)
                    continue
                key, mark = (lag.task_name, lag.store), (lag.execution_id, lag.observed_at_ms)
                known = self._came.get(key)
                if known is None or known.mark != mark:
                    before = self._ends.get((lag.changelog, lag.partition), 0)
                    known = _Came(mark, before, lag.end_offset + lag.written_since)
                came[key] = known
                bounded.append(_by_end(lag, known))
            self._came = came
            for lag in lags:
                if lag.end_offset is not None:
                    self._ends[lag.changelog, lag.partition] = lag.end_offset + lag.written_since
        return tuple(bounded)

    def judged(
        self,
        lags: Sequence[ReplicaLag],
        view: JobView,
        *,
        commits: int,
        now_s: float,
    ) -> tuple[ReplicaLag, ...]:
        """Return the lags, unknown with a reason after three of the job's intervals without news.

        `commits` is the offset of the job's newest commit.
        """
        deployment_id, patience_s = view.deployment_id, view.report_patience_s
        # A sum: of one with several reports any may be the new one, and be dated before the others.
        marks: dict[str, int | None] = {}
        for lag in lags:
            if lag.reported_ms is not None:
                marks[_source(lag)] = (marks.get(_source(lag)) or 0) + (lag.observed_at_ms or 0)
        now_ms, patience_ms = round(now_s * 1000), round(patience_s * 1000)
        with self._lock:
            known = self._heard = heard(self._heard, marks, now_ms)
            self._committed = heard(self._committed, {"": commits or None}, now_ms)
            former = self._look
            goes_on = former is not None and former.deployment_id == deployment_id
            began_ms = former.began_ms if former is not None and goes_on else now_ms
            silent = all_silent(
                known.values(),
                since_ms=began_ms,
                worked_ms=self._committed[""].at_ms,
                now_ms=now_ms,
                after_ms=silent_after_ms(patience_ms),
            )
            unread = any(lag.reason and not lag.is_changelog_lost for lag in lags)
            self._look = _Look(
                deployment_id, began_ms, now_ms, patience_ms, "" if unread else silent
            )
        return tuple(_as_of_now(lag, known, now_s, patience_s) for lag in self.bounded(lags))

    def silence(self, deployment_id: str | None, *, now_s: float) -> str | None:
        """Return how long all reporters of a deployment have been silent, once that is too long.

        None also if that isn't known: there was no recent look, or not everything could be read.
        """
        with self._lock:
            look = self._look
        if look is None or look.deployment_id != deployment_id:
            return None
        return look.silent or None if now_s * 1000 - look.at_ms <= look.patience_ms else None


def _by_end(lag: ReplicaLag, came: _Came) -> ReplicaLag:
    assert lag.end_offset is not None
    assert lag.lag is not None
    end = max(min(max(lag.end_offset, came.least_end), came.most_end), lag.end_offset - lag.lag)
    more = end - lag.end_offset
    return replace(
        lag, end_offset=end, lag=lag.lag + more, written_since=max(0, lag.written_since - more)
    )


def _as_of_now(
    lag: ReplicaLag, known: Mapping[str, Heard], now_s: float, patience_s: float
) -> ReplicaLag:
    reported = lag.reported_ms is not None
    silent_s = now_s - known[_source(lag)].at_ms / 1000 if reported else 0.0
    if silent_s <= patience_s:
        return lag
    why = f"{lag.processor_id} has reported nothing new for {silent_s:.0f} s"
    because = lag.unknown_because or NO_OBSERVATION
    why = lag.reason if lag.is_changelog_lost else why
    return replace(
        lag, lag=None, applied_offset=None, basis="none", reason=why, unknown_because=because
    )


def _source(lag: ReplicaLag) -> str:
    return f"{lag.processor_id} {lag.execution_id}"
