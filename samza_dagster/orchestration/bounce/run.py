"""What the ops of `rolling_bounce` do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.bounce import alone
from samza_dagster.orchestration.history.names import BOUNCES
from samza_dagster.orchestration.names import asset_key
from samza_dagster.orchestration.operations import runs
from samza_dagster.orchestration.operations.canary import looked_up
from samza_dagster.orchestration.operations.planning import (
    plan_of_chain,
    plan_output,
    require_commits_readable,
    tag_run,
)
from samza_dagster.orchestration.operations.progress import Result, RunEnd
from samza_dagster.orchestration.operations.record import RunLedger, failed_before, known_back
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.operations.shown import summary, summary_metadata
from samza_dagster.orchestration.plans.bounce import asked, describe, make_plan
from samza_dagster.orchestration.plans.bounce_config import RollingBounceConfig
from samza_dagster.orchestration.plans.move import host_map
from samza_dagster.orchestration.plans.order import paced
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import Metadata, errors_as_failures, rows_of
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import hosts_table, map_shown
from samza_dagster.orchestration.text import natural

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

CHECKED = 10


def planned(
    context: dg.OpExecutionContext,
    config: RollingBounceConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """What op `plan_bounce` does."""
    instance, run = context.instance, context.run
    with errors_as_failures():
        runs.begin(instance, run, runs.DRY_RUN if config.dry_run else runs.PLANNED)
        tag_run(context)
        if not config.dry_run:
            alone.check_not_overtaken(instance, run)
            alone.check_alone(instance, run)
        client = samza.client
        view = client.view()
        former = None if config.dry_run else plan_of_chain(context, UnitsPlan, asked(config))
        plan = make_plan(view, config, samza_policies, former)
        notices = _check_first(client, plan)
        if plan.judge is not None and plan.schedule.canaries:
            notices += looked_up(context, plan.judge)
    text = describe(plan)
    if former is not None:
        text += (
            "\n\nThe order is that of an earlier run of this chain: who is back isn't asked again."
        )
    text += "".join(f"\n- {notice}" for notice in notices)
    metadata: Metadata = {"containers": len(plan.processors)}
    if config.dry_run:
        metadata["hosts_and_containers"] = map_shown(plan.before)
        metadata["hosts_and_containers_table"] = hosts_table(plan.before)
    yield plan_output(context, plan, text, metadata, asked=asked(config), dry_run=config.dry_run)


def carried_out(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Result:
    """What op `bounce` does."""
    instance, run = context.instance, context.run
    with errors_as_failures():
        root = runs.root_of(run)
        runs.begin(instance, run, runs.RUNNING)
        alone.check_alone(instance, run)
        ledger = RunLedger(context, plan, asset_key(samza.prefix, BOUNCES), samza.partition)
        rolling = Runner(
            *(samza.client, plan, root, ledger, samza.holds),
            known=known_back(instance, root),
            failed=failed_before(instance, run),
            commits=OwnCommits.of_run(context),
        )
        try:
            result = rolling.run()
        except BaseException as error:
            if isinstance(error, dg.DagsterExecutionInterruptedError):
                instance.add_run_tags(run.run_id, {runs.BOUNCE: runs.TERMINATED})
            ended = rolling.result(RunEnd.TERMINATED, "the run ended before the bounce did")
            context.log.warning(summary(plan, ended))
            raise
        # Before anything that may fail.
        instance.add_run_tags(run.run_id, {runs.BOUNCE: result.end.value})
        is_stopped = result.end is RunEnd.STOPPED
        if is_stopped:
            context.log.warning(summary(plan, result))  # no op comes that would tell it
        after = host_map(samza.client.view())
    metadata = summary_metadata(plan, result, after)
    if is_stopped:
        raise dg.Failure(
            description=f"{result.end}: {result.because}", metadata=metadata, allow_retries=False
        )
    context.add_output_metadata(metadata)
    return result


def summarized(
    context: dg.OpExecutionContext,
    plan: UnitsPlan,
    result: Result,
    samza: SamzaClientResource,
) -> Iterator[dg.Output[str]]:
    """What op `summarize_bounce` does."""
    text = summary(plan, result)
    with errors_as_failures():
        after = host_map(samza.client.view())
    yield dg.Output(text, metadata=summary_metadata(plan, result, after))
    context.log.info(text)


def _check_first(client: PlacementClient, plan: UnitsPlan) -> list[str]:
    """What is to be known before; raises `Refused` when one of the first would be refused now.

    And `Unreachable` as `require_commits_readable`.
    """
    notices: dict[str, None] = {}
    view = client.view()
    there, late = view.processors, paced(view)
    for processor in [p for p in plan.processors if p in there][:CHECKED]:
        # One that is late is asked once its row of stops is over.
        ruled = client.plan(processor, LAST_SEEN, beyond_budget=processor in late)
        if ruled.refusal is not None:
            raise Refused(
                f"bounce of {processor}: {ruled.refusal}", hosts=rows_of(processor, ruled.hosts)
            )
        notices.update(dict.fromkeys(ruled.notices))
    limits = plan.limits
    require_commits_readable(client, plan)
    mine = set(plan.processors)
    lags = [r for r in client.lag() if r.processor_id in mine] if limits.lag_s else []
    untold = {r.processor_id for r in lags if r.lag is None and not r.reason}
    notices.update(
        {f"the lag of {r.processor_id} isn't known: {r.reason}": None for r in lags if r.reason}
    )
    unknown = sorted(
        (p for p in untold if not limits.is_shown_by_work(plan.unit_of[p].mode)), key=natural
    )
    if unknown:
        notices[
            f"nobody tells the lag of {', '.join(unknown[:20])}: without a metrics reporter they don't"
            " count as back; lag_timeout_s 0 doesn't wait for lag"
        ] = None
    return list(notices)
