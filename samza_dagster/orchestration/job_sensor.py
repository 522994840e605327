"""A sensor of a component: in one tick it looks at each of the component's Samza jobs, side by side."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import dagster as dg

from samza_dagster.errors import SamzaDagsterError, Unreachable, some_of
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.ticks import least_seconds
from samza_dagster.orchestration.versioned import Versioned

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.orchestration.resource import SamzaClientResource

JOBS_AT_ONCE = 16
BEGIN_WITHIN_S = 30.0
"""A job whose turn hasn't come by then is left for the next tick."""
END_WITHIN_S = 55.0
"""Dagster gives up on a tick after 60 s, and its cursor is lost then."""


@dataclass(frozen=True)
class JobTick:
    """What a tick has of Dagster for one Samza job; `cursor` is that job's own.

    `began_s` is when it began, by the monotonic clock.
    """

    cursor: str | None
    instance: dg.DagsterInstance
    log: logging.Logger | logging.LoggerAdapter[logging.Logger]
    began_s: float = field(default_factory=time.monotonic)


TickResult = dg.SensorResult | dg.SkipReason
Ticking = Callable[[JobTick, "SamzaClientResource"], TickResult]
Asking = Callable[[JobTick, "SamzaClientResource", "PlacementClient"], TickResult]
Outlasting = dict[str, "Future[TickResult | None]"]
"""What ticks of jobs by their tags have outlasted the sensor's tick that began them."""


@dataclass(frozen=True)
class JobCursors(Versioned):
    """The cursor of each job by its tag `samza/job`.

    In the last tick `left` had no turn, and `late` were still at it when its time was over: the
    next one begins with the former and ends with the latter.
    `failing`: check → job → severity, as it was told last.
    """

    VERSION: ClassVar[int] = 1

    cursors: Mapping[str, str] = field(default_factory=dict[str, str])
    left: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    failing: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def cursor_of(cursor: str | None, samza: SamzaClientResource) -> str | None:
    """A job's own part of a sensor's cursor."""
    if samza.partition is None:
        return cursor
    kept = JobCursors.read(cursor)
    return kept.cursors.get(samza.partition) if kept is not None else None


def by_a_client(tick: Asking) -> Ticking:
    """The tick with a client of its own, which is closed after it; skipped while Kafka is away."""

    def asked(one: JobTick, samza: SamzaClientResource) -> TickResult:
        try:
            with closing(samza.open_client()) as client:
                return tick(one, samza, client)
        except Unreachable as error:
            return dg.SkipReason(f"Kafka doesn't answer: {error}")

    return asked


def job_sensor(
    name: str,
    tick: Ticking,
    *,
    prefix: str = "",
    interval_s: int,
    running: bool,
    description: str,
    jobs: Sequence[Any] = (),
    job_name: str | None = None,
) -> dg.SensorDefinition:
    """A sensor that ticks every `interval_s`; `jobs`, or the one of that name, are what it launches."""
    samza = named(prefix, "samza")
    outlasting: Outlasting = {}

    # Dagster hands resources over by name as well when a sensor is called as a function.
    def evaluate(context: dg.SensorEvaluationContext, **_named: object) -> TickResult:
        return of_every_job(context, getattr(context.resources, samza), tick, outlasting)

    return LaunchingSensor(
        name=named(prefix, name),
        evaluation_fn=evaluate,
        jobs=list(jobs) or None,
        job_name=None if jobs else job_name,
        minimum_interval_seconds=least_seconds(interval_s),
        default_status=started(running),
        description=description,
        required_resource_keys={samza},
    )


def started(running: bool) -> dg.DefaultSensorStatus:
    """Whether a sensor is on when it is first deployed."""
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def of_every_job(
    context: dg.SensorEvaluationContext,
    samza: SamzaClientResource,
    tick: Ticking,
    outlasting: Outlasting,
    monotonic: Callable[[], float] = time.monotonic,
) -> TickResult:
    """What the tick of each job tells, together; a component of one job has that one's cursor.

    A job whose tick has outlasted an earlier one of the sensor isn't asked beside it: what it tells
    counts once it ends. So a job holds one thread of each sensor at most, however long it takes.
    """
    from samza_dagster.metadata.shared_readers import shared_readers

    if not samza.is_several:
        return tick(JobTick(context.cursor, context.instance, context.log), samza)
    began = monotonic()
    try:
        jobs = {one.tag: one for one in samza.each()}
    except SamzaDagsterError as error:
        return dg.SkipReason(f"which Samza jobs there are isn't known: {error}")
    kept = JobCursors.read(context.cursor, say=context.log.warning) or JobCursors()

    def ticked(tag: str) -> TickResult | None:
        if monotonic() - began > BEGIN_WITHIN_S:
            return None
        log = _JobLog(context.log, {"job": tag})
        return tick(JobTick(kept.cursors.get(tag), context.instance, log), jobs[tag])

    turns = sorted(jobs, key=lambda tag: (tag in kept.late, tag not in kept.left, tag))
    with shared_readers():
        pool = ThreadPoolExecutor(JOBS_AT_ONCE)
        ticks = {tag: outlasting.pop(tag, None) or pool.submit(ticked, tag) for tag in turns}
        wait(ticks.values(), timeout=max(0.0, END_WITHIN_S - (monotonic() - began)))
        pool.shutdown(wait=False, cancel_futures=True)
    outlasting.update({tag: future for tag, future in ticks.items() if not future.done()})
    return _together(context, jobs, kept, ticks, lambda: monotonic() - began)


def _together(
    context: dg.SensorEvaluationContext,
    jobs: Mapping[str, SamzaClientResource],
    kept: JobCursors,
    ticks: Mapping[str, Future[TickResult | None]],
    took_s: Callable[[], float],
) -> dg.SensorResult:
    cursors = {tag: cursor for tag, cursor in kept.cursors.items() if tag in jobs}
    failing = {
        check: {tag: severity for tag, severity in of.items() if tag in jobs}
        for check, of in kept.failing.items()
    }
    said: dict[str, list[str]] = {}
    left: list[str] = []
    late: list[str] = []
    runs: list[dg.RunRequest] = []
    events: list[Any] = []
    partitions: list[Any] = []
    for tag, future in ticks.items():
        if not future.done() or future.cancelled():
            (left if future.cancelled() else late).append(tag)
            continue
        if (error := future.exception()) is not None:  # one job's fault ends no other's tick
            context.log.error(f"{tag}: its tick failed", exc_info=error)
            said.setdefault(f"failed: {error!r:.200}", []).append(tag)
            continue
        result = future.result()
        if result is None:
            left.append(tag)
        elif isinstance(result, dg.SkipReason):
            said.setdefault(result.skip_message or "", []).append(tag)
        else:
            runs += result.run_requests or []
            events += [_of_several(one, tag, failing) for one in result.asset_events or []]
            partitions += result.dynamic_partitions_requests or []
            if result.cursor is not None:
                cursors[tag] = result.cursor
            if isinstance(result.skip_reason, dg.SkipReason):
                said.setdefault(result.skip_reason.skip_message or "", []).append(tag)
    text = f"{len(jobs) - len(left) - len(late)} of {len(jobs)} jobs in {took_s():.1f} s"
    if left:
        text += f"; left for the next tick: {some_of(left)}"
    if late:
        text += f"; still at it, and not asked again before that ends: {some_of(late)}"
    for what, tags in said.items():
        text += f"; {'each' if len(tags) == len(jobs) else some_of(tags)}: {what}"
    context.log.info(text)
    return dg.SensorResult(
        run_requests=runs,
        asset_events=events,
        dynamic_partitions_requests=partitions or None,
        skip_reason=None if runs or events else text[:2_000],
        cursor=JobCursors(cursors, tuple(left), tuple(late), failing).to_text(),
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


class LaunchingSensor(dg.SensorDefinition):
    """A sensor that launches jobs.

    Dagster copies such a sensor when it binds resources to its jobs, and warns of its own
    parameter `owners` then, which nobody gave.
    """

    def with_attributes(
        self, *, jobs: Sequence[Any] | None = None, metadata: Any = None
    ) -> dg.SensorDefinition:
        """A copy, which may be copied again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            made = super().with_attributes(  # pyright: ignore[reportUnknownMemberType]
                jobs=jobs, metadata=metadata
            )
        made.__class__ = type(self)
        return made
