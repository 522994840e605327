"""A sensor of a component: in one tick it looks at each of the component's Samza jobs, side by side."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar, TypeVar

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.errors import SamzaDagsterError, Unreachable, some_of
from samza_dagster.metadata.shared_readers import shared_readers
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.ticks import least_seconds
from samza_dagster.orchestration.versioned import Versioned

JOBS_AT_ONCE = 16
BEGIN_WITHIN_S = 30.0
"""A job whose turn hasn't come by then is left for the next tick: Dagster gives up on one after 60 s."""

# Dagster copies a sensor that launches jobs, and warns of its own parameter then, which nobody gave.
warnings.filterwarnings(
    "ignore", "Parameter `owners` of initializer `SensorDefinition", dg.BetaWarning
)


@dataclass(frozen=True)
class JobTick:
    """A tick's part for one Samza job; `cursor` is that job's own."""

    cursor: str | None
    instance: dg.DagsterInstance
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]


TickResult = dg.SensorResult | dg.SkipReason
Ticking = Callable[[JobTick, SamzaClientResource], TickResult]
Asking = Callable[[JobTick, SamzaClientResource, PlacementClient], TickResult]
Look = Callable[[dg.SensorEvaluationContext, SamzaClientResource], TickResult]
Found = TypeVar("Found")


@dataclass(frozen=True)
class JobCursors(Versioned):
    """The cursor of each job by its tag `samza/job`.

    `failing`: check → job → severity, as it was told last.
    """

    VERSION: ClassVar[int] = 1

    cursors: Mapping[str, str] = field(default_factory=dict[str, str])
    failing: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def in_each_job(tick: Asking) -> Look:
    """Return what a sensor does that gives the tick of each job a client, and skips it while Kafka is away."""

    def asked(one: JobTick, samza: SamzaClientResource) -> TickResult:
        try:
            with closing(samza.open_client()) as client:
                return tick(one, samza, client)
        except Unreachable as error:
            return dg.SkipReason(f"Kafka doesn't answer: {error}")

    return lambda context, samza: of_every_job(context, samza, asked)


def job_sensor(
    name: str,
    look: Look,
    *,
    prefix: str,
    interval_s: int,
    running: bool,
    description: str,
    jobs: Sequence[Any] = (),
    job_name: str | None = None,
) -> dg.SensorDefinition:
    """Make a sensor that looks every `interval_s`; `jobs`, or the one of that name, are what it launches.

    `running`: it is on when it is first deployed.
    """
    samza = named(prefix, "samza")

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, name),
        jobs=list(jobs) or None,
        job_name=None if jobs else job_name,
        minimum_interval_seconds=least_seconds(interval_s),
        default_status=dg.DefaultSensorStatus("RUNNING" if running else "STOPPED"),
        description=description,
        required_resource_keys={samza},
    )
    # Dagster hands resources over by name as well when a sensor is called as a function.
    def looks(context: dg.SensorEvaluationContext, **_named: object) -> TickResult:
        return look(context, getattr(context.resources, samza))

    return looks


def side_by_side(
    jobs: Sequence[SamzaClientResource],
    look: Callable[[SamzaClientResource], Found],
    log: logging.Logger,
) -> dict[str, Found | str]:
    """Look at each job; what was found by tag `samza/job`, or why nothing was.

    How long a look may take is bounded by the client's own time-outs.
    """
    began = monotonic()

    def turn(job: SamzaClientResource) -> Found | str:
        if monotonic() - began > BEGIN_WITHIN_S:
            return "left for the next tick"
        try:
            return look(job)
        except SamzaDagsterError as error:
            return f"can't be read: {error}"
        except Exception as error:  # one job's fault ends no other's look
            log.exception(f"{job.tag}: its look failed")
            return f"failed: {error!r:.200}"

    # By chance, so that it isn't always the same ones that are left.
    turns = random.sample(jobs, len(jobs))
    with shared_readers(), ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        return dict(zip((job.tag for job in turns), pool.map(turn, turns), strict=True))


def of_every_job(
    context: dg.SensorEvaluationContext, samza: SamzaClientResource, tick: Ticking
) -> TickResult:
    """Combine the results of each job's tick; a component of one job has that job's cursor."""
    if not samza.is_several:
        return tick(JobTick(context.cursor, context.instance, context.log), samza)
    try:
        jobs = samza.each()
    except SamzaDagsterError as error:
        return dg.SkipReason(f"which Samza jobs there are isn't known: {error}")
    kept = JobCursors.read(context.cursor, say=context.log.warning) or JobCursors()

    def look(job: SamzaClientResource) -> TickResult:
        log = _JobLog(context.log, {"job": job.tag})
        return tick(JobTick(kept.cursors.get(job.tag), context.instance, log), job)

    return _together(context, kept, side_by_side(jobs, look, context.log))


def _together(
    context: dg.SensorEvaluationContext, kept: JobCursors, ticks: Mapping[str, TickResult | str]
) -> dg.SensorResult:
    cursors = {tag: cursor for tag, cursor in kept.cursors.items() if tag in ticks}
    failing = {
        check: {tag: severity for tag, severity in of.items() if tag in ticks}
        for check, of in kept.failing.items()
    }
    said: dict[str, list[str]] = {}
    runs: list[dg.RunRequest] = []
    events: list[Any] = []
    for tag, result in sorted(ticks.items()):
        why: dg.SkipReason | str | None
        if isinstance(result, dg.SensorResult):
            runs += result.run_requests or []
            events += [_of_several(one, tag, failing) for one in result.asset_events or []]
            if result.cursor is not None:
                cursors[tag] = result.cursor
            why = result.skip_reason
        else:
            why = result
        text = why.skip_message if isinstance(why, dg.SkipReason) else why
        if text:
            said.setdefault(text, []).append(tag)
    told = "; ".join(
        f"{f'each of {len(ticks)} jobs' if len(tags) == len(ticks) else some_of(tags)}: {what}"
        for what, tags in said.items()
    )
    context.log.info(told)  # a tick that has something to tell has no skip reason
    return dg.SensorResult(
        run_requests=runs,
        asset_events=events,
        skip_reason=None if runs or events else told[:2_000],
        cursor=JobCursors(cursors, failing).to_text(),
    )


def _of_several(event: Any, job: str, failing: dict[str, dict[str, str]]) -> Any:
    """The event as that of one job: in its partition, but an evaluation of a check.

    Dagster takes only one of a partition that no run made. So a check passes when it does for each
    job, and `failing` has those for which it doesn't: check → job → severity.
    """
    if not isinstance(event, dg.AssetCheckEvaluation):
        return event._replace(partition=job)
    jobs = failing.setdefault(event.asset_check_key.to_user_string(), {})
    jobs.pop(job, None)
    text = f"{job}: {event.description}"
    if jobs:
        text += f"; failing still: {some_of(sorted(jobs))}"
    if not event.passed:
        jobs[job] = event.severity.value
    error = dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckEvaluation(
        asset_key=event.asset_key,
        check_name=event.check_name,
        passed=not jobs,
        metadata=event.metadata,
        severity=error if error.value in jobs.values() else dg.AssetCheckSeverity.WARN,
        description=text[:2_000],
    )


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Says which job a line is about."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return f"{(self.extra or {})['job']}: {msg}", kwargs
