"""`reconcile`: brings a job back to its wanted placement after something half done.

What its ops do is imported when they run.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.config import Names, Pins
from samza_dagster.orchestration.moves.planning import PLAN, plan_outs
from samza_dagster.orchestration.plans.units import SeveralConfig, UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource

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


@dg.op(out=plan_outs(UnitsPlan))
def plan_reconcile(
    context: dg.OpExecutionContext,
    config: ReconcileConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Compares the job with its wanted placement; tells the steps between them, with reasons."""
    from samza_dagster.orchestration.reconcile import run

    yield from run.planned(context, config, samza, samza_policies)


@dg.op(out=dg.Out(int, is_required=False, description="Steps that were needed."))
def carry_out_reconcile(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """Asks for what isn't as wanted, one at a time in each group; fails in the end if one couldn't."""
    from samza_dagster.orchestration.reconcile import run

    yield from run.reconciled(context, plan, samza)


@dg.graph(name=ACTION)
def reconcile_graph() -> None:
    """Brings the job back to its wanted placement: number of standbys, legal hosts, pins, nothing left over.

    A dry run shows the steps and why. Groups in which an action is under way, or a
    container doesn't run, are left alone and told of. One that is refused or fails keeps no
    other from being mended; the run fails in the end with what is left.
    """
    carry_out_reconcile(getattr(plan_reconcile(), PLAN))
