"""How an op shows its plan, keeps it for re-executions, and finds it again.

A dry run says how long an active is expected to be down: as long as was measured last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar, cast

import dagster as dg

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.chain import (
    PLAN_RECORD,
    former_plan,
    kept,
    others_of_chain,
    read_back,
)
from samza_dagster.orchestration.plans.move import MovePlan
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.requests.follow import TO_FIRST_COMMIT, Metadata
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry, tags_from_run_config

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

PLAN = "plan"
PREVIEW = "preview"
STOPPING_ACTIVES = (
    *("move_container", "restart_container", "move_with_standby", "fail_over"),
    *("move_via_new_standby", "drain_host"),
)
RUNS_LOOKED_AT = 1_000
LOGS_READ = 20
NONE_STOPPED = "No active is stopped for it."
Plan = TypeVar("Plan", bound=MovePlan | UnitsPlan)


def plan_outs(of: type, preview: str = "The plan as text, on a dry run.") -> dict[str, dg.Out]:
    """Return the outs of an op that plans: the plan to be carried out, or a text alone."""
    return {
        PLAN: dg.Out(of, is_required=False, description="What the next ops carry out."),
        PREVIEW: dg.Out(str, is_required=False, description=preview),
    }


def plan_output(
    context: dg.OpExecutionContext,
    plan: MovePlan | UnitsPlan,
    text: str,
    metadata: Metadata,
    *,
    asked: Mapping[str, Any],
    dry_run: bool,
) -> dg.Output[Any]:
    """Return the plan as its op's output, with the record that re-executions for what was `asked` find.

    On a dry run it is the text alone, with the downtime that is expected.
    """
    if dry_run:
        text = f"{text}\n\n{_expected_downtime(context, plan)}"
    context.log.info(text)
    shown: Metadata = {
        "what": dg.MetadataValue.md(text),
        "coordinator": plan.coordinator,
        **metadata,
    }
    if dry_run:
        return dg.Output(text, PREVIEW, metadata={**shown, "dry_run": True})
    shown[PLAN_RECORD] = dg.MetadataValue.json(kept({"asked": asked, "plan": asdict(plan)}))
    return dg.Output(plan, PLAN, metadata=shown)


def plan_of_chain(
    context: dg.OpExecutionContext, of: type[Plan], asked: Mapping[str, Any]
) -> Plan | None:
    """Return the plan that an earlier run of this chain made for the same ask."""
    record = former_plan(context.instance, others_of_chain(context), asked)
    return None if record is None else read_back(of, record)


def require_commits_readable(client: PlacementClient, plan: MovePlan | UnitsPlan) -> None:
    """Raise `Unreachable` if nothing could show that an active works again after its stop.

    The job's checkpoint topic shows it, unless `verify_timeout_s` is 0.
    """
    if not plan.stops_active or not plan.limits.verify_timeout_s:
        return
    try:
        client.checkpoints_end()
    except Unreachable as error:
        raise Unreachable(
            "whether an active processes once it has moved, before it is stopped",
            seen=error.seen or error.asked,
            fix=f"{error.fix}; or verify_timeout_s 0: nobody waits for its first commit then",
        ) from error


def tag_run(context: dg.OpExecutionContext) -> None:
    """Tags the run by its config where no partition did at submission.

    The limit counts it from then on against runs that are still queued.
    """
    run = context.run
    implied = tags_from_run_config(run.run_config, run.tags, run.run_id)
    missing = {k: v for k, v in implied.items() if run.tags.get(k) != v}
    if missing:
        context.instance.add_run_tags(run.run_id, missing)


def last_downtime(
    instance: dg.DagsterInstance, job: str, action: str
) -> tuple[float, dg.DagsterRun] | None:
    """Seconds from an active's stop to its successor's first commit, and the run that measured it.

    None: none has; a run that doesn't wait for the first commit (`verify_timeout_s` 0) doesn't.
    `job` is the value of tag `samza/job`. The newest run of this action, else of any other that
    stops actives; of each the logs of the newest `LOGS_READ` that weren't dry runs are read.
    """
    return _measured(instance, job, [action]) or _measured(instance, job, STOPPING_ACTIVES)


def _measured(
    instance: dg.DagsterInstance, job: str, actions: Sequence[str]
) -> tuple[float, dg.DagsterRun] | None:
    runs = instance.get_runs(
        dg.RunsFilter(
            tags={JOB: job, ACTION: list(actions)}, statuses=[dg.DagsterRunStatus.SUCCESS]
        ),
        limit=RUNS_LOOKED_AT,
    )
    for run in [run for run in runs if not is_dry(run.run_config)][:LOGS_READ]:
        seconds = _seconds_of_an_active(instance, run)
        if seconds is not None:
            return seconds, run
    return None


def _seconds_of_an_active(instance: dg.DagsterInstance, run: dg.DagsterRun) -> float | None:
    for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
        output = event.dagster_event.step_output_data if event.dagster_event else None
        metadata = cast("Mapping[str, object]", output.metadata if output else {})
        for key, value in metadata.items():
            if key.startswith("move") and key.endswith(TO_FIRST_COMMIT):
                return _number(value)
    return None


def _number(value: object) -> float | None:
    found: object = getattr(value, "value", None)
    return float(found) if isinstance(found, int | float) else None


def _expected_downtime(context: dg.OpExecutionContext, plan: MovePlan | UnitsPlan) -> str:
    """Return a dry run's line: what was measured last, that nothing was, or that no active is stopped."""
    if not plan.stops_active:
        return NONE_STOPPED
    tags = context.run.tags
    found = last_downtime(context.instance, tags.get(JOB, plan.job), tags.get(ACTION, ""))
    if found is None:
        return "Expected downtime of an active: not measured yet."
    seconds, run = found
    return (
        f"Expected downtime of an active: {seconds:.1f} s from its stop to its first commit, as in run"
        f" {run.run_id[:8]} ({run.tags.get(ACTION)}); a cold one restores its state on top."
    )
