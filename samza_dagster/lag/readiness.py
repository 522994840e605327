"""Of every standby: whether it is ready, and if not, when it will be. Pure; rows in, rows out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from samza_dagster.lag.forecasting import Errors, Forecast, Pace, forecast, last_of, pace
from samza_dagster.lag.past import ready_at_ms
from samza_dagster.lag.reports import ReplicaReport, course
from samza_dagster.lag.status import Bounds, Judgement, StandbyStatus, judge, of_standby

PACED_BY = 12
"""The newest reports of a replica that its pace is told by."""


@dataclass(frozen=True, slots=True)
class ReplicaReports:
    """One store partition of a standby: what it has reported, in order of time.

    `silent_ms` and `reason` are those of `judge`.
    """

    standby: str
    host: str | None
    task: str
    store: str
    partition: int
    reports: tuple[ReplicaReport, ...]
    silent_ms: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        """Names it to a person."""
        return f"{self.store} {self.partition}"


@dataclass(frozen=True, slots=True)
class ReplicaReadiness:
    """What is told of one store partition of a standby.

    `left` is in offsets, `lag_s` what a takeover would wait for them; `ready` is the time until
    `lag_s` is within the bound while the changelog is written on. `pace` is None where none is known.
    `ready_since_ms` is when this process was within the bound first, by the times of the reports that
    are known: what a back-test of former forecasts asks (`Kept`).
    """

    task: str
    store: str
    partition: int
    status: StandbyStatus
    why: str
    left: int | None
    lag_s: float | None
    pace: Pace | None
    ready: Forecast | None
    ready_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StandbyReadiness:
    """The same of a whole standby: its worst part, the part that is ready last, and the sum of `left`."""

    standby: str
    host: str | None
    status: StandbyStatus
    why: str
    left: int | None
    lag_s: float | None
    ready: Forecast | None
    parts: tuple[ReplicaReadiness, ...] = ()


def replica_readiness(
    replica: ReplicaReports, bounds: Bounds, errors: Errors | None = None
) -> ReplicaReadiness:
    """Of one store partition. `errors` are those of its job's past forecasts (`back_test`)."""
    known = course(replica.reports)
    verdict = judge(known, replica.silent_ms, bounds, replica.reason)
    is_known = verdict.status not in (StandbyStatus.UNKNOWN, StandbyStatus.SILENT)
    left = known.samples[-1].behind if is_known else None
    its_pace = pace(known.samples[-PACED_BY:]) if is_known else None
    ready = since_ms = None
    if left is not None:
        ready = forecast(left, its_pace, ready_s=bounds.seconds, errors=errors)
        goal = bounds.seconds * its_pace.apply_per_s if its_pace is not None else 0.0
        since_ms = ready_at_ms(known.samples, known.samples[0].at_ms, goal)
    return ReplicaReadiness(
        task=replica.task,
        store=replica.store,
        partition=replica.partition,
        status=verdict.status,
        why=verdict.why,
        left=left,
        lag_s=verdict.lag_s,
        pace=its_pace,
        ready=ready,
        ready_since_ms=since_ms,
    )


def standby_readiness(
    replicas: Iterable[ReplicaReports],
    bounds: Bounds,
    errors: Errors | None = None,
    *,
    without_changelog: Iterable[tuple[str, str | None]] = (),
) -> list[StandbyReadiness]:
    """A row for each standby, by id; `without_changelog` are those (and their hosts) of no such store.

    A part of which nothing is known makes its own standby unknown, and no other.
    """
    of: dict[str, list[ReplicaReports]] = {}
    for replica in replicas:
        of.setdefault(replica.standby, []).append(replica)
    rows = [_of_one(standby, mine, bounds, errors) for standby, mine in of.items()]
    for standby, host in without_changelog:
        if standby not in of:
            verdict = of_standby({})
            rows.append(
                StandbyReadiness(
                    *(standby, host, verdict.status, verdict.why, 0, verdict.lag_s),
                    forecast(0, None),
                )
            )
    return sorted(rows, key=lambda row: row.standby)


def _of_one(
    standby: str, replicas: list[ReplicaReports], bounds: Bounds, errors: Errors | None
) -> StandbyReadiness:
    parts = {one.name: replica_readiness(one, bounds, errors) for one in replicas}
    worst = of_standby(
        {name: Judgement(part.status, part.why, part.lag_s) for name, part in parts.items()}
    )
    lefts = [part.left for part in parts.values() if part.left is not None]
    return StandbyReadiness(
        standby=standby,
        host=replicas[0].host,
        status=worst.status,
        why=worst.why,
        left=sum(lefts) if len(lefts) == len(parts) else None,
        lag_s=worst.lag_s,
        ready=last_of(part.ready for part in parts.values()),
        parts=tuple(parts.values()),
    )
