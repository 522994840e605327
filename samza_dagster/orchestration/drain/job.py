"""`drain_host`: empties a host, each active by way of a warm standby. What its ops do is imported when they run."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from typing import Any

import dagster as dg

from samza_dagster.orchestration.drain.config import ACTION, DrainHostConfig
from samza_dagster.orchestration.operations.planning import PLAN, plan_outs
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource


@dg.op(out=plan_outs(UnitsPlan))
def plan_drain_host(
    context: dg.OpExecutionContext,
    config: DrainHostConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Chooses for each container on the host how it leaves and where to; all together or none."""
    from samza_dagster.orchestration.drain import run

    yield from run.planned(context, config, samza, samza_policies)


@dg.op(out=dg.Out(int, description="Containers that left."))
def drain(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """Moves them, at most so many at a time; ends when none of the job is on the host."""
    from samza_dagster.orchestration.drain import run

    yield from run.drained(context, plan, samza)


@dg.graph(name=ACTION)
def drain_host_graph() -> None:
    """Empties a host. Standbys are relocated; an active goes onto its warm standby's host.

    An active without a warm standby elsewhere gets one for the move, which is gone afterwards. All destinations are named before the first request,
    none of them a host that another run of this job drains.
    """
    drain(getattr(plan_drain_host(), PLAN))
