"""A tick of `invariants` or `lag_slo`: looks, judges, and tells what changed as asset checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.lag import clocks, newest_reports
from samza_dagster.orchestration.job_sensor import JobTick, TickResult
from samza_dagster.orchestration.names import asset_path
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import since_boot, steady_now
from samza_dagster.orchestration.watch import invariants, names
from samza_dagster.orchestration.watch.check_events import due, seeded
from samza_dagster.orchestration.watch.findings import (
    NOT_JUDGED,
    NOTE,
    CheckFinding,
    CheckMemory,
    Findings,
    looked,
)
from samza_dagster.orchestration.watch.hysteresis import Hysteresis
from samza_dagster.orchestration.watch.lag_objectives import (
    breaches,
    followed,
    not_followed,
    timed,
)
from samza_dagster.orchestration.watch.settings import Invariants, LagSlo

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient, ReplicaLag


@dataclass
class CheckTick:
    """One tick of either sensor.

    `findings` looks and judges; it gives the memory with what it saw beside, and how often containers
    report (s; 0: not known), by which `patience` is.
    """

    checks: Mapping[str, str]
    patience: Callable[[int], Mapping[str, Hysteresis]]
    repeat_ms: int
    findings: Callable[[CheckMemory], tuple[Findings, CheckMemory, int]]

    def run(
        self,
        kept: CheckMemory | None,
        job: str,
        instance: dg.DagsterInstance,
        now_ms: int,
        clock: str = "",
        partition: str | None = None,
    ) -> tuple[CheckMemory, list[dg.AssetCheckEvaluation]]:
        """The memory to keep and the evaluations to tell; it is `now_ms` by this `clock`.

        `partition`: the job's, of the checks of several.
        """
        memory = (kept or seeded(job, self.checks, instance, partition)).by_clock(clock, now_ms)
        found, memory, report_every_s = self.findings(memory)
        memory, results = looked(memory, found, self.patience(report_every_s), now_ms)
        return due(memory, results, self.checks, instance, now_ms, self.repeat_ms, partition)


def invariants_tick(
    client: PlacementClient,
    settings: Invariants,
    lag_limit: int,
    prefix: str = "",
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> CheckTick:
    """What `invariants` does in a tick."""

    def findings(memory: CheckMemory) -> tuple[Findings, CheckMemory, int]:
        began_ms, lags, view = now(), read_lags(client), client.view()
        every_s = view.report_every_s or 0
        found = invariant_findings(client, view, lags, lag_limit, settings.standbys)
        found[names.STAYS] = invariants.none_flaps(view, memory.registrations)
        if view.agreement is not None:  # who is away just now is known by its last one
            seen = {**memory.registrations, **view.agreement.registrations}
            memory = replace(memory, registrations=seen)
        if isinstance(lags, Unreachable):
            return {**found, names.CLOCKS: lags}, memory, every_s
        reports = newest_reports((lag.host, lag.reported_ms) for lag in lags)
        hosts = clocks(memory.clocks, reports, looked_ms=memory.clocks_ms, now_ms=now())
        found[names.CLOCKS] = invariants.clocks_agree(hosts)
        return found, replace(memory, clocks=hosts, clocks_ms=began_ms), every_s

    checks = under(prefix, names.ASSETS)
    return CheckTick(checks, settings.patience, settings.repeat_s * 1000, findings)


def invariant_findings(
    client: PlacementClient,
    view: JobView,
    lags: Sequence[ReplicaLag] | Unreachable,
    lag_limit: int,
    standbys: int | None,
) -> dict[str, Sequence[CheckFinding] | Unreachable]:
    """One look at the job by every rule of `invariants`, by check; `view` was read after `lags`."""
    dead = invariants.not_dead(view)
    if dead:
        return {
            **dict.fromkeys(names.ASSETS, ()),
            names.SAME_HOST: invariants.same_host(view),
            names.ONE_OWNER: invariants.one_owner(view),
            names.REPLICAS: dead,
            names.LAG: dead,
        }
    reported = {
        p: locality.host
        for p, locality in client.locality().processor_localities.items()
        if locality.host
    }
    return {
        names.SAME_HOST: invariants.same_host(view),
        names.REPLICAS: invariants.replicas_present(view, standbys),
        names.ONE_OWNER: invariants.one_owner(view),
        names.LAG: lags
        if isinstance(lags, Unreachable)
        else [*invariants.changelogs_there(lags), *invariants.within_limit(lags, lag_limit)],
        names.LOCALITY: invariants.locality_agrees(view, reported),
        names.COORDINATED: invariants.coordinated(view),
        names.COPIES: invariants.live_copies(view),
        names.STAYS: invariants.none_flaps(view, {}),
    }


def lag_slo_tick(
    client: PlacementClient, settings: LagSlo, now_ms: int, prefix: str = ""
) -> CheckTick:
    """What `lag_slo` does in a tick."""

    def findings(memory: CheckMemory) -> tuple[Findings, CheckMemory, int]:
        lags, objectives = read_lags(client), settings.objectives
        if isinstance(lags, Unreachable):
            return {names.OBJECTIVE: lags}, memory, 0
        view = client.view()
        every_s = view.report_every_s or 0
        dead = invariants.not_dead(view)
        if dead:
            return {names.OBJECTIVE: dead}, replace(memory, samples={}), every_s
        samples = followed(memory.samples, timed(objectives, lags), now_ms)
        found = breaches(objectives, lags, samples) + not_followed(objectives, lags, samples)
        return {names.OBJECTIVE: found}, replace(memory, samples=samples), every_s

    def patience(report_every_s: int) -> Mapping[str, Hysteresis]:
        return {names.OBJECTIVE: settings.patience(report_every_s)}

    checks = under(prefix, names.SLO_ASSETS)
    return CheckTick(checks, patience, settings.repeat_s * 1000, findings)


def under(prefix: str, checks: Mapping[str, str]) -> Mapping[str, str]:
    """Checks with the paths of their assets below a prefix."""
    return {check: asset_path(prefix, asset) for check, asset in checks.items()}


def read_lags(client: PlacementClient) -> Sequence[ReplicaLag] | Unreachable:
    """The lags, or why nobody's could be read; none where the job has no store.

    None too where this client reads none.
    """
    try:
        return client.lag()
    except MissingPrerequisite:
        return ()
    except Unreachable as error:
        return error


def evaluated(
    one: JobTick, samza: SamzaClientResource, make: Callable[[int], CheckTick]
) -> TickResult:
    """One tick of either sensor, made as of now (ms): what it tells and remembers."""
    kept = CheckMemory.read(one.cursor, samza.job, one.log.warning)
    before = kept.clock if kept is not None else ""
    now_ms, clock = steady_now(before, time.time_ns() // 1_000_000, *since_boot())
    memory, events = make(now_ms).run(kept, samza.job, one.instance, now_ms, clock, samza.partition)
    standing = sum(
        s.confirmed and s.severity != NOTE
        for found in memory.checks.values()
        for s in found.values()
    )
    unjudged = sorted(check for check, found in memory.checks.items() if NOT_JUDGED in found)
    more = f"; not judged: {', '.join(unjudged)}" if unjudged else ""
    return dg.SensorResult(
        asset_events=events,
        skip_reason=None if events else f"nothing new; {standing} findings stand{more}",
        cursor=memory.to_text(),
    )
