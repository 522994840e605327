"""The job `rolling_bounce`: plan, bounce, summarize; and `bounces`, each a schedule of it."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops and components as types.

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import Field, field_validator

from samza_dagster.client import PlacementClient
from samza_dagster.errors import Refused
from samza_dagster.model.naming import LAST_SEEN, with_ids
from samza_dagster.orchestration.bounds import text
from samza_dagster.orchestration.history import BOUNCES, GROUP
from samza_dagster.orchestration.names import asset_key, named
from samza_dagster.orchestration.operations import runs
from samza_dagster.orchestration.operations.planning import (
    PLAN,
    plan_of_chain,
    plan_output,
    plan_outs,
    require_commits_readable,
    tag_run,
)
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.operations.runs import NAME, RunLedger, failed_before, known_back
from samza_dagster.orchestration.operations.schedule import RunEnd
from samza_dagster.orchestration.operations.shown import summary, summary_metadata
from samza_dagster.orchestration.operations.watching import looked_up
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig, asked, describe, make_plan
from samza_dagster.orchestration.plans.move import host_map
from samza_dagster.orchestration.plans.order import paced
from samza_dagster.orchestration.plans.units import UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import Metadata, errors_as_failures, rows_of
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import hosts_table, map_shown
from samza_dagster.orchestration.tags import ACTION, JOB, is_of_all, job_tags
from samza_dagster.orchestration.text import in_words, natural

CHECKED = 10
RETRIES = 5


@dg.op(out=plan_outs(UnitsPlan, "The plan as text, on a dry run."))
def plan_bounce(
    context: dg.OpExecutionContext,
    config: RollingBounceConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Decide the order, once for a chain of re-executions, and print every request it will make."""
    instance, run = context.instance, context.run
    with errors_as_failures():
        runs.begin(instance, run, runs.DRY_RUN if config.dry_run else runs.PLANNED)
        tag_run(context)
        if not config.dry_run:
            check_not_overtaken(instance, run)
            check_alone(instance, run)
        client = samza.client
        view = client.view()
        former = None if config.dry_run else plan_of_chain(context, UnitsPlan, asked(config))
        plan = make_plan(view, config, samza_policies, former)
        notices = _check_first(client, plan)
        if plan.judge is not None and plan.schedule.canaries:
            notices += looked_up(context, plan.judge)
    text = describe(plan)
    if former is not None:
        text += "\n\nThe order is that of an earlier run of this chain: containers that are back aren't asked again."
    text += "".join(f"\n- {notice}" for notice in notices)
    metadata: Metadata = {"containers": len(plan.processors)}
    if config.dry_run:
        metadata["hosts_and_containers"] = map_shown(plan.before)
        metadata["hosts_and_containers_table"] = hosts_table(plan.before)
    yield plan_output(context, plan, text, metadata, asked=asked(config), dry_run=config.dry_run)


@dg.op(out=dg.Out(description="What became of each container."))
def bounce(context: dg.OpExecutionContext, plan: UnitsPlan, samza: SamzaClientResource) -> Any:
    """Restarts one container after the other, and goes on only when it is back."""
    instance, run = context.instance, context.run
    with errors_as_failures():
        root = runs.root_of(run)
        runs.begin(instance, run, runs.RUNNING)
        check_alone(instance, run)
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


@dg.op(out=dg.Out(str, description="How the bounce ended, in some lines."))
def summarize_bounce(
    context: dg.OpExecutionContext, plan: UnitsPlan, result: Any, samza: SamzaClientResource
) -> Iterator[dg.Output[str]]:
    """Report which containers were bounced and which weren't, with the map of hosts before and after."""
    text = summary(plan, result)
    with errors_as_failures():
        after = host_map(samza.client.view())
    yield dg.Output(text, metadata=summary_metadata(plan, result, after))
    context.log.info(text)


def _check_first(client: PlacementClient, plan: UnitsPlan) -> list[str]:
    """Return notices before a bounce; raises `Refused` when one of the first would be refused now.

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


@dg.graph(name=NAME)
def _rolling_bounce_graph() -> None:
    """Restarts the job's containers where they are: standbys first, a few at a time.

    A canary goes first; each must run, process and have its lag back before its place is
    free again; a budget of failures stops it. Terminated, it goes on when it is re-executed.
    """
    plan = getattr(plan_bounce(), PLAN)
    summarize_bounce(plan, bounce(plan))


def check_alone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Raises `Refused` when an older run of the same job is at work, or any that bounces already.

    An older one counts from when it is being started, before it has said anything of itself.
    One that is started later finds this one by its tag: of two never both bounce.
    """
    job = run.tags.get(JOB, "")
    mine = instance.get_run_record_by_id(run.run_id)
    records = instance.get_run_records(
        dg.RunsFilter(tags={ACTION: NAME, JOB: job}, statuses=list(runs.AT_WORK)), limit=runs.MOST
    )
    for record in records:
        other = record.dagster_run
        if other.run_id == run.run_id or runs.is_dry_run(other):
            continue
        is_older = mine is None or record.storage_id < mine.storage_id
        if is_older or other.tags.get(runs.BOUNCE) == runs.RUNNING:
            raise Refused(
                f"one bounce of {job} at a time",
                seen=f"run {other.run_id} is {other.status.value.lower()}: "
                f"{other.tags.get(runs.PROGRESS, 'no progress yet')}",
                fix="wait for it, or terminate it",
            )


def check_not_overtaken(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Raises `Refused` for Dagster's own retry of a bounce that never began, where another was launched since.

    Dagster may retry a failed launch minutes later: if somebody launched another run meanwhile,
    that run stands.
    """
    others = [one for one in runs.chain(instance, runs.root_of(run)) if one.run_id != run.run_id]
    has_begun = any(one.tags.get(runs.BOUNCE, runs.PLANNED) != runs.PLANNED for one in others)
    if runs.RETRY_NUMBER not in run.tags or has_begun:
        return
    launched = [run, *runs.retried_by(instance, run)][-1]
    of_job = dg.RunsFilter(tags={ACTION: NAME, JOB: run.tags.get(JOB, "")})
    for other in instance.get_runs(of_job, cursor=launched.run_id, ascending=True):
        is_of_chain = runs.root_of(other) == runs.root_of(run)
        if not (is_of_chain or runs.RETRY_NUMBER in other.tags or runs.is_dry_run(other)):
            raise Refused(
                "a retry of a bounce that hadn't begun, while no other was launched",
                seen=f"bounce {other.run_id} was launched after it",
                fix="re-execute it by hand if that one isn't enough",
            )


def hindrance(instance: dg.DagsterInstance, job: str) -> str:
    """Why no bounce of a job may be launched by a clock now; empty when one may."""
    for run in runs.runs_of(instance, job, runs.UNDER_WAY):
        return f"bounce {run.run_id} is {run.status.value.lower()}: {run.tags.get(runs.PROGRESS, 'no progress yet')}"
    return ""


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


SCHEDULE_PREFIX = "bounce_"
LATEST = timedelta(hours=1)
"""A tick that is evaluated later bounces nothing: its hours are over."""


class ScheduledBounce(dg.Model, dg.Resolvable):
    """A rolling bounce by cron. `settings` are fields of the job's config."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_]{1,60}$",
        description="Letters, digits and underscores; the schedule is bounce_<name>.",
    )
    cron: str = Field(description="Five fields, in `timezone`.")
    timezone: str = Field(default="UTC", description="Of cron, as Europe/Berlin.")
    settings: Annotated[dict[str, Any], text()] = Field(
        default={},
        description="Fields of the job rolling_bounce: at_once: 2, ….",
    )
    jobs: Annotated[list[str], text()] = Field(
        default_factory=lambda: ["*/*"],
        description="Which of a component's jobs: <name>/<id>, or patterns of these.",
    )
    running: bool = Field(default=True, description="Whether it is on when it is first deployed.")

    @field_validator("timezone")
    @classmethod
    def _is_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"no time zone {value!r}; one like Europe/Berlin") from error
        return value

    @field_validator("settings")
    @classmethod
    def _is_config(cls, value: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(value) - set(RollingBounceConfig.model_fields))
        if unknown:
            raise ValueError(f"rolling_bounce has no setting {', '.join(unknown)}")
        # As it was understood: Dagster's own check of a tick's config takes no "2" for a 2.
        read = RollingBounceConfig(**value).model_dump(mode="json")
        return {name: read[name] for name in value}


def bounce_schedules(
    job: str,
    bounces: Sequence[ScheduledBounce],
    prefix: str = "",
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[dg.ScheduleDefinition]:
    """A schedule `bounce_<name>` for each; `job` is the value of tag `samza/job`, `now` the clock."""
    return [_schedule(job, bounce, prefix, now) for bounce in bounces]


def _schedule(
    job: str, bounce: ScheduledBounce, prefix: str, now: Callable[[], datetime]
) -> dg.ScheduleDefinition:
    settings = {
        "reason": f"schedule {bounce.name}",
        "requested_by": "schedule",
        **bounce.settings,
    }

    samza = named(prefix, "samza")

    def jobs_at(context: dg.ScheduleEvaluationContext) -> list[str]:
        """The jobs to bounce, for a component of several jobs; unused with one job."""
        if not is_of_all(job):
            return [""]
        each = getattr(context.resources, samza).each()
        return [
            one.tag for one in each if any(fnmatchcase(one.job, of) for of in with_ids(bounce.jobs))
        ]

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, f"{SCHEDULE_PREFIX}{bounce.name}"),
        job_name=named(prefix, NAME),
        cron_schedule=bounce.cron,
        execution_timezone=bounce.timezone,
        required_resource_keys={samza} if is_of_all(job) else None,
        default_status=dg.DefaultScheduleStatus.RUNNING
        if bounce.running
        else dg.DefaultScheduleStatus.STOPPED,
        description=f"Bounces {job}: {bounce.cron} {bounce.timezone}",
    )
    def tick(
        context: dg.ScheduleEvaluationContext,
    ) -> list[dg.RunRequest] | dg.RunRequest | dg.SkipReason:
        at = context.scheduled_execution_time
        late = now() - at
        if late > LATEST:  # a daemon that was away evaluates the tick that it missed last
            return dg.SkipReason(f"it was due {in_words(late.total_seconds())} ago, at {_utc(at)}")
        found: list[dg.RunRequest] = []
        hindered: list[str] = []
        for one in jobs_at(context):
            if why := hindrance(context.instance, one or job):
                hindered.append(f"{one}: {why}" if one else why)
                continue
            # By the tick's own time: a tick that is evaluated again launches nothing new.
            found.append(
                dg.RunRequest(
                    run_key="/".join(part for part in (bounce.name, one, _utc(at)) if part),
                    run_config={"ops": {"plan_bounce": {"config": settings}}},
                    tags=job_tags(one, NAME) if one else None,
                )
            )
        if hindered and found:
            context.log.info("; ".join(hindered))
        if not found:
            return dg.SkipReason("; ".join(hindered) or "there is no such job")
        return found if is_of_all(job) else found[0]

    return tick


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
