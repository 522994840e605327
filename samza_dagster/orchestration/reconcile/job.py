"""`reconcile`: brings a job back to its wanted placement after something half done.

What its ops do is imported when they run.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from samza_dagster.orchestration.moves.planning import PLAN, plan_outs
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.reconcile.config import ACTION, ReconcileConfig
from samza_dagster.orchestration.resource import SamzaClientResource


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


@dg.op(out=dg.Out(int, description="Steps that were needed."))
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
