"""Steering a bounce from the UI: a small job tells it what to do, a sensor goes on with a paused one."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.chain import ROOT as CHAIN
from samza_dagster.orchestration.config import SaidConfig
from samza_dagster.orchestration.job_sensor import LaunchingSensor, started
from samza_dagster.orchestration.moves.planning import tag_run
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.operations import control
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.tags import (
    ACTION,
    FROM_CONFIG,
    GROUP,
    JOB,
    PARTITION,
    SLOT,
    STEERED,
    TICKET,
    WHO,
    WHY,
    is_of_all,
    job_tags,
)
from samza_dagster.orchestration.ticks import least_seconds

CONTROL_JOB = "control_bounce"
_KEPT = (WHO, WHY, TICKET, STEERED, control.PROGRESS, PARTITION)
_OF_JOB = (JOB, SLOT, GROUP)
"""What a run of a component of several Samza jobs has, and of one each run has by its definition."""


class ControlBounceConfig(SaidConfig):
    """Which bounce, what to do with it, who wants that and why."""

    action: control.BounceAction = Field(
        description="pause: what is in flight is finished, then the run ends and can be resumed; "
        "resume: a new run goes on with it; abort: nothing more is asked, holds are given back."
    )
    run_id: str = Field(
        default="",
        max_length=64,
        description="The run, or the first characters of its id: of a bounce, a drain or a "
        "reconciliation. Empty: the newest bounce that "
        "the action fits.",
    )
    dry_run: bool = Field(
        default=False,
        description="Print which bounce is meant and what would happen; tell it nothing.",
    )


@dg.op(out=dg.Out(str, description="What happens now."))
def steer_bounce(context: dg.OpExecutionContext, config: ControlBounceConfig) -> str:
    """Sets run tag `samza/bounce-control` on the bounce; it is heard within a second."""
    from samza_dagster.orchestration.operations.steered import By

    tag_run(context)
    with errors_as_failures():
        run, answer = control.steer(
            context.instance,
            config.action,
            config.run_id,
            context.run.tags.get(JOB),
            by=By(config.requested_by, config.reason, config.ticket),
            dry_run=config.dry_run,
        )
    answer = f"dry run: {answer}" if config.dry_run else answer
    context.log.info(f"{config.action.value} {run.run_id}: {answer}")
    context.add_output_metadata(
        {
            "run": dg.MetadataValue.dagster_run(run.run_id),
            "action": config.action.value,
            "who": config.requested_by or "-",
            "why": config.reason or "-",
            "ticket": config.ticket or "-",
            "progress": run.tags.get(control.PROGRESS, "-"),
            "what_happens_now": answer,
        }
    )
    return answer


@dg.graph(name=CONTROL_JOB)
def _control_bounce_graph() -> None:
    """Pauses, resumes or aborts a rolling bounce: the newest that the action fits, or the one named.

    A drain or a reconciliation, too, by its run's id.
    """
    steer_bounce()


def control_bounce_job(job: str) -> dg.JobDefinition:
    """The steering of one Samza job's bounces; `job` is the value of tag `samza/job`."""
    return _control_bounce_graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=CONTROL_JOB, executor_def=dg.in_process_executor, tags=job_tags(job, CONTROL_JOB)
    )


def bounce_resume_sensor(
    job: str, jobs: Sequence[Any], interval_s: int = 5, *, running: bool = True, prefix: str = ""
) -> dg.SensorDefinition:
    """`bounce_resume`: launches the run that goes on with what is to be resumed.

    `job` is the value of tag `samza/job`; that of each, in a component of several. `jobs` are those
    that can be paused. Once for each ended run, whatever ticks are missed or repeated: by its run key.
    """
    several, names = is_of_all(job), {one.name for one in jobs}

    def bounce_resume(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = control.to_resume(context.instance, "" if several else job)
        requests = [
            _resuming_run(run, _OF_JOB if several else ()) for run in found if run.job_name in names
        ]
        if requests:
            return dg.SensorResult(run_requests=requests)
        return dg.SkipReason("no bounce is to be resumed")

    return LaunchingSensor(
        name=named(prefix, "bounce_resume"),
        evaluation_fn=bounce_resume,
        jobs=list(jobs),
        minimum_interval_seconds=least_seconds(interval_s),
        default_status=started(running),
        description="Goes on with a bounce, a drain or a reconciliation that was paused, aborted or"
        " stopped, and is told to resume.",
    )


def _resuming_run(run: dg.DagsterRun, of_job: Sequence[str]) -> dg.RunRequest:
    from samza_dagster.orchestration.operations.steered import resumed_by, tags_of

    kept = [*_KEPT, *of_job]
    if run.tags.get(control.BOUNCE) == control.PAUSED:
        kept.append(control.BOUNCE)  # as long as this one hasn't begun
    order = resumed_by(run.tags)
    said = tags_of(order) if order is not None else {}
    root = control.root_of(run)
    chain = {CHAIN: root} if run.tags[ACTION] != control.NAME else {}
    return dg.RunRequest(
        run_key=f"resume/{run.run_id}",
        job_name=run.job_name,
        run_config=_said_in(run, said),
        tags={
            **chain,
            control.ROOT: root,
            control.RESUMES: run.run_id,
            **{tag: run.tags[tag] for tag in kept if tag in run.tags},
            **said,
        },
    )


def _said_in(run: dg.DagsterRun, said: Mapping[str, str]) -> dict[str, Any]:
    """The config with who resumes, as far as that was said: tags are made of the config."""
    made: dict[str, Any] = copy.deepcopy(dict(run.run_config))
    if said:
        action = run.tags[ACTION]
        plan = "plan_bounce" if action == control.NAME else f"plan_{action}"
        config = made.setdefault("ops", {}).setdefault(plan, {}).setdefault("config", {})
        config.update({FROM_CONFIG[tag]: text for tag, text in said.items()})
    return made
