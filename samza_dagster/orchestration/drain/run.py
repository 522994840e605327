"""What the ops of `drain_host` do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.choices import chosen
from samza_dagster.orchestration.drain.config import ACTION, DrainHostConfig
from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.ops import (
    budget_notices,
    carried_out,
    over_budget,
    refusals,
    units_plan_output,
)
from samza_dagster.orchestration.operations.planning import (
    plan_of_chain,
    require_commits_readable,
    tag_run,
)
from samza_dagster.orchestration.operations.runs import UNDER_WAY, root_of
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units, still_on
from samza_dagster.orchestration.plans.move import host_map
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import Row, errors_as_failures, hosts_for
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import ACTION as ACTION_TAG
from samza_dagster.orchestration.tags import GROUP, JOB, is_dry, tags_from_run_config

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

SETTLES_S = 10.0


def planned(
    context: dg.OpExecutionContext,
    config: DrainHostConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """What op `plan_drain_host` does."""
    limits = config.limits(samza_policies)
    host = config.host

    def explain() -> Sequence[Row]:
        there = still_on(samza.client.view(), host)
        rows = (row for processor in there for row in hosts_for(samza.client, processor))
        return [row for row in rows if row["host"] != host]

    with errors_as_failures(explain):
        tag_run(context)
        host = chosen(context, config.host, "host")
        asked = {
            "host": host,
            "destinations": config.destinations,
            "exclude": config.exclude,
            "cold": config.cold,
        }
        former = None if config.dry_run else plan_of_chain(context, UnitsPlan, asked)
        if former is not None:
            plan = replace(
                former,
                limits=limits,
                schedule=Schedule(at_once=config.at_once),
                if_it_fails=config.if_it_fails,
            )
        else:
            client = samza.client
            view = client.view()
            rules = DrainRules(
                allowed=tuple(config.destinations or samza.hosts),
                named=(*config.destinations, *config.exclude),
                standby_hosts=tuple(samza.hosts),
                excluded=tuple(config.exclude),
                cold=config.cold,
                drained=_drained_beside(context),
            )
            reported, warm = Reported.read(client), limits.catch_up
            plan = UnitsPlan(
                what=ACTION,
                subject=host,
                job=f"{view.job_name}/{view.job_id}",
                coordinator=view.coordinator,
                units=tuple(drain_units(view, host, reported, warm, rules)),
                schedule=Schedule(at_once=config.at_once),
                limits=limits,
                before=host_map(view),
                if_it_fails=config.if_it_fails,
            )
            require_commits_readable(client, plan)
            against = [*refusals(client, plan.units), *over_budget(view, plan.units)]
            if against:
                raise Refused(f"drain_host {host}: {'; '.join(told for _, told in against)}")
            plan = replace(plan, notices=budget_notices(view, plan.units))
    yield units_plan_output(context, plan, asked, dry_run=config.dry_run)


def drained(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """What op `drain` does."""

    def then(client: PlacementClient) -> dict[str, Any]:
        deadline = time.monotonic() + SETTLES_S
        while (there := still_on(client.view(), plan.subject)) and time.monotonic() < deadline:
            time.sleep(runner.POLL_S)
        if there:
            raise ActionFailed(
                f"no container of {plan.job} is on {plan.subject}",
                seen=f"{', '.join(there)} on it: placed there since",
                fix="launch drain_host again: a new run makes a new plan",
            )
        context.log.info(f"no container of {plan.job} is on {plan.subject} any more")
        return {}

    yield from carried_out(context, samza, plan, then)


def _drained_beside(context: dg.OpExecutionContext) -> dict[str, str]:
    """Host → the run of the same Samza job that drains it; none of this chain.

    One that is queued counts, too.
    """
    job, instance = context.run.tags.get(JOB, ""), context.instance
    prefix, root = f"{job}/{ACTION}/", root_run_id(context)
    found: dict[str, str] = {}
    tags = {JOB: job, ACTION_TAG: ACTION}
    for run in instance.get_runs(dg.RunsFilter(tags=tags, statuses=list(UNDER_WAY))):
        group = tags_from_run_config(run.run_config, run.tags).get(GROUP, "")
        is_own = root_of(run) == root
        if group.startswith(prefix) and not is_own and not is_dry(run.run_config):
            found[group.removeprefix(prefix)] = run.run_id
    return found
