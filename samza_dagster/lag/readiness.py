"""Judge whether a standby is ready, and when it will be, by reports of its replicas. Pure.

A standby is ready when its lag in seconds is small and doesn't grow, over a window. A lag in seconds is
the time that the replica would need to apply the remaining records if no new ones were written, as in a
takeover.

An operation waits for something else, a *steady* lag in records (`orchestration.plans.conditions`): a
wait may begin with a standby's first report. A status rests on a dozen of them, and tells a trend.

Times are those of the records that brought the reports, by the brokers. No sample has the time of a
host's own clock, so a wrong clock changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from samza_dagster.lag.forecasting import (
    Applied,
    Forecast,
    Pace,
    apply_rate,
    forecast,
    pace,
    ready_at_ms,
    stalled_for_ms,
    stalled_since,
    trend,
)
from samza_dagster.lag.records import records_behind

PACED_BY = 12
"""The newest reports of a replica that its pace is computed from."""
LEAST_SAMPLES = 3
"""Of two samples one may be anything, and nothing would show it."""


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """A report of a replica, and where its changelog began and ended when it came.

    `process` tells one process from another: its execution id, or its host where there is none.
    `applied_offset` is the last offset applied, None before the first.
    """

    came_ms: int
    process: str
    applied_offset: int | None
    beginning: int
    end: int


@dataclass(frozen=True, slots=True)
class Course:
    """The samples of a replica's newest process in the present changelog.

    `unknown_because` is the reason why its newest report gives no lag, in the words of the tables:
    `no-observation`, `beyond-end`. Empty: it gives one.
    """

    samples: tuple[Applied, ...] = ()
    unknown_because: str = ""


def course(reports: Iterable[ReplicaReport]) -> Course:
    """Return the comparable part of reports in order of time.

    Reports of another process tell nothing of the present one. Nor does progress on a topic that has
    been created again: its end, or what is applied, went back. Until the process applies anything of
    the new topic, it reports its former offset.
    """
    samples: list[Applied] = []
    newest: ReplicaReport | None = None
    of_former: int | None = None
    unknown = "no-observation"
    for report in reports:
        if newest is None or report.process != newest.process:
            samples.clear()
            of_former = None
        elif report.end < newest.end:
            samples.clear()
            went_back = (report.applied_offset or 0) < (newest.applied_offset or 0)
            of_former = None if went_back else report.applied_offset
        newest, applied = report, report.applied_offset
        lag = records_behind(report.beginning, report.end, applied)
        if lag is None or (lag and applied == of_former):
            samples.clear()
            unknown = "no-observation" if applied is None else "beyond-end"
            continue
        unknown = ""
        sample = Applied(report.came_ms, report.end - lag, report.end)
        if samples and sample.applied < samples[-1].applied:
            samples.clear()
        samples.append(sample)
    return Course(tuple(samples), unknown)


class StandbyStatus(StrEnum):
    """The status of a standby, or of one partition of it; the worst last."""

    READY = "ready"
    UNPROVEN = "unproven"
    GROWING = "growing"
    BEHIND = "behind"
    STALLED = "stalled"
    SILENT = "silent"
    UNKNOWN = "unknown"


_WORST = tuple(StandbyStatus)


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a standby counts as ready: at most `seconds` behind for `window_s`.

    `records` is for one that nothing is applied of and nothing is written to, which has no rate.
    `report_s` is its report interval: it is silent after three of them.
    """

    seconds: float = 10.0
    window_s: float = 30.0
    records: int = 1_000
    report_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement of one replica or standby: its status, why, and its lag in seconds.

    `lag_s` is the median over the window; None where no rate is known.
    """

    status: StandbyStatus
    why: str
    lag_s: float | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether it may take over now."""
        return self.status is StandbyStatus.READY


NO_CHANGELOG = Judgement(StandbyStatus.READY, "none of its stores has a changelog", 0.0)


@dataclass(frozen=True, slots=True)
class ReplicaReadiness:
    """The readiness of one store partition of a standby.

    `left` is in offsets, `ready` the time until the lag in seconds is within the bound while the changelog
    is written on. `pace` is None where none is known. `ready_since_ms` is when this process was within the
    bound first, by the times of the reports that are known.
    """

    judgement: Judgement
    left: int | None = None
    pace: Pace | None = None
    ready: Forecast | None = None
    ready_since_ms: int | None = None


def replica_readiness(
    reports: Iterable[ReplicaReport],
    bounds: Bounds,
    *,
    silent_ms: int = 0,
    reason: str = "",
) -> ReplicaReadiness:
    """Judge one store partition by its reports, in order of time; `silent_ms` and `reason` are those of `judge`."""
    known = course(reports)
    verdict = judge(known, silent_ms, bounds, reason)
    if verdict.status in (StandbyStatus.UNKNOWN, StandbyStatus.SILENT):
        return ReplicaReadiness(verdict)
    left, its_pace = known.samples[-1].behind, pace(known.samples[-PACED_BY:])
    goal = bounds.seconds * its_pace.apply_per_s if its_pace is not None else 0.0
    return ReplicaReadiness(
        verdict,
        left,
        its_pace,
        forecast(left, its_pace, ready_s=bounds.seconds),
        ready_at_ms(known.samples, goal),
    )


def judge(known: Course, silent_ms: int, bounds: Bounds, reason: str = "") -> Judgement:
    """Judge one replica of one changelog partition.

    `silent_ms` is how long ago its newest report came: by the brokers' times of it and of the newest
    record that they have, or by the observer's own clock since it saw it come (`heard`). `reason`: why
    its changelog can't be read, as for want of a leader.
    """
    if silent_ms > 3000 * bounds.report_s:
        return Judgement(
            StandbyStatus.SILENT,
            f"its newest report came {silent_ms / 1000:,.0f} s ago, and it reports every"
            f" {bounds.report_s:g} s",
        )
    why_unknown = reason or known.unknown_because or ("" if known.samples else "no-observation")
    if why_unknown:
        return Judgement(StandbyStatus.UNKNOWN, f"its lag isn't known: {why_unknown}")
    since: Applied | None = None
    for sample in known.samples:
        since = stalled_since(since, sample)
    stalled_ms = stalled_for_ms(since, known.samples[-1])
    if stalled_ms > 0 and stalled_ms >= 1000 * min(bounds.window_s, 2 * bounds.report_s):
        return Judgement(
            StandbyStatus.STALLED,
            f"it has applied nothing for {stalled_ms / 1000:,.0f} s while its changelog grew,"
            f" {known.samples[-1].behind:,} offsets behind",
        )
    return _judged(known.samples, bounds)


def of_standby(parts: Mapping[str, Judgement]) -> Judgement:
    """Judge a whole standby by its worst part; of several, by the one furthest behind.

    If none of its stores has a changelog, it has nothing to restore.
    """
    if not parts:
        return NO_CHANGELOG
    name, worst = max(
        parts.items(),
        key=lambda part: (_WORST.index(part[1].status), part[1].lag_s or 0.0, part[0]),
    )
    why = worst.why if worst.is_ready else f"{name}: {worst.why}"
    return Judgement(worst.status, why, worst.lag_s)


def _judged(samples: Sequence[Applied], bounds: Bounds) -> Judgement:
    """Judge by the newest samples that reach over the window, and `LEAST_SAMPLES` at least.

    Without a rate by records: of one report, or of one that has nothing written or applied since. What is
    left then may be offsets that have no record: transaction markers.
    """
    since_ms, first = (
        samples[-1].at_ms - 1000 * bounds.window_s,
        max(0, len(samples) - LEAST_SAMPLES),
    )
    while first > 0 and samples[first].at_ms > since_ms:
        first -= 1
    window = samples[first:]
    lag, rate = median(sample.behind for sample in window), _rate(window)
    began_ms, span_s = window[0].at_ms, (window[-1].at_ms - window[0].at_ms) / 1000
    lag_s, words = None if lag else 0.0, f"{lag:,.0f} offsets are left"
    if rate is not None:
        lag_s, words = lag / rate, f"{lag / rate:,.1f} s behind"
        seconds = [((sample.at_ms - began_ms) / 1000, sample.behind / rate) for sample in window]
        growth = trend(seconds) or 0.0
        if lag_s > bounds.seconds:
            why = f"it is {words}, and {bounds.seconds:g} s is the limit"
            return Judgement(StandbyStatus.BEHIND, why, lag_s)
        if lag_s + growth * bounds.window_s > bounds.seconds:
            why = (
                f"it is {words} and falls back by {growth * 60:,.1f} s a minute: another"
                f" {bounds.window_s:g} s and it is beyond {bounds.seconds:g} s"
            )
            return Judgement(StandbyStatus.GROWING, why, lag_s)
    elif lag > bounds.records and len(window) > 1:
        why = (
            f"{words}, {bounds.records:,} is the limit, and it applies nothing: nothing is written that"
            " would show whether it does"
        )
        return Judgement(StandbyStatus.BEHIND, why)
    if len(window) < LEAST_SAMPLES or span_s < bounds.window_s:
        why = (
            f"{words}, by {len(window)} report{'s' * (len(window) > 1)} over {span_s:.0f} s:"
            f" {LEAST_SAMPLES} over {bounds.window_s:g} s show that it stays so"
        )
        return Judgement(StandbyStatus.UNPROVEN, why, lag_s)
    return Judgement(StandbyStatus.READY, f"{words} for {span_s:.0f} s", lag_s)


def _rate(window: Sequence[Applied]) -> float | None:
    """Offsets a second that it is seen to apply; None where it has had nothing to apply.

    It may be able to apply more: then the lag in seconds is less.
    """
    applied = apply_rate(window)
    if applied:
        return applied
    gained = window[-1].applied - window[0].applied
    return 1000 * gained / (window[-1].at_ms - window[0].at_ms) if gained > 0 else None
