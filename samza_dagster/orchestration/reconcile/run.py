"""What the ops of `reconcile` do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.chain import chain_of
from samza_dagster.orchestration.deploy.submission import is_never_submitted
from samza_dagster.orchestration.moves.planning import tag_run
from samza_dagster.orchestration.moves.spun_up import SPINS_UP, YES, newest_starts, spin_ups_noted
from samza_dagster.orchestration.operations.ops import (
    budget_notices,
    carried_out,
    failed_before,
    former_units,
    over_budget,
    refusals,
    require_commits,
    units_plan_output,
)
from samza_dagster.orchestration.plans.move import host_map
from samza_dagster.orchestration.plans.reconcile import Finding, WantedPlacement, reconcile
from samza_dagster.orchestration.plans.units import Unit, UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.reconcile.config import ACTION, ReconcileConfig
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table_within
from samza_dagster.orchestration.show.units import MOST_OF_ONE
from samza_dagster.orchestration.tags import JOB, job_tag

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

RUNS_LOOKED_AT = 1_000
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def planned(
    context: dg.OpExecutionContext,
    config: ReconcileConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """What op `plan_reconcile` does."""
    asked = {
        "wanted": config.wanted,
        "standbys": config.standbys,
        "no_extra": config.no_extra,
        "only": config.only,
        "skip": config.skip,
    }
    limits = config.limits(samza_policies)
    findings: Sequence[Finding] = ()
    with errors_as_failures():
        tag_run(context)
        former = None if config.dry_run else former_units(context, asked)
        if former is not None:
            plan = replace(former, limits=limits, at_once=config.at_once)
        else:
            client = samza.client
            view = client.view()
            job = f"{view.job_name}/{view.job_id}"
            left = left_over(context.instance, client, view, job_tag(job, samza.prefix))
            wanted = WantedPlacement(
                standbys=config.standbys,
                pins=config.wanted,
                ours=left.standbys,
                no_extra=config.no_extra,
                allowed=tuple(samza.hosts),
                only=tuple(config.only),
                skip=tuple(config.skip),
            )
            found = reconcile(view, wanted)
            findings = (*left.findings, *found.findings)
            plan = UnitsPlan(
                what=ACTION,
                subject="",
                job=job,
                coordinator=view.coordinator,
                units=found.units,
                at_once=config.at_once,
                limits=limits,
                before=host_map(view),
                apart=True,
            )
            require_commits(client, limits.verify_timeout_s, plan.units)
            plan = in_turn(plan, client, view, failed_before(context))
            for refusal in plan.refused:
                context.log.warning(f"refused, the other groups go on: {refusal}")
    for finding in findings:
        context.log.warning(f"{finding.about}: {finding.seen}. To do: {finding.to_do}")
    shown = _findings_table(findings)
    yield units_plan_output(context, plan, asked, dry_run=config.dry_run, findings=shown)


def reconciled(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """What op `carry_out_reconcile` does."""

    def then(client: PlacementClient) -> dict[str, Any]:
        left = reconcile(client.view(), WantedPlacement())
        return {"findings_after": _findings_table(left.findings)}

    yield from carried_out(context, samza, plan, then)


def in_turn(
    plan: UnitsPlan, client: PlacementClient, view: JobView, last: Collection[str]
) -> UnitsPlan:
    """The plan without the groups whose first request the client refuses; the groups `last` last.

    Only the first of each is asked about: later ones count on what it has done. Without those too
    for whose requests together Samza's AM may end the job.
    """
    first: dict[str, Unit] = {}
    for unit in plan.units:
        first.setdefault(unit.group_id, unit)
    against = [*refusals(client, first.values()), *over_budget(view, plan.units)]
    out = {unit.group_id for unit, _ in against}
    units = [unit for unit in plan.units if unit.group_id not in out]
    return replace(
        plan,
        units=tuple(sorted(units, key=lambda unit: unit.group_id in last)),
        refused=tuple(refusal for _, refusal in against),
        refused_groups=tuple(sorted(out)),
        notices=budget_notices(view, units),
    )


def _findings_table(findings: Sequence[Finding]) -> dg.TableMetadataValue:
    rows = [{"about": f.about, "seen": f.seen, "to do": f.to_do} for f in findings]
    return table_within(rows, ("about", "seen", "to do"), MOST_OF_ONE)


@dataclass(frozen=True)
class LeftOver:
    """Standbys that are left over, and of which it couldn't be told."""

    standbys: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


def left_over(
    instance: dg.DagsterInstance, client: PlacementClient, view: JobView, job: str
) -> LeftOver:
    """Standbys of runs of this job (tag `samza/job`) whose chain ended badly.

    A standby of a chain that is going on, or ended well, isn't left over; nor is one whose id
    was free again and that somebody else has started since.
    """
    extra = sorted(p for p, known in view.processors.items() if known.extra)
    asked, all_runs = _asked_in_vain(instance, job) if extra else (frozenset[str](), True)
    if not asked:
        return LeftOver()
    origins = {standby: start.uuid for standby, start in newest_starts(client).items()}
    findings: list[Finding] = []
    unknown = [standby for standby in extra if standby not in origins]
    if unknown and asked - {response.uuid for response in client.history()}:
        by_audit, why = _by_audit(client)
        origins = {**by_audit, **origins}
        findings += [_not_known(one, why) for one in unknown if one not in origins]
    if not all_runs:
        findings.append(_OLDER_RUNS)
    return LeftOver(
        frozenset(standby for standby in extra if origins.get(standby) in asked), tuple(findings)
    )


def _asked_in_vain(instance: dg.DagsterInstance, job: str) -> tuple[frozenset[str], bool]:
    """Requests for standbys by chains that ended badly; whether all runs were looked at."""
    runs = instance.get_runs(dg.RunsFilter(tags={JOB: job, SPINS_UP: YES}), limit=RUNS_LOOKED_AT)
    found: set[str] = set()
    fates: dict[str, bool] = {}
    for run in runs:
        root = run.root_run_id or run.run_id
        if root not in fates:
            fates[root] = _ended_badly(instance, root)
        if fates[root]:
            found.update(spin_ups_noted(run.tags))
    return frozenset(found), len(runs) < RUNS_LOOKED_AT


def _by_audit(client: PlacementClient) -> tuple[Mapping[str, str], str]:
    try:
        return client.standby_origins(), "the audit topic has no start of it on request"
    except SamzaDagsterError as error:
        return {}, str(error)


def _not_known(standby: str, why: str) -> Finding:
    return Finding(
        standby,
        "it was spun up on request, its answer is cleaned up, and whether a run of ours that"
        f" didn't end well asked for it isn't known: {why}",
        f"samza-dagster control-standby stop {standby} if nobody wants it; or no_extra: true",
    )


_OLDER_RUNS = Finding(
    "runs",
    f"more than {RUNS_LOOKED_AT:,} have spun up a standby: what older ones left over isn't known",
    "no_extra: true, if nobody wants the standbys that were spun up on request",
)


def _ended_badly(instance: dg.DagsterInstance, root: str) -> bool:
    chain = [run.run_id for run in chain_of(instance, root)]
    records = instance.get_run_records(dg.RunsFilter(run_ids=chain))
    runs = (record.dagster_run for record in records)
    newest = next((run for run in runs if not is_never_submitted(instance, run)), None)
    return newest is not None and newest.status in _ENDED_BADLY
