"""Bounces by the clock: the component's `bounces`, each a schedule of `rolling_bounce`."""

# No `from __future__ import annotations`: Dagster reads a component's annotations as types.

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import Field, field_validator

from samza_dagster.model.naming import with_ids
from samza_dagster.orchestration.bounce.job import hindrance
from samza_dagster.orchestration.bounds import text
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.operations.runs import NAME
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig
from samza_dagster.orchestration.tags import is_of_all, job_tags
from samza_dagster.orchestration.text import in_words

PREFIX = "bounce_"
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
        """The jobs to bounce of a component of several; nothing is asked where there is one."""
        if not is_of_all(job):
            return [""]
        each = getattr(context.resources, samza).each()
        return [
            one.tag for one in each if any(fnmatchcase(one.job, of) for of in with_ids(bounce.jobs))
        ]

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, f"{PREFIX}{bounce.name}"),
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
