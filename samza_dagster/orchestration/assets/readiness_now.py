"""What a run of `readiness_now` or of `outside_checks` does: looks at the job and judges."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable
from samza_dagster.lag import (
    Bounds,
    Part,
    ReplicaReport,
    ReplicaReports,
    StandbyReadiness,
    published,
    standby_readiness,
)
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.job_sensor import cursor_of
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.requests.heartbeat import EVERY_S
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.gallery import Gallery
from samza_dagster.orchestration.show.pictures import lag_svg
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.watch import invariants, names
from samza_dagster.orchestration.watch.check_events import evaluation
from samza_dagster.orchestration.watch.check_tick import (
    invariant_findings,
    read_lags,
    under,
)
from samza_dagster.orchestration.watch.findings import (
    NOTE,
    CheckFinding,
    CheckMemory,
    Samples,
    looked,
)
from samza_dagster.orchestration.watch.hysteresis import Hysteresis
from samza_dagster.orchestration.watch.lag_objectives import (
    breaches,
    followed,
    not_followed,
    not_known,
    timed,
    why_not_known,
)
from samza_dagster.orchestration.watch.settings import LagSlo

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient, ReplicaLag

NOT_SEEN = CheckFinding("", "not known from one look", "sensor invariants follows them", NOTE)
SHOWN_ROWS = 1_000
DRAWN, LEAST_S = 5, 5
LATE_S, LATE_TICKS = 60, 3
"""A sensor that hasn't looked for the longer of the two doesn't run."""
COLUMNS: Mapping[str, str] = {
    "standby": "processor id",
    "host": "where it runs",
    "status": "of its worst store partition",
    "records": "still to apply, the sum over its stores; empty: not known",
    "lag_s": "seconds that a takeover would wait for the worst of them; empty: not known",
    "ready_in_s": "seconds until lag_s is small, as it has been applying while more was written;"
    " empty: not known, or no headway",
    "soonest_s": "one of twenty is ready sooner",
    "latest_s": "one of twenty is ready later; empty: it may make no headway",
    "why": "why it has this status",
}


def forecast_now(
    context: dg.AssetExecutionContext,
    samza: SamzaClientResource,
    samples: int,
    every_s: float | None,
) -> dg.MaterializeResult[Any]:
    """The asset's materialization: looks `samples` times and forecasts. Changes nothing in the job.

    `every_s` None: the interval of the job's metrics reporter, and `LEAST_S` at least.
    """
    with errors_as_failures():
        client = samza.open_client()
        try:
            looks: list[tuple[int, Sequence[ReplicaLag]]] = []
            report_s = client.view().report_every_s or 0
            if every_s is None:
                every_s = float(max(LEAST_S, report_s))
            for number in range(samples):
                if number:
                    _pause(every_s, f"look {number + 1} of {samples}", context)
                lags = _lags_or_raise(client)
                at_ms = time.time_ns() // 1_000_000
                looks.append((at_ms, lags))
                context.log.info(f"look {number + 1} of {samples}: {len(lags)} replicas")
        finally:
            client.close()
    standbys = readiness_of([lags for _, lags in looks], Bounds(report_s=report_s or LEAST_S))
    _publish(context, samza, standbys, looks[-1][1])
    rows = readiness_rows(standbys)
    known = [row["ready_in_s"] for row in rows if row["ready_in_s"] is not None]
    return dg.MaterializeResult(
        metadata={
            "lag_over_time": Gallery(context.instance, context.run_id).hang(
                lag_svg(drawn(looks)), "lag_over_time"
            ),
            "readiness": table(rows[:SHOWN_ROWS], tuple(COLUMNS), COLUMNS),
            "max_ready_in_s": max(known, default=0.0),
            "unknown": len(rows) - len(known),
            "dagster/row_count": len(rows),
        }
    )


def _publish(
    context: dg.AssetExecutionContext,
    samza: SamzaClientResource,
    standbys: Sequence[StandbyReadiness],
    lags: Sequence[ReplicaLag],
) -> None:
    """Into the job's lag topic, for waits and plans of the next minutes; the asset stands without it, too."""
    as_of_ms = max((lag.came_ms for lag in lags if lag.came_ms is not None), default=None)
    if as_of_ms is None:
        return
    from samza_dagster.metadata.lag_topic import publish

    try:
        publish(samza.connection(), published(standbys, as_of_ms))
    except SamzaDagsterError as error:
        context.log.warning(f"what was seen isn't published: {error}")


def _lags_or_raise(client: PlacementClient) -> Sequence[ReplicaLag]:
    """For what is made of lags alone. Raises `Unreachable`."""
    lags = read_lags(client)
    if isinstance(lags, Unreachable):
        raise lags
    return lags


def _pause(seconds: float, then: str, context: dg.AssetExecutionContext) -> None:
    """Until the next look; the log says every half minute when that is, as of any wait."""
    due = time.monotonic() + seconds
    while (left := due - time.monotonic()) > 0:
        time.sleep(min(left, EVERY_S))
        if left > EVERY_S:
            context.log.info(f"{then} in {left - EVERY_S:.0f} s")


def readiness_of(looks: Sequence[Sequence[ReplicaLag]], bounds: Bounds) -> list[StandbyReadiness]:
    """Of each standby, by what its replicas have reported at these looks."""
    reports: dict[Part, dict[int, ReplicaReport]] = {}
    for lag in (lag for lags in looks for lag in lags):
        if lag.lag is None or lag.end_offset is None:
            continue
        came_ms = lag.came_ms or lag.observed_at_ms or 0  # one that is seen again is no new one
        applied = lag.end_offset - 1 - lag.lag
        report = ReplicaReport(
            came_ms, lag.execution_id or lag.host or "", applied, 0, lag.end_offset
        )
        reports.setdefault(_part(lag), {})[came_ms] = report
    return standby_readiness(
        (
            ReplicaReports(
                *(lag.processor_id, lag.host, lag.task_name, lag.store, lag.partition),
                reports=tuple(sorted(reports.get(_part(lag), {}).values(), key=_came)),
                reason="" if lag.lag is not None else why_not_known([lag]),
            )
            for lag in looks[-1]
            if lag.mode is TaskMode.STANDBY
        ),
        bounds,
    )


def readiness_rows(standbys: Sequence[StandbyReadiness]) -> list[dict[str, Any]]:
    """A row for each standby, those that need longest first."""
    rows = [
        {
            "standby": one.standby,
            "host": one.host,
            "status": one.status.value,
            "records": one.left,
            "lag_s": one.lag_s,
            "ready_in_s": _seconds(one.ready.ready_in_ms if one.ready else None),
            "soonest_s": _seconds(one.ready.soonest_ms if one.ready else None),
            "latest_s": _seconds(one.ready.latest_ms if one.ready else None),
            "why": one.why,
        }
        for one in standbys
    ]
    return sorted(rows, key=lambda r: (r["ready_in_s"] is not None, -(r["ready_in_s"] or 0.0)))


def _part(lag: ReplicaLag) -> Part:
    return lag.task_name, lag.store, lag.partition


def _came(report: ReplicaReport) -> int:
    return report.came_ms


def drawn(looks: Sequence[tuple[int, Sequence[ReplicaLag]]]) -> dict[str, list[tuple[int, float]]]:
    """Lines of the standbys that were furthest behind at any look, and known."""
    lines: dict[str, dict[int, float]] = {}
    for at_ms, lags in looks:
        for lag in lags:
            if lag.mode is TaskMode.STANDBY and lag.lag is not None:
                line = lines.setdefault(lag.processor_id, {})
                line[at_ms] = line.get(at_ms, 0.0) + lag.lag
    worst = sorted(lines, key=lambda name: (-max(lines[name].values()), name))[:DRAWN]
    return {name: sorted(lines[name].items()) for name in worst}


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def judged_now(
    slo: LagSlo,
    standbys: int | None,
    samza: SamzaClientResource,
    lag_limit: int,
    instance: dg.DagsterInstance,
) -> Iterator[dg.AssetCheckResult]:
    """The result of every check at one look, without patience.

    How fast a standby applies is seen over time: objectives in seconds are judged by what sensor
    `lag_slo` has been following. Where it doesn't run they don't pass, as that isn't known.
    """
    now_ms, prefix = time.time_ns() // 1_000_000, samza.prefix
    with errors_as_failures():
        job = samza.job
        client = samza.open_client()
        try:
            lags = read_lags(client)
            view = client.view()
            found = invariant_findings(client, view, lags, lag_limit, standbys)
        finally:
            client.close()
    if view.agreement is not None:
        found[names.STAYS] = [NOT_SEEN]
    kept = kept_memory(instance, names.INVARIANTS, samza, slo, now_ms)
    found[names.CLOCKS] = invariants.clocks_agree(kept.clocks) if kept is not None else [NOT_SEEN]
    kept = kept_memory(instance, names.LAG_SLO, samza, slo, now_ms)
    found[names.OBJECTIVE] = _objectives_now(slo, lags, kept, now_ms)
    _, results = looked(CheckMemory(job), found, dict.fromkeys(found, Hysteresis(looks=1)), now_ms)
    assets = under(prefix, {**names.ASSETS, **names.SLO_ASSETS})
    for result in results:
        evaluated = evaluation(result, assets[result.check], job, now_ms)
        yield dg.AssetCheckResult(
            asset_key=evaluated.asset_key,
            check_name=evaluated.check_name,
            passed=evaluated.passed,
            severity=evaluated.severity,
            description=evaluated.description,
            metadata=evaluated.metadata,
        )


def kept_memory(
    instance: dg.DagsterInstance,
    sensor: str,
    samza: SamzaClientResource,
    slo: LagSlo,
    now_ms: int,
) -> CheckMemory | None:
    """What a sensor follows; None when it hasn't looked at this job of late."""
    if instance.schedule_storage is None:
        return None
    memories = [
        CheckMemory.read(
            cursor_of(getattr(state.instigator_data, "cursor", None), samza), samza.job
        )
        for state in instance.all_instigator_state()
        if state.instigator_name == named(samza.prefix, sensor)
    ]
    newest = max((b for b in memories if b is not None), key=lambda b: b.looked_ms, default=None)
    late_ms = max(LATE_S, LATE_TICKS * slo.interval_s) * 1000
    return newest if newest is not None and now_ms - newest.looked_ms <= late_ms else None


def _objectives_now(
    slo: LagSlo, lags: Sequence[ReplicaLag] | Unreachable, kept: CheckMemory | None, now_ms: int
) -> list[CheckFinding] | Unreachable:
    if isinstance(lags, Unreachable):
        return lags
    objectives = slo.objectives
    former: Samples = kept.samples if kept is not None else {}
    samples = followed(former, timed(objectives, lags), now_ms)
    broken = breaches(objectives, lags, samples)
    # What a sensor that runs has no two reports of yet was ready a moment ago.
    unknown = not_known(objectives, lags, samples) if kept is None else []
    known = {finding.subject for finding in broken}
    found = [*broken, *(finding for finding in unknown if finding.subject not in known)]
    return found + not_followed(objectives, lags, samples)
