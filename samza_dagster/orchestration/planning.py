"""The first op of each job: checks what was asked, decides the plan, prints it on a dry run.

A plan is made once for a chain of re-executions: a run that is re-executed whole, after
its standby has moved, still means the host where the standby was.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, cast

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.config import (
    MoveContainerConfig,
    MoveWithStandbyConfig,
    PlacementConfig,
    RestartContainerConfig,
)
from samza_dagster.orchestration.follow import Metadata, errors_as_failures
from samza_dagster.orchestration.moves import (
    HostRow,
    MovePlan,
    find_processor,
    host_for_standby,
    host_map,
    standby_for,
)
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.ports import JobView, Placement
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tables import map_markdown
from samza_dagster.orchestration.tags import tags_from_run_config

PLAN = "plan"
PREVIEW = "preview"
OUTS = {
    PLAN: dg.Out(MovePlan, is_required=False, description="What the next ops carry out."),
    PREVIEW: dg.Out(str, is_required=False, description="The plan as text, on a dry run."),
}


@dg.op(out=OUTS)
def plan_move_container(
    context: dg.OpExecutionContext,
    config: MoveContainerConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Checks processor and destination; decides nothing that the coordinator decides."""

    def decide(view: JobView) -> MovePlan:
        processor = find_processor(view, config.processor)
        return _plan(
            view,
            "move_container",
            config,
            samza_policies,
            source=processor.host,
            destination=config.destination,
        )

    yield from _planned(context, config, samza, decide)


@dg.op(out=OUTS)
def plan_restart_container(
    context: dg.OpExecutionContext,
    config: RestartContainerConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Checks the processor; the destination is where it was last seen."""

    def decide(view: JobView) -> MovePlan:
        processor = find_processor(view, config.processor)
        return _plan(
            view,
            "restart_container",
            config,
            samza_policies,
            source=processor.host,
            destination=LAST_SEEN,
        )

    yield from _planned(context, config, samza, decide)


@dg.op(out=OUTS)
def plan_move_with_standby(
    context: dg.OpExecutionContext,
    config: MoveWithStandbyConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Checks the active, finds its standby and, without a destination, takes the standby's host."""

    def decide(view: JobView) -> MovePlan:
        active = find_processor(view, config.processor)
        standby = standby_for(view, active, config.standby)
        destination = config.destination or cast("str", standby.host)
        if destination == active.host:
            raise Refused(
                "the destination must be another host than the active's",
                seen=f"{active.processor_id} is on {destination}",
                fix="restart_container to start it again where it is",
            )
        return _plan(
            view,
            "move_with_standby",
            config,
            samza_policies,
            source=active.host,
            destination=destination,
            standby=standby.processor_id,
            standby_host=standby.host,
        )

    yield from _planned(context, config, samza, decide)


def _plan(
    view: JobView,
    action: str,
    config: PlacementConfig,
    policies: PlacementPolicies,
    *,
    source: str | None,
    destination: str,
    standby: str | None = None,
    standby_host: str | None = None,
) -> MovePlan:
    def given(value: int | None, policy: int) -> float:
        return float(policy if value is None else value)

    return MovePlan(
        job=f"{view.job_name}/{view.job_id}",
        action=action,
        deployment_id=view.deployment_id or "",
        processor=config.processor,
        source_host=source,
        destination=destination,
        request_expiry_s=given(config.request_expiry_s, policies.request_expiry_s),
        timeout_s=given(config.timeout_s, policies.timeout_s),
        verify_timeout_s=given(config.verify_timeout_s, policies.verify_timeout_s),
        before=host_map(view),
        standby=standby,
        standby_host=standby_host,
        allowed_hosts=tuple(policies.hosts),
    )


def _planned(
    context: dg.OpExecutionContext,
    config: PlacementConfig,
    samza: SamzaClientResource,
    decide: Callable[[JobView], MovePlan],
) -> Iterator[dg.Output[Any]]:
    with errors_as_failures():
        _tag_run(context)
        view = samza.client.view()
        former = None if config.dry_run else _former_plan(context, config)
        plan = former or decide(view)
        text = (
            describe(plan, view, samza.client)
            if former is None
            else f"**{plan.action}** of `{plan.processor}`: the plan of an earlier run of this chain"
        )
    context.log.info(text)
    metadata: Metadata = {
        "what": dg.MetadataValue.md(text),
        "hosts_and_containers": dg.MetadataValue.md(map_markdown(plan.before)),
        "processor": plan.processor,
        "source_host": plan.source_host or "-",
        "destination": plan.destination,
    }
    if config.dry_run:
        yield dg.Output(text, PREVIEW, metadata={**metadata, "dry_run": True})
        return
    record = {"asked": _asked(config), "plan": asdict(plan)}
    yield dg.Output(plan, PLAN, metadata={**metadata, "plan_record": dg.MetadataValue.json(record)})


def describe(plan: MovePlan, view: JobView, client: Placement) -> str:
    """The plan as Markdown: each step, and what the rules say of every host.

    Raises `Refused` when the first request would be refused, before anything is asked.
    """
    lines = [f"**{plan.action}** of processor `{plan.processor}` of `{plan.job}`", ""]
    steps: list[str] = []
    makes_room = (
        plan.standby is not None
        and view.processors[plan.standby].host == plan.destination
        and view.processors[plan.processor].host != plan.destination
    )
    if makes_room and plan.standby is not None:
        away = host_for_standby(
            view, plan.standby, plan.source_host, plan.destination, plan.allowed_hosts
        )
        steps.append(f"standby `{plan.standby}` leaves `{plan.standby_host}` for `{away}`")
        ruled = client.plan(plan.standby, away)
    else:
        ruled = client.plan(plan.processor, plan.destination)
    steps.append(
        f"`{plan.processor}` on `{plan.source_host}`: reserve `{plan.destination}`"
        f" (within {plan.request_expiry_s:g} s), stop, start there"
    )
    if plan.verify_timeout_s:
        steps.append(f"verify that it runs and processes (within {plan.verify_timeout_s:g} s)")
    lines += [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    lines += ["", *(f"- {notice}" for notice in ruled.notices)]
    lines += ["", "| host | may take the first | rule | seen | fix |", "|---|---|---|---|---|"]
    lines += [
        f"| {v.host} | {'yes' if v.legal else 'no'} | {v.rule} | {v.seen} | {v.fix or '-'} |"
        for v in ruled.hosts
    ]
    if ruled.refusal is not None:
        raise Refused(f"{plan.action} of {plan.processor}: {ruled.refusal}")
    return "\n".join(lines)


def _asked(config: PlacementConfig) -> dict[str, Any]:
    return {
        "processor": config.processor,
        "destination": getattr(config, "destination", None),
        "standby": getattr(config, "standby", None),
    }


def _former_plan(context: dg.OpExecutionContext, config: PlacementConfig) -> MovePlan | None:
    """The plan that an earlier run of this chain made for the same ask."""
    root = context.run.root_run_id
    if root is None:
        return None
    group = context.instance.get_run_group(root)
    runs = sorted(group[1], key=lambda run: run.run_id != root) if group else []
    for run in runs:
        if run.run_id == context.run.run_id:
            continue
        for event in context.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
            output = event.dagster_event.step_output_data if event.dagster_event else None
            value = output.metadata.get("plan_record") if output else None
            record = cast("dict[str, Any]", value.value) if value is not None else None
            if record is not None and record["asked"] == _asked(config):
                return _plan_from(record["plan"])
    return None


def _plan_from(record: dict[str, Any]) -> MovePlan:
    fields = dict(record)
    fields["allowed_hosts"] = tuple(record["allowed_hosts"])
    fields["before"] = tuple(
        HostRow(r["host"], r["state"], tuple(r["containers"])) for r in record["before"]
    )
    return MovePlan(**fields)


def _tag_run(context: dg.OpExecutionContext) -> None:
    """Tags the run late where the instance's run coordinator didn't at submission.

    The limit counts it from then on against runs that are still queued.
    """
    implied = tags_from_run_config(context.run.run_config, context.run.tags)
    missing = {k: v for k, v in implied.items() if context.run.tags.get(k) != v}
    if missing:
        context.instance.add_run_tags(context.run.run_id, missing)
