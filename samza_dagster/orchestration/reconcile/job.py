"""`reconcile`: brings a job back to its wanted placement after something half done."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.errors import Refused
from samza_dagster.orchestration.follow import errors_as_failures
from samza_dagster.orchestration.moves import host_map
from samza_dagster.orchestration.planning import PLAN, former_record, tag_run
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.reconcile.findings import Finding
from samza_dagster.orchestration.reconcile.left_over import left_over
from samza_dagster.orchestration.reconcile.steps import Wanted, reconcile
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import table
from samza_dagster.orchestration.tags import job_tag
from samza_dagster.orchestration.units.ops import (
    OUTS,
    carry_out_units,
    outcome_metadata,
    refusals,
    told_plan,
)
from samza_dagster.orchestration.units.plan import SeveralConfig, UnitsPlan

ACTION = "reconcile"


class ReconcileConfig(SeveralConfig):
    """What the placement should be."""

    wanted: dict[str, str] = Field(
        default_factory=dict,
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
            wanted = Wanted(
                standbys=config.standbys,
                pins=config.wanted,
                ours=left.standbys,
                no_extra=config.no_extra,
                allowed=tuple(samza_policies.hosts),
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
            )
            against = refusals(client, first_of_groups(plan))
            if against:
                raise Refused(f"reconcile: {'; '.join(against)}")
    for finding in findings:
        context.log.warning(f"{finding.about}: {finding.seen}. To do: {finding.to_do}")
    for output in told_plan(context, plan, asked, dry_run=config.dry_run):
        extra = {"findings": _findings_table(findings)}
        yield dg.Output(output.value, output.output_name, metadata={**output.metadata, **extra})


@dg.op(out=dg.Out(int, is_required=False, description="Steps that were needed."))
def carry_out_reconcile(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """Asks for what isn't as wanted, one at a time in each group."""
    with errors_as_failures():
        client = samza.client
        progress = carry_out_units(context, client, plan)
        if progress is None:
            return
        metadata = outcome_metadata(client, plan, progress)
        left = reconcile(client.view(), Wanted())
    metadata["findings_after"] = _findings_table(left.findings)
    yield dg.Output(len(progress), metadata=metadata)


@dg.graph(name=ACTION)
def reconcile_graph() -> None:
    """Brings the job back to its wanted placement: number of standbys, legal hosts, pins, nothing left over.

    A dry run shows the steps and why. Groups in which an action is under way, or a
    container doesn't run, are left alone and told of.
    """
    carry_out_reconcile(getattr(plan_reconcile(), PLAN))


def first_of_groups(plan: UnitsPlan) -> tuple[Any, ...]:
    """The first unit of each group: later ones count on what it has done."""
    seen: set[str] = set()
    first: list[Any] = []
    for unit in plan.units:
        if unit.group not in seen:
            seen.add(unit.group)
            first.append(unit)
    return tuple(first)


def _findings_table(findings: Sequence[Finding]) -> dg.TableMetadataValue:
    rows = [{"about": f.about, "seen": f.seen, "to do": f.to_do} for f in findings]
    return table(rows, ("about", "seen", "to do"))
