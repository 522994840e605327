"""`reconcile`: brings a job back to its wanted placement after something half done."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.config import Names, Pins
from samza_dagster.orchestration.follow import errors_as_failures
from samza_dagster.orchestration.moves import host_map
from samza_dagster.orchestration.operations.ops import (
    OUTS,
    budget_notices,
    carry_out_units,
    failed_before,
    outcome_metadata,
    over_budget,
    refusals,
    require_commits,
    told_plan,
)
from samza_dagster.orchestration.planning import PLAN, former_record, tag_run
from samza_dagster.orchestration.plans.findings import Finding
from samza_dagster.orchestration.plans.reconcile import WantedPlacement, reconcile
from samza_dagster.orchestration.plans.several import SeveralConfig, UnitsPlan
from samza_dagster.orchestration.plans.units import Unit
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.reconcile.left_over import left_over
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.plain_pictures import plain_maps
from samza_dagster.orchestration.show.tables import table_within
from samza_dagster.orchestration.show.units import MOST_OF_ONE
from samza_dagster.orchestration.tags import job_tag

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

ACTION = "reconcile"


class ReconcileConfig(SeveralConfig):
    """What the placement should be."""

    wanted: Pins = Field(
        default={},
        description="Processor id → host that it should be on: a standby's one of the component's, "
        "if it names any. Others may be anywhere legal.",
    )
    standbys: int | None = Field(
        default=None,
        ge=0,
        le=16,
        description="Standbys of each active. Empty: the most that any active has of the job's own.",
    )
    no_extra: bool = Field(
        default=False,
        description="Also remove standbys that somebody spun up on request, beyond that number; "
        "else only those that a failed or cancelled run left over.",
    )
    only: Names = Field(
        default=[],
        description="Processor ids or host names: only their container groups, and those of "
        "whoever is on the hosts. Empty: all.",
    )
    skip: Names = Field(
        default=[],
        description="Processor ids or host names whose groups are left alone.",
    )


@dg.op(out=OUTS)
def plan_reconcile(
    context: dg.OpExecutionContext,
    config: ReconcileConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Compares the job with its wanted placement; tells the steps between them, with reasons."""
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
        former = None if config.dry_run else former_record(context, asked)
        if former is not None:
            plan = replace(UnitsPlan.from_json(former), limits=limits, at_once=config.at_once)
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
            plan = _in_turn(plan, client, view, failed_before(context))
            for told in plan.refused:
                context.log.warning(f"refused, the other groups go on: {told}")
    for finding in findings:
        context.log.warning(f"{finding.about}: {finding.seen}. To do: {finding.to_do}")
    shown = _findings_table(findings)
    yield told_plan(context, plan, asked, dry_run=config.dry_run, findings=shown)


@dg.op(out=dg.Out(int, is_required=False, description="Steps that were needed."))
def carry_out_reconcile(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """Asks for what isn't as wanted, one at a time in each group; fails in the end if one couldn't."""
    with errors_as_failures():
        client = samza.client
        progress = carry_out_units(context, client, plan)
        if progress is None:
            return
        metadata = outcome_metadata(client, plan, progress)
        after = host_map(client.view())
        left = reconcile(client.view(), WantedPlacement())
    metadata["findings_after"] = _findings_table(left.findings)
    yield dg.Output(len(progress), metadata=metadata)
    context.log.info(plain_maps(plan.before, after))


@dg.graph(name=ACTION)
def reconcile_graph() -> None:
    """Brings the job back to its wanted placement: number of standbys, legal hosts, pins, nothing left over.

    A dry run shows the steps and why. Groups in which an action is under way, or a
    container doesn't run, are left alone and told of. One that is refused or fails keeps no
    other from being mended; the run fails in the end with what is left.
    """
    carry_out_reconcile(getattr(plan_reconcile(), PLAN))


def _in_turn(
    plan: UnitsPlan, client: "PlacementClient", view: "JobView", last: Collection[str]
) -> UnitsPlan:
    """The plan without the groups whose first request the client refuses; the groups `last` last.

    Only the first of each is asked about: later ones count on what it has done. Without those too
    for whose requests together Samza's AM may end the job.
    """
    first: dict[str, Unit] = {}
    for unit in plan.units:
        first.setdefault(unit.group, unit)
    against = [*refusals(client, first.values()), *over_budget(view, plan.units)]
    out = {unit.group for unit, _ in against}
    units = [unit for unit in plan.units if unit.group not in out]
    return replace(
        plan,
        units=tuple(sorted(units, key=lambda unit: unit.group in last)),
        refused=tuple(told for _, told in against),
        notices=budget_notices(view, units),
    )


def _findings_table(findings: Sequence[Finding]) -> dg.TableMetadataValue:
    rows = [{"about": f.about, "seen": f.seen, "to do": f.to_do} for f in findings]
    return table_within(rows, ("about", "seen", "to do"), MOST_OF_ONE)
