"""The first op of each job: checks what was asked, decides the plan, prints it on a dry run.

Hosts and standbys are chosen once for a chain of re-executions: a run that is re-executed
whole, after its standby has moved, still means the host where the standby was. All else is
as the config of the run at hand says.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import dagster as dg

from samza_dagster.client import JobView, PlacementClient
from samza_dagster.errors import Refused
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN, STANDBY
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.choices import chosen
from samza_dagster.orchestration.config import (
    FailOverConfig,
    MoveContainerConfig,
    MoveWithStandbyConfig,
    PlacementConfig,
    RelocateStandbyConfig,
    RestartContainerConfig,
    SpinUpStandbyConfig,
)
from samza_dagster.orchestration.operations.planning import (
    plan_of_chain,
    plan_output,
    plan_outs,
    require_commits_readable,
    tag_run,
)
from samza_dagster.orchestration.operations.step import KEEP
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.plans.move import (
    MovePlan,
    find_processor,
    host_for_standby,
    standbys_of,
)
from samza_dagster.orchestration.plans.units import Kind, UnitStep
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import (
    Metadata,
    Row,
    errors_as_failures,
    hosts_for,
    new_standby,
    rows_of,
)
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import hosts_table, lines_within, map_shown

MOST_OF_RULES = 40_000
"""Bytes of what the rules say of each host, in a plan's text."""
OWN_KINDS = {
    "fail_over": Kind.FAIL_OVER,
    "spin_up_standby": Kind.START_STANDBY,
    "move_via_new_standby": Kind.START_STANDBY,
}
"""Actions whose first request isn't one to place a container."""
Config = TypeVar("Config", bound=PlacementConfig)


def plan_op(
    config_type: type[Config],
    decide: Callable[[JobView, Config, PlacementPolicies, Sequence[str]], MovePlan],
    description: str,
) -> dg.OpDefinition:
    """The op `plan_<job>` of the job that `decide` is named after."""

    def plan(
        context: dg.OpExecutionContext,
        config: PlacementConfig,
        samza: SamzaClientResource,
        samza_policies: PlacementPolicies,
    ) -> Iterator[dg.Output[Any]]:
        given = cast("Config", config)

        def explain() -> Sequence[Row]:
            kind = OWN_KINDS.get(decide.__name__, Kind.PLACE)
            return hosts_for(samza.client, given.processor, kind)

        with errors_as_failures(explain):
            tag_run(context)
            processor = chosen(context, config.processor, "processor")
            given = given.model_copy(update={"processor": processor})
            view = samza.client.view()
            former = None if given.dry_run else plan_of_chain(context, MovePlan, _asked(given))
            if former is None:
                preferring = soonest_preferred(view, given, samza.client, samza.hosts)
                made = decide(view, preferring, samza_policies, samza.hosts)
                text = describe(made, view, samza.client)
                if made.kind is not Kind.FAIL_OVER:  # that one is urgent
                    require_commits_readable(samza.client, made)
            else:
                made = decisions.renewed(former, given, samza_policies, samza.hosts)
                text = (
                    f"**{made.action}** of `{made.processor}`: hosts and standbys as an earlier run of"
                    " this chain chose them, all else as this run's config says"
                )
        metadata: Metadata = {
            "hosts_and_containers": map_shown(made.before),
            "hosts_and_containers_table": hosts_table(made.before),
            "processor": made.processor,
            "source_host": made.source_host or "-",
            "destination": made.destination,
        }
        yield plan_output(context, made, text, metadata, asked=_asked(given), dry_run=given.dry_run)

    plan.__annotations__["config"] = config_type  # by it Dagster builds the form
    return dg.op(name=f"plan_{decide.__name__}", description=description, out=plan_outs(MovePlan))(
        plan
    )


def soonest_preferred(
    view: JobView, config: Config, client: PlacementClient, hosts: Sequence[str]
) -> Config:
    """The config with the standby soonest ready where it names none, and no coordinator chooses one.

    By the published readiness; where there is none that may be used, as it is.
    """
    if not isinstance(config, MoveWithStandbyConfig) or config.standby is not None:
        return config
    standbys = standbys_of(view, find_processor(view, config.processor))
    chooses = view.capabilities.has_standby_destination and not hosts
    if len(standbys) < 2 or chooses:
        return config
    now = client.standbys_now(config.processor)
    if not now.notices:
        return config
    running = [one.processor_id for one in standbys if one.state == standbys[0].state]
    soonest = next((one for one in now.standbys if one in running), running[0])
    return config.model_copy(update={"standby": soonest})


plan_move_container = plan_op(
    MoveContainerConfig,
    decisions.move_container,
    "Checks processor and destination; decides nothing that the coordinator decides.",
)
plan_restart_container = plan_op(
    RestartContainerConfig,
    decisions.restart_container,
    "Checks the processor; the destination is where it was last seen.",
)
plan_move_with_standby = plan_op(
    MoveWithStandbyConfig,
    decisions.move_with_standby,
    "Checks the active, finds its standby and, without a destination, takes the standby's host.",
)
plan_relocate_standby = plan_op(
    RelocateStandbyConfig,
    decisions.relocate_standby,
    "Checks the standby and, without a destination, chooses a host for it.",
)
plan_fail_over = plan_op(
    FailOverConfig,
    decisions.fail_over,
    "Checks the active and that a standby runs; the coordinator takes the one soonest ready.",
)
plan_spin_up_standby = plan_op(
    SpinUpStandbyConfig,
    decisions.spin_up_standby,
    "Checks the active, the number of its standbys and the destination.",
)


def describe(plan: MovePlan, view: JobView, client: PlacementClient) -> str:
    """The plan as Markdown: each step, and what the rules say of every host.

    Raises `Refused` when the first request would be refused, before anything is asked; and when
    Samza's AM may end the job for the second.
    """
    lines = [f"**{plan.action}** of processor `{plan.processor}` of `{plan.job}`", ""]
    steps, about = list[str](), plan.processor
    makes_room = plan.standby is not None and plan.standby_host == plan.destination
    if plan.kind is not Kind.PLACE:
        ruled = client.plan_own(RequestKind(plan.kind), plan.processor, plan.destination)
        steps += ruled.steps
    elif plan.standby is not None and makes_room:
        ends = (plan.source_host, plan.destination, plan.allowed_hosts)
        away, about = host_for_standby(view, plan.standby, *ends, makes_room=True), plan.standby
        ruled = client.plan(plan.standby, away)
        steps.append(f"standby `{plan.standby}` leaves `{plan.standby_host}` for `{away}`")
        steps += _steps(plan)
    else:
        ruled = client.plan(
            plan.processor,
            plan.destination,
            allow_unknown_host=plan.allow_unknown_host,
            beyond_budget=plan.beyond_budget,
        )
        is_one = plan.destination == STANDBY
        one = (*ruled.steps, "all of it is one request: stages RESERVING_STANDBY to STARTING")
        steps += one if is_one else _steps(plan)
    verify_s, fate = plan.limits.verify_timeout_s, plan.if_it_fails
    if plan.kind is Kind.START_STANDBY:
        warm = plan.limits.catch_up
        steps.append(
            f"wait until it is at most {warm.lag_limit:,} records behind for {warm.steady_s:g} s"
            f" (within {warm.timeout_s:g} s)"
        )
    if fate:
        gives = "stops and is removed; its store stays there, warm"
        gives = "leaves for another legal host and is kept" if plan.keep_standby else gives
        steps += [f"the new standby on `{plan.destination}` {gives}", *_steps(plan)]
    if verify_s and (fate or plan.kind is not Kind.START_STANDBY):
        steps.append(f"verify that it runs and processes (within {verify_s:g} s)")
    if fate:
        kept = "kept" if fate == KEEP else "removed"
        steps.append(f"if it fails before that, the new standby is {kept}")
    lines += [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    refusal, notices = ruled.refusal, [*ruled.notices]
    if plan.kind is Kind.FAIL_OVER or plan.destination == STANDBY or plan.standby is not None:
        notices += client.standbys_now(plan.processor).notices
    budget = view.stop_budgets.get(plan.processor)
    if makes_room and budget is not None:  # the second request: nothing is to be left half done
        refused = budget.refusal(f"place {plan.processor}")
        refusal = refusal or (str(refused) if refused is not None else None)
        notices += [budget.notice()] if budget.is_low() else []
    lines += ["", *(f"- {notice}" for notice in notices)]
    lines += ["", "| host | may take the first | rule | seen | fix |", "|---|---|---|---|---|"]
    rows = [
        f"| {v.host} | {'yes' if v.legal else 'no'} | {v.rule} | {v.seen} | {v.fix or '-'} |"
        for v in ruled.hosts
    ]
    lines += lines_within(rows, MOST_OF_RULES, "| … | and {} more hosts | | | |")
    if refusal is not None:
        about = new_standby(about) if plan.kind is Kind.START_STANDBY else about
        raise Refused(
            f"{plan.action} of {plan.processor}: {refusal}", hosts=rows_of(about, ruled.hosts)
        )
    return "\n".join(lines)


def _steps(plan: MovePlan) -> list[str]:
    where = f"`{plan.processor}` on `{plan.source_host}`: reserve `{plan.destination}`"
    within = f" (within {plan.limits.request_expiry_s:g} s)"
    step = UnitStep("", Kind.PLACE, plan.processor, plan.destination)
    if step.is_held_by(plan.coordinator):
        return [
            f"{where}{within} and hold it: the container is untouched until then",
            "commit: stop, start there",
        ]
    if capabilities(plan.coordinator).places_tasks:
        here = f"`{plan.processor}` at `{plan.source_host}`"
        if plan.destination == LAST_SEEN:
            return [f"{here}: it ends its containers and starts them again; no task moves"]
        return [f"{here}: the leader makes a version of the group for `{plan.destination}`{within}"]
    return [f"{where}{within}, stop, start there: one request, which holds nothing between"]


def _asked(config: PlacementConfig) -> dict[str, Any]:
    return {name: getattr(config, name, None) for name in ("processor", "destination", "standby")}
