"""The job `rolling_bounce`: plan, bounce, summarize; in process, as all placement jobs are.

What the ops do is imported when they run: every process that loads the definitions pays for the rest.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from functools import cache
from typing import Any

import dagster as dg

from samza_dagster.orchestration.history.names import BOUNCES, GROUP
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.operations.planning import PLAN, plan_outs
from samza_dagster.orchestration.operations.runs import NAME
from samza_dagster.orchestration.plans.bounce_config import RollingBounceConfig
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tags

RETRIES = 5


@dg.op(out=plan_outs(UnitsPlan, "The plan as text, on a dry run."))
def plan_bounce(
    context: dg.OpExecutionContext,
    config: RollingBounceConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Decides the order, once for a chain of re-executions, and prints what will be asked of whom."""
    from samza_dagster.orchestration.bounce import run

    yield from run.planned(context, config, samza, samza_policies)


@dg.op(out=dg.Out(description="What became of each container."))
def bounce(context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource) -> Any:
    """Restarts one container after the other, and goes on only when it is back."""
    from samza_dagster.orchestration.bounce import run

    return run.carried_out(context, plan, samza)


@dg.op(out=dg.Out(str, description="How the bounce ended, in some lines."))
def summarize_bounce(
    context: dg.OpExecutionContext, plan: UnitsPlan, result: Any, samza: SamzaClientResource
) -> Iterator[dg.Output[str]]:
    """Tells who was bounced and who wasn't, with the map of hosts and containers before and after."""
    from samza_dagster.orchestration.bounce import run

    yield from run.summarized(context, plan, result, samza)


@dg.graph(name=NAME)
def _rolling_bounce_graph() -> None:
    """Restarts the job's containers where they are: standbys first, a few at a time.

    A canary goes first; each must run, process and have its lag back before its place is
    free again; a budget of failures stops it. Terminated, it goes on when it is re-executed.
    """
    plan = getattr(plan_bounce(), PLAN)
    summarize_bounce(plan, bounce(plan))


def bounce_history_spec(
    job: str, prefix: str = "", partitions: dg.PartitionsDefinition[str] | None = None
) -> dg.AssetSpec:
    """The asset that holds an event for each container that was bounced."""
    return dg.AssetSpec(
        asset_key(prefix, BOUNCES),
        partitions_def=partitions,
        group_name=GROUP,
        description=f"Each container of {job} that a rolling bounce restarted: seconds down, seconds"
        " until it was back, and how far the bounce was.",
        kinds={"kafka"},
    )


@cache
def rolling_bounce_job(job: str) -> dg.JobDefinition:
    """The bounce of one Samza job; `job` is the value of tag `samza/job`.

    Its container group is its own name: the queue runs one bounce of a job at a time. Where
    the instance has `run_retries` enabled, Dagster goes on by itself when a worker dies.
    """
    return _rolling_bounce_graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=NAME,
        executor_def=dg.in_process_executor,
        tags={
            **job_tags(job, NAME),
            "dagster/max_retries": str(RETRIES),
            "dagster/retry_on_asset_or_op_failure": "false",
        },
    )
