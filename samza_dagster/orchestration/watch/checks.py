"""The sensors `invariants` and `lag_slo`, and `outside_checks` on demand: findings told as asset checks."""

# No `from __future__ import annotations`: Dagster reads the annotations of checks as types.

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import dagster as dg

from samza_dagster.client import PlacementClient, ReplicaLag
from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.lag import clocks, newest_reports
from samza_dagster.orchestration.job_sensor import JobTick, TickResult, in_each_job, job_sensor
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.watch import invariants
from samza_dagster.orchestration.watch.evaluations import newest_evaluation
from samza_dagster.orchestration.watch.findings import (
    NOT_JUDGED,
    NOTE,
    CheckFinding,
    CheckMemory,
    CheckResult,
    Findings,
    Hysteresis,
    LastEvaluation,
    is_due,
    looked,
)
from samza_dagster.orchestration.watch.lag_objectives import (
    OBJECTIVE,
    breaches,
    followed,
    not_followed,
    timed,
)
from samza_dagster.orchestration.watch.reported import REPORTED_AT, time_ms
from samza_dagster.orchestration.watch.settings import TICK_S, Invariants, LagSlo

OBJECTIVE_OF = "changelog_lag"
"""The asset of that check."""
SHOWN = 100


def invariants_sensor(
    settings: Invariants, policies: PlacementPolicies, prefix: str = ""
) -> dg.SensorDefinition:
    """Make `invariants` with the settings of the component's YAML, and the limit of its policies."""
    text = "Judges from outside what must hold of a job, as asset checks."
    tick = partial(invariants_tick, settings=settings, lag_limit=policies.lag_limit, prefix=prefix)
    return _sensor("invariants", policies, tick, prefix, text)


def lag_slo_sensor(
    settings: LagSlo, policies: PlacementPolicies | None = None, prefix: str = ""
) -> dg.SensorDefinition:
    """Make `lag_slo` with the objectives of the component's YAML."""
    text = "Holds the lag of standbys against objectives, as an asset check."
    tick = partial(lag_slo_tick, settings=settings, prefix=prefix)
    return _sensor("lag_slo", policies or PlacementPolicies(), tick, prefix, text)


def _sensor(
    name: str,
    policies: PlacementPolicies,
    tick: Callable[..., "CheckTick"],
    prefix: str,
    description: str,
) -> dg.SensorDefinition:
    tick_s = 2 * policies.sensor_interval_s
    return job_sensor(
        name,
        in_each_job(lambda one, samza, client: evaluated(one, samza, tick(client, tick_s=tick_s))),
        prefix=prefix,
        interval_s=tick_s,
        running=policies.sensor_running,
        description=description,
    )


Judged = tuple[Findings, CheckMemory, Mapping[str, Hysteresis]]
"""What was found at a look, the memory with what was seen beside, and when it counts."""


@dataclass(frozen=True)
class CheckTick:
    """A tick of either sensor."""

    checks: Mapping[str, dg.AssetKey]
    """Check → its asset."""
    findings: Callable[[CheckMemory, int], Judged]
    """Looks and judges at a time."""


def evaluated(one: JobTick, samza: SamzaClientResource, tick: CheckTick) -> TickResult:
    """Run one tick of either sensor as of now; return what it tells and keeps."""
    job, instance, partition = samza.job, one.instance, samza.partition
    kept, failed = CheckMemory.read(one.cursor, job, one.log.warning), set[str]()
    now_ms = time.time_ns() // 1_000_000
    if kept is None and partition is None:  # what failed until now is what the instance shows
        told = {check: _newest(instance, key, check) for check, key in tick.checks.items()}
        failed = {check for check, last in told.items() if last is not None and not last.passed}
    found, memory, patience = tick.findings(kept or CheckMemory(job), now_ms)
    memory, results = looked(memory, found, patience, now_ms, failed)
    memory, events = due(memory, results, tick.checks, instance, now_ms, partition)
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


def invariants_tick(
    client: PlacementClient,
    settings: Invariants,
    lag_limit: int,
    prefix: str = "",
    tick_s: int = TICK_S,
) -> CheckTick:
    """Return what `invariants` does in a tick."""

    def findings(memory: CheckMemory, _: int) -> Judged:
        began_ms, lags, view = time.time_ns() // 1_000_000, read_lags(client), client.view()
        patience = settings.patience(view.report_every_s or 0, tick_s)
        found: dict[str, Sequence[CheckFinding] | Unreachable] = {}
        if dead := invariants.not_dead(view):
            found |= {invariants.REPLICAS: dead, invariants.LAG: dead}
        else:
            known = client.locality().processor_localities.items()
            reported = {p: locality.host for p, locality in known if locality.host}
            found |= {
                invariants.SAME_HOST: invariants.same_host(view),
                invariants.ONE_OWNER: invariants.one_owner(view),
                invariants.REPLICAS: invariants.replicas_present(view, settings.standbys),
                invariants.LAG: lags
                if isinstance(lags, Unreachable)
                else [
                    *invariants.changelogs_there(lags),
                    *invariants.within_limit(lags, lag_limit),
                ],
                invariants.LOCALITY: invariants.locality_agrees(view, reported),
                invariants.COORDINATED: invariants.coordinated(view),
                invariants.COPIES: invariants.live_copies(view),
                invariants.STAYS: invariants.none_flaps(view, memory.registrations),
            }
        if (
            view.agreement is not None
        ):  # a processor that is away now is known from the last agreement
            seen = {**memory.registrations, **view.agreement.registrations}
            memory = replace(memory, registrations=seen)
        if isinstance(lags, Unreachable):
            return {**found, invariants.CLOCKS: lags}, memory, patience
        reports = newest_reports((lag.host, lag.reported_ms) for lag in lags)
        ended_ms = time.time_ns() // 1_000_000
        hosts = clocks(memory.clocks, reports, looked_ms=memory.clocks_ms, now_ms=ended_ms)
        found[invariants.CLOCKS] = invariants.clocks_agree(hosts)
        return found, replace(memory, clocks=hosts, clocks_ms=began_ms), patience

    checks = {check: asset_key(prefix, asset) for check, asset in invariants.ASSETS.items()}
    return CheckTick(checks, findings)


def lag_slo_tick(
    client: PlacementClient, settings: LagSlo, prefix: str = "", tick_s: int = TICK_S
) -> CheckTick:
    """Return what `lag_slo` does in a tick."""

    def findings(memory: CheckMemory, now_ms: int) -> Judged:
        lags, objectives = read_lags(client), settings.objectives
        if isinstance(lags, Unreachable):
            return {OBJECTIVE: lags}, memory, {OBJECTIVE: settings.patience()}
        view = client.view()
        patience = {OBJECTIVE: settings.patience(view.report_every_s or 0, tick_s)}
        if dead := invariants.not_dead(view):
            return {OBJECTIVE: dead}, replace(memory, samples={}), patience
        samples = followed(memory.samples, timed(objectives, lags), now_ms)
        found = breaches(objectives, lags, samples) + not_followed(objectives, lags, samples)
        return {OBJECTIVE: found}, replace(memory, samples=samples), patience

    return CheckTick({OBJECTIVE: asset_key(prefix, OBJECTIVE_OF)}, findings)


def read_lags(client: PlacementClient) -> Sequence[ReplicaLag] | Unreachable:
    """Return the lags, or why nobody's could be read; none where the job has no store.

    None too where this client reads none.
    """
    try:
        return client.lag()
    except MissingPrerequisite:
        return ()
    except Unreachable as error:
        return error


def outside_checks(slo: LagSlo, settings: Invariants, prefix: str = "") -> dg.AssetChecksDefinition:
    """Make the checks of a component, which judge on demand at one look; the sensors tell them too.

    They have no partitions: Dagster takes one evaluation of a partition that no run made, and no second.
    """
    samza, policies = named(prefix, "samza"), named(prefix, "samza_policies")
    told = {
        **{check: (invariants.ASSETS[check], text) for check, text in invariants.CHECKS.items()},
        OBJECTIVE: (OBJECTIVE_OF, "The lag of every standby meets its objective."),
    }

    @dg.multi_asset_check(
        name=named(prefix, "outside_checks"),
        specs=[
            dg.AssetCheckSpec(check, asset=asset_key(prefix, asset), description=text)
            for check, (asset, text) in told.items()
        ],
        required_resource_keys={samza, policies},
        can_subset=True,  # what takes more than one look has no result
    )
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        limit = getattr(context.resources, policies).lag_limit
        with errors_as_failures():
            found = judged(slo, settings, limit, getattr(context.resources, samza))
        for one in found:
            if one.asset_check_key in context.selected_asset_check_keys:
                yield dg.AssetCheckResult(
                    asset_key=one.asset_key,
                    check_name=one.check_name,
                    passed=one.passed,
                    severity=one.severity,
                    description=one.description,
                    metadata=one.metadata,
                )

    return look


def judged(
    slo: LagSlo, settings: Invariants, lag_limit: int, samza: SamzaClientResource
) -> list[dg.AssetCheckEvaluation]:
    """Judge at one look and without patience; return the checks that this suffices for.

    On the others the sensors' word stands: whether clocks agree, which processors come and go, and
    objectives in seconds of standbys that are behind.
    """
    now_ms, results = time.time_ns() // 1_000_000, list[dg.AssetCheckEvaluation]()
    with closing(samza.open_client()) as client:
        for tick in (
            invariants_tick(client, settings, lag_limit, samza.prefix),
            lag_slo_tick(client, slo, samza.prefix),
        ):
            found, memory, _ = tick.findings(CheckMemory(samza.job), now_ms)
            unknown = {
                invariants.CLOCKS,
                invariants.STAYS if memory.registrations else "",
                OBJECTIVE if memory.samples and not found[OBJECTIVE] else "",
            }
            sure = {c: Hysteresis(looks=1) for c in tick.checks if c not in unknown}
            for result in looked(CheckMemory(samza.job), found, sure, now_ms)[1]:
                key = tick.checks[result.check]
                results.append(evaluation(result, key, samza.job, now_ms))
    return results


def due(
    memory: CheckMemory,
    results: tuple[CheckResult, ...],
    checks: Mapping[str, dg.AssetKey],
    instance: dg.DagsterInstance,
    now_ms: int,
    partition: str | None = None,
) -> tuple[CheckMemory, list[dg.AssetCheckEvaluation]]:
    """Return the evaluations to tell now, and the memory that knows of them.

    The instance shows what was reported: a tick whose cursor was lost has reported it, and a look on
    demand may have reported otherwise since. The memory knows checks without a result about this job.
    """
    events: list[dg.AssetCheckEvaluation] = []
    told = dict(memory.evaluations)
    # Of several jobs a check's newest word is about any of them: each one's cursor knows its own.
    assets = set(checks.values()) if partition is None else set[dg.AssetKey]()
    materialized_ms = {key: _materialized_ms(instance, key) for key in assets}
    for result in results:
        check, key = result.check, checks[result.check]
        known = _last_evaluation(instance, key, check, memory.job) if key in assets else None
        if known is not None:
            told[check] = known
        # The UI shows a check as not evaluated when its result is older than its asset, so it is reported
        # again, except for checks over several jobs, which would be reported once for each job.
        is_older = check in told and told[check].at_ms < materialized_ms.get(key, 0)
        if is_older or is_due(result, told.get(check), now_ms):
            told[check] = LastEvaluation(result.fingerprint, now_ms)
            events.append(evaluation(result, key, memory.job, now_ms))
    return replace(memory, evaluations=told), events


def evaluation(
    result: CheckResult, key: dg.AssetKey, job: str, now_ms: int
) -> dg.AssetCheckEvaluation:
    """Return what was seen and what to do, the worst first."""
    worst = sorted(result.failing, key=lambda s: (s.severity != "ERROR", s.since_ms, s.subject))
    error = any(s.severity == "ERROR" for s in worst)
    head = "; ".join(f"{s.subject}: {s.seen}" for s in worst[:3])
    more = len(worst) - 3 + result.left_out
    description = head + (f"; and {more} more" if more > 0 else "") if worst else "nothing found"
    description += "".join(f"; {note.seen}" for note in result.notes)
    if result.recovered:
        description += f"; over: {', '.join(result.recovered[:5])}"
    rows = [
        {
            "subject": s.subject,
            "severity": s.severity,
            "seen": s.seen,
            "what_to_do": s.fix,
            "seconds": (now_ms - s.since_ms) // 1000 if s.since_ms else None,
        }
        for s in (*worst[:SHOWN], *result.notes)
    ]
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=result.check,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if error else dg.AssetCheckSeverity.WARN,
        description=description[:2_000],
        metadata={
            "job": job,
            "findings": len(worst) + result.left_out,
            "what_was_seen": table(rows, ("subject", "severity", "seen", "what_to_do", "seconds")),
            "over": ", ".join(result.recovered[:SHOWN]) or "-",
            "fingerprint": result.fingerprint,
            REPORTED_AT: dg.MetadataValue.timestamp(now_ms / 1000),
        },
    )


def _materialized_ms(instance: dg.DagsterInstance, key: dg.AssetKey) -> int:
    event = instance.get_latest_materialization_event(key)
    return 0 if event is None else round(event.timestamp * 1000)


def _newest(
    instance: dg.DagsterInstance, asset: dg.AssetKey, check: str
) -> dg.AssetCheckEvaluation | None:
    found = newest_evaluation(instance, dg.AssetCheckKey(asset, check))
    return found[0] if found is not None else None


def _last_evaluation(
    instance: dg.DagsterInstance, asset: dg.AssetKey, check: str, job: str
) -> LastEvaluation | None:
    event = _newest(instance, asset, check)
    if event is None or "fingerprint" not in event.metadata or event.metadata["job"].value != job:
        return None
    fingerprint = str(event.metadata["fingerprint"].value)
    return LastEvaluation(fingerprint, time_ms(event.metadata, REPORTED_AT))
