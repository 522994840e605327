"""`outside_checks`: the checks that `invariants` and `lag_slo` tell, on demand, at one look and without patience."""

# No `from __future__ import annotations`: Dagster reads the annotations of checks as types.

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import dagster as dg

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.job_sensor import cursor_of
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.watch.check_events import evaluation
from samza_dagster.orchestration.watch.check_tick import invariants_tick, lag_slo_tick
from samza_dagster.orchestration.watch.findings import NOTE, CheckFinding, CheckMemory, looked
from samza_dagster.orchestration.watch.hysteresis import Hysteresis
from samza_dagster.orchestration.watch.lag_objectives import not_known
from samza_dagster.orchestration.watch.settings import Invariants, LagSlo

LATE_S, LATE_TICKS = 60, 3
"""A sensor that hasn't looked for the longer of the two doesn't run."""


def outside_checks(
    slo: LagSlo, invariants: Invariants, prefix: str = ""
) -> dg.AssetChecksDefinition:
    """The checks of a component; the sensors tell them too.

    They have no partitions: Dagster takes one evaluation of a partition that no run made, and no second.
    """
    samza, policies = named(prefix, "samza"), named(prefix, "samza_policies")
    texts = {**names.DESCRIPTIONS, names.OBJECTIVE: "The lag of every standby meets its objective."}

    @dg.multi_asset_check(
        name=named(prefix, "outside_checks"),
        specs=[
            dg.AssetCheckSpec(check, asset=asset_key(prefix, asset), description=texts[check])
            for check, asset in {**names.ASSETS, **names.SLO_ASSETS}.items()
        ],
        required_resource_keys={samza, policies},
    )
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        limit = getattr(context.resources, policies).lag_limit
        asked = getattr(context.resources, samza)
        yield from judged(slo, invariants, limit, asked, context.instance)

    return look


def judged(
    slo: LagSlo,
    invariants: Invariants,
    lag_limit: int,
    samza: SamzaClientResource,
    instance: dg.DagsterInstance,
) -> Iterator[dg.AssetCheckResult]:
    """The result of every check: what each sensor would find now, by what it has been following.

    What takes more than one look is unknown where its sensor doesn't run: how fast a standby applies, whether
    clocks agree, who comes and goes.
    """
    now_ms = time.time_ns() // 1_000_000
    note = CheckFinding("", "not known from one look", "sensor invariants follows them", NOTE)
    assets: dict[str, str] = {}
    found: dict[str, Sequence[CheckFinding] | Unreachable] = {}
    with errors_as_failures(), closing(samza.open_client()) as client:
        of_invariants = invariants_tick(client, invariants, lag_limit, samza.prefix)
        of_slo = lag_slo_tick(client, slo, now_ms, samza.prefix)
        for sensor, every_s, tick in (
            (names.INVARIANTS, invariants.interval_s, of_invariants),
            (names.LAG_SLO, slo.interval_s, of_slo),
        ):
            kept = kept_memory(instance, sensor, samza, every_s, now_ms)
            seen, memory, _ = tick.findings(kept or CheckMemory(samza.job))
            unknown = {} if kept is not None else {
                names.CLOCKS: [note],
                names.STAYS: [note] if memory.registrations else [],
                names.OBJECTIVE: not_known(memory.samples),
            }  # fmt: skip
            for check, asset in tick.checks.items():
                assets[check], sure = asset, seen[check]
                if not isinstance(sure, Unreachable):
                    sure = [*unknown.get(check, ()), *sure]
                found[check] = sure
    patience = dict.fromkeys(found, Hysteresis(looks=1))
    for result in looked(CheckMemory(samza.job), found, patience, now_ms)[1]:
        told = evaluation(result, assets[result.check], samza.job, now_ms)
        yield dg.AssetCheckResult(
            asset_key=told.asset_key,
            check_name=told.check_name,
            passed=told.passed,
            severity=told.severity,
            description=told.description,
            metadata=told.metadata,
        )


def kept_memory(
    instance: dg.DagsterInstance,
    sensor: str,
    samza: SamzaClientResource,
    every_s: int,
    now_ms: int,
) -> CheckMemory | None:
    """What a sensor follows; None when it hasn't looked at this job of late."""
    if instance.schedule_storage is None:
        return None
    cursors = [
        cursor_of(getattr(state.instigator_data, "cursor", None), samza)
        for state in instance.all_instigator_state()
        if state.instigator_name == named(samza.prefix, sensor)
    ]
    memories = [kept for one in cursors if (kept := CheckMemory.read(one, samza.job)) is not None]
    newest = max(memories, key=lambda kept: kept.looked_ms, default=None)
    late_ms = max(LATE_S, LATE_TICKS * every_s) * 1000
    return newest if newest is not None and now_ms - newest.looked_ms <= late_ms else None
