"""`drain_host`: empties a host, each active by way of a warm standby."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.client import JobView, PlacementClient
from samza_dagster.errors import ActionFailed, InvalidInput, Refused, Unreachable
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.choices import chosen
from samza_dagster.orchestration.config import (
    CatchUpConfig,
    HostOrEmpty,
    Hosts,
    IfItFailsConfig,
    RunConfig,
)
from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.planning import (
    PLAN,
    plan_of_chain,
    plan_output,
    plan_outs,
    require_commits_readable,
    tag_run,
)
from samza_dagster.orchestration.operations.runs import UNDER_WAY, RunLedger, root_of
from samza_dagster.orchestration.operations.schedule import RunEnd, UnitStatus
from samza_dagster.orchestration.operations.shown import (
    failures_text,
    longest_downtime,
    outcomes_table,
    pictures,
    plan_markdown,
    plan_table,
    standby_cost,
    steps_table,
)
from samza_dagster.orchestration.operations.step import REMOVE_STANDBY, StepOp
from samza_dagster.orchestration.operations.work import ASKS, UnitWork
from samza_dagster.orchestration.plans.bounce import MOST_AT_ONCE
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units, still_on
from samza_dagster.orchestration.plans.move import UnitLimits, host_map
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies, bounds
from samza_dagster.orchestration.requests.follow import (
    Metadata,
    Row,
    errors_as_failures,
    hosts_for,
    map_after_failure,
    map_metadata,
)
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import ACTION as ACTION_TAG
from samza_dagster.orchestration.tags import GROUP, JOB, is_dry, tags_from_run_config

ACTION = "drain_host"
MOST_CHARACTERS = 5_000  # characters of a failure's description
SETTLES_S = 10.0


class DrainHostConfig(IfItFailsConfig, CatchUpConfig, RunConfig):
    """The host that is emptied, and how."""

    at_once: int = Field(
        default=1,
        ge=1,
        le=MOST_AT_ONCE,
        description="Containers that are worked on at a time. Never two of a group.",
    )
    host: HostOrEmpty = Field(
        default="",
        description="Host to empty of this job's containers. Empty: the partition that is chosen "
        "in the Launchpad; another one than that is refused.",
    )
    destinations: Hosts = Field(
        default=[],
        description="The only hosts to go to; standbys only to those of them that the component "
        "has too, if it names any. Empty: the component's, else any of the job.",
    )
    exclude: Hosts = Field(default=[], description="Hosts that nothing goes to.")
    cold: bool = Field(
        default=False,
        description="Off: an active without a warm standby gets one for the move, which is gone "
        "after it. On: it moves as it is and restores its state at its destination.",
    )

    def limits(self, policies: PlacementPolicies) -> UnitLimits:
        """Bounds of the work: what the config says, else the policy's."""
        warm = self.catch_up(policies.lag_limit, policies.lag_limit_s)
        return UnitLimits(**bounds(self, policies), catch_up=warm)


@dg.op(out=plan_outs(UnitsPlan))
def plan_drain_host(
    context: dg.OpExecutionContext,
    config: DrainHostConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Chooses for each container on the host how it leaves and where to; all together or none."""
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
            against = [*_refusals(client, plan.units), *over_budget(view, plan.units)]
            if against:
                raise Refused(f"drain_host {host}: {'; '.join(against)}")
            plan = replace(plan, notices=budget_notices(view, plan.units))
    metadata: Metadata = {"plan_table": plan_table(plan), "containers": len(plan.units)}
    text = plan_markdown(plan)
    yield plan_output(context, plan, text, metadata, asked=asked, dry_run=config.dry_run)


@dg.op(out=dg.Out(int, description="Containers that left."))
def drain(
    context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource
) -> Iterator[dg.Output[Any]]:
    """Move the containers, at most so many at a time, until none of the job is on the host."""
    with errors_as_failures():
        client = samza.client
        units = _carry_out(context, samza, plan)
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
        view, rows = client.view(), [work.row for work in units]
        via = {row.processor for row in rows if row.standby is not None}
        lags = client.lag() if via else ()
        ends = [replica.end_offset for replica in lags if replica.processor_id in via]
        metadata = {
            **_outcomes(units),
            **map_metadata(plan.before, host_map(view)),
            **standby_cost(rows, view, ends),
            **longest_downtime(rows),
        }
    yield dg.Output(len(units), metadata=metadata)


def _carry_out(
    context: dg.OpExecutionContext, samza: SamzaClientResource, plan: UnitsPlan
) -> Collection[UnitWork]:
    """Carry the plan out; return its units. Raises `dg.Failure` with what failed and what is left."""
    client = samza.client
    work = runner.Runner(
        *(client, plan, root_run_id(context), RunLedger(context, plan), samza.holds),
        commits=OwnCommits.of_run(context),
    )
    units, away = work.units.values(), ""
    try:
        end = work.run().end
    except Unreachable as error:  # for longer than the loop waits
        end, away = RunEnd.STOPPED, str(error)
    except dg.DagsterExecutionInterruptedError:
        _settle_standbys(context, samza, plan, units)
        raise
    if end is not RunEnd.DONE:
        left = _settle_standbys(context, samza, plan, units)
        why_all = "; ".join(filter(None, (away, failures_text([*work.rows.values()]))))
        raise dg.Failure(
            description=f"{plan.what} {plan.subject}: {why_all}"[:MOST_CHARACTERS],
            metadata={
                **_outcomes(units),
                "extra_standbys": left or "none",
                "fix": "re-execute this run from failure: what is done is found done, what failed"
                " is asked anew; a new run makes a new plan",
                **map_after_failure(plan.before, client),
            },
            allow_retries=False,
        )
    return units


def _outcomes(units: Collection[UnitWork]) -> Metadata:
    return {
        "outcomes": outcomes_table([work.row for work in units]),
        "steps": steps_table(units),
        **pictures(units),
    }


def _settle_standbys(
    context: dg.OpExecutionContext,
    samza: SamzaClientResource,
    plan: UnitsPlan,
    units: Collection[UnitWork],
) -> str:
    """Remove or keep the standbys of units that didn't end well; return what became of them."""
    op, outcomes = StepOp(context, samza, plan), list[str]()
    for work in units:
        row, unit = work.row, work.unit
        if row.standby is None or row.standby_until_ms is not None or row.status is UnitStatus.BACK:
            continue
        start = next(step for step in unit.steps if step.kind is Kind.START_STANDBY)
        attempt = f"/{work.standby_attempt}" if work.standby_attempt else ""
        told = op.settle(
            *(row.standby, start.destination, plan.if_it_fails),
            started_by=f"{plan.prefix}/{unit.processor}/{start.name}",
            step=f"{REMOVE_STANDBY}/{row.standby}{attempt}",
            anew="re-executed, this run starts another one",
        )
        outcomes.append(told)
    return "; ".join(outcomes)


def _refusals(client: PlacementClient, units: Sequence[Unit]) -> list[str]:
    """Return what the client's own rules say against the first request of each unit.

    Of the stops that Samza's AM counts `over_budget` tells: they add up over all steps.
    """
    found: list[str] = []
    for unit in units:
        first = next(step for step in unit.steps if step.kind in ASKS)
        about = (first.processor, first.destination)
        try:
            if first.kind is Kind.START_STANDBY:
                refusal = client.plan_own(RequestKind.START_STANDBY, *about).refusal
            else:
                refusal = client.plan(*about, beyond_budget=True).refusal
        except InvalidInput as error:  # it isn't in the job any more
            refusal = str(error)
        found += [f"{unit.processor}: {refusal}"] if refusal else []
    return found


def over_budget(view: JobView, units: Sequence[Unit]) -> list[str]:
    """Return the units with a container that their steps stop more often than Samza's AM may let pass."""
    stops, budgets = _stops(units), view.stop_budgets
    return [
        f"{unit.processor}: {refused}"
        for unit in units
        for p in _stops([unit])
        if p in budgets and (refused := budgets[p].refusal(f"place {p}", stops[p])) is not None
    ]


def budget_notices(view: JobView, units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the notices of stops that Samza's AM counts, before the units' own."""
    budgets = view.stop_budgets
    notices = (budgets[p].notice(stops) for p, stops in _stops(units).items() if p in budgets)
    return tuple(filter(None, notices))


def _stops(units: Sequence[Unit]) -> Counter[str]:
    steps = (step for unit in units for step in unit.steps)
    return Counter(step.processor for step in steps if step.kind is Kind.PLACE)


def _drained_beside(context: dg.OpExecutionContext) -> dict[str, str]:
    """Return host → the run of the same Samza job that drains it, except runs of this chain.

    A queued run counts too.
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


@dg.graph(name=ACTION)
def drain_host_graph() -> None:
    """Empty a host: standbys are relocated, and an active goes to its warm standby's host.

    An active without a warm standby elsewhere gets a temporary one for the move. The plan names all
    destinations before the first request, and none is a host that another run of this job drains.
    """
    drain(getattr(plan_drain_host(), PLAN))
