"""The runs of rolling bounces in a Dagster instance: which they are, and what they are told."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.events import EngineEventData

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.orchestration.submission import SUBMITTED, is_being_submitted
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry

if TYPE_CHECKING:
    from samza_dagster.orchestration.operations.steered import By

NAME = "rolling_bounce"
BOUNCE = "samza/bounce"
CONTROL = "samza/bounce-control"
PROGRESS = "samza/progress"
ROOT = "samza/bounce-root"
RETRY_NUMBER = "dagster/retry_number"

_WILL_RETRY, _RETRIED_AS = "dagster/will_retry", "dagster/auto_retry_run_id"
_RETRY_S = 300.0

PLANNED, DRY_RUN, RUNNING = "planned", "dry-run", "running"
PAUSED, ABORTED, STOPPED, DONE = "paused", "aborted", "stopped", "done"
SKIPPED = "skipped"
HEARD = "heard"
_AT_WORK = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_UNDER_WAY = (*_AT_WORK, dg.DagsterRunStatus.QUEUED)
ENDED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
_MOST = 50


class BounceAction(Enum):
    """What can be done with a bounce."""

    pause = "pause"
    resume = "resume"
    abort = "abort"


def bounces(
    instance: dg.DagsterInstance,
    job: str | None = None,
    statuses: Sequence[dg.DagsterRunStatus] = (),
    tags: Mapping[str, str] | None = None,
    limit: int | None = _MOST,
) -> list[dg.DagsterRun]:
    """Bounces, newest first; of one Samza job, by tag `samza/job`, or of all. Dry runs are none."""
    wanted = {**(tags or {}), ACTION: NAME, **({JOB: job} if job else {})}
    filters = dg.RunsFilter(tags=wanted, statuses=list(statuses))
    return [run for run in instance.get_runs(filters, limit=limit) if not _is_dry_run(run)]


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the chain: over re-executions, and over what resumed a paused one."""
    return run.tags.get(ROOT) or run.root_run_id or run.run_id


def chain(instance: dg.DagsterInstance, root: str) -> list[dg.DagsterRun]:
    """All runs of a bounce, newest first."""
    return bounces(instance, tags={ROOT: root}, limit=None)


def state_of(run: dg.DagsterRun) -> str:
    """The state of a bounce's run; paused and told to abort before it was over, it is given up."""
    state = run.tags.get(BOUNCE, "")
    told = run.tags.get(CONTROL)
    given_up = state == PAUSED and told == BounceAction.abort.value and run.status in ENDED
    return ABORTED if given_up else state


def goes_on_with(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """The newest run of the bounce that `run` is part of; itself when none went on with it.

    One that was created and never submitted hasn't: its run key is to be asked for again.
    """
    # A run is tagged as one of its chain when it begins: one that never did is alone.
    runs = chain(instance, root_of(run))
    return next((one for one in runs if one.status in SUBMITTED), run)


def paused(instance: dg.DagsterInstance, job: str | None = None) -> list[dg.DagsterRun]:
    """Paused bounces that no run has gone on with, newest first."""
    found = bounces(instance, job, ENDED, {BOUNCE: PAUSED})
    return [
        run
        for run in found
        if state_of(run) == PAUSED and goes_on_with(instance, run).run_id == run.run_id
    ]


def begin(instance: dg.DagsterInstance, run: dg.DagsterRun, state: str) -> str:
    """Marks a run as one of its chain; returns the root. Tags copied from its parent are no orders.

    A retry that Dagster made by itself keeps the order that its parent didn't live to hear.
    What goes on with a paused bounce isn't planned but paused, until it is running: should it
    fail before that, the bounce still is. Raises `Refused` for one of a bounce that has ended
    by an order or by its limits.
    """
    root = root_of(run)
    earlier = [one for one in chain(instance, root) if one.run_id != run.run_id]
    if state == PLANNED and earlier and state_of(earlier[0]) == PAUSED:
        state = PAUSED
    tags = {ROOT: root, BOUNCE: state}
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    copied = parent is not None and _is_copied(run.tags, parent.tags)
    if CONTROL in run.tags and copied and RETRY_NUMBER not in run.tags:
        tags[CONTROL] = HEARD
    instance.add_run_tags(run.run_id, tags)
    ended = parent.tags.get(BOUNCE) if parent is not None else None
    if RETRY_NUMBER in run.tags and ended in (ABORTED, STOPPED):
        raise Refused(
            "a retry by Dagster itself goes on with a bounce whose worker died",
            seen=f"run {run.parent_run_id} was {ended}",
            fix="resume it, or re-execute it by hand",
        )
    return root


def _is_copied(tags: Mapping[str, str], parents: Mapping[str, str]) -> bool:
    """Whether a run's order is its parent's. Each is noted: told the same anew, it has one more."""
    from samza_dagster.orchestration.operations.steered import steerings

    newest = steerings(tags)[-1:]
    return tags.get(CONTROL) == parents.get(CONTROL) and (
        not newest or newest[0] in steerings(parents)
    )


def asked_for(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """What a person or a clock launched, where `run` is a retry that Dagster made by itself."""
    while RETRY_NUMBER in run.tags and run.parent_run_id is not None:
        parent = instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            break
        run = parent
    return run


def is_by_clock(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run would begin its bounce, and nobody goes on with that by hand."""
    root = root_of(run)
    if asked_for(instance, run).run_id != root:
        return False
    others = [one for one in chain(instance, root) if one.run_id != run.run_id]
    return all(state_of(one) in (PLANNED, SKIPPED) for one in others)


def to_resume(instance: dg.DagsterInstance, job: str) -> list[dg.DagsterRun]:
    """Ended bounces of a job that are told to resume and that no run has gone on with yet.

    Of those told the newest are looked at. With which a run has gone on is marked as heard:
    it isn't looked at again, in the place of an older one.
    """
    found: list[dg.DagsterRun] = []
    for run in bounces(instance, job, ENDED, {CONTROL: BounceAction.resume.value}):
        if goes_on_with(instance, run).run_id == run.run_id:
            found.append(run)
        else:
            instance.add_run_tags(run.run_id, {CONTROL: HEARD})
    return found


def check_alone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Raises `Refused` when an older run of the same job is at work, or any that bounces already.

    An older one counts from when it is being started, before it has said anything of itself.
    One that is started later finds this one by its tag: of two never both bounce.
    """
    job = run.tags.get(JOB, "")
    mine = instance.get_run_record_by_id(run.run_id)
    records = instance.get_run_records(
        dg.RunsFilter(tags={ACTION: NAME, JOB: job}, statuses=list(_AT_WORK)), limit=_MOST
    )
    for record in records:
        other = record.dagster_run
        if other.run_id == run.run_id or restarts_nobody(other):
            continue
        is_older = mine is None or record.storage_id < mine.storage_id
        if is_older or other.tags.get(BOUNCE) == RUNNING:
            raise Refused(
                f"one bounce of {job} at a time",
                seen=f"run {other.run_id} is {other.status.value.lower()}: "
                f"{other.tags.get(PROGRESS, 'no progress yet')}",
                fix="wait for it or abort it; one whose worker is gone: terminate it in the UI",
            )


def restarts_nobody(run: dg.DagsterRun) -> bool:
    """A dry run, or one that was skipped."""
    return _is_dry_run(run) or run.tags.get(BOUNCE) == SKIPPED


def _is_dry_run(run: dg.DagsterRun) -> bool:
    """By its config, before it has said so of itself."""
    return run.tags.get(BOUNCE) == DRY_RUN or is_dry(run.run_config)


def hindrance(instance: dg.DagsterInstance, job: str) -> str:
    """Why no bounce of a job may be launched by a clock now; empty when one may."""
    for run in bounces(instance, job, _UNDER_WAY):
        return f"bounce {run.run_id} is {run.status.value.lower()}: {run.tags.get(PROGRESS, 'no progress yet')}"
    for run in bounces(instance, job, [dg.DagsterRunStatus.NOT_STARTED]):
        if is_being_submitted(instance, run):
            return f"bounce {run.run_id} is being submitted"
    for run in bounces(instance, job, tags={_WILL_RETRY: "true"}):
        if _is_retried_soon(instance, run):
            return f"bounce {run.run_id} has failed and Dagster is about to retry it"
    for run in paused(instance, job):
        return f"bounce {run.run_id} is paused ({run.tags.get(PROGRESS, '')}): resume or abort it first"
    return ""


def _is_retried_soon(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Dagster's daemon retries a failed run seconds after it marked it so; no longer than that."""
    if run.tags.get(_WILL_RETRY) != "true" or _RETRIED_AS in run.tags:
        return False
    record = instance.get_run_record_by_id(run.run_id)
    ended = record.end_time if record is not None else None
    return ended is not None and time.time() - ended < _RETRY_S


def order(instance: dg.DagsterInstance, run_id: str) -> str:
    """What the run is told to do now: `pause`, `abort` or nothing.

    By its newest event of an order, else by its tag. Dagster writes all tags of a run at once, so
    one that is set while the run sets another may be gone again: it is set anew then.
    """
    run = instance.get_run_by_id(run_id)
    if run is None:
        return ""
    said: dict[str, str] = {}
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        data = entry.dagster_event.engine_event_data if entry.dagster_event else None
        if data is not None and CONTROL in data.metadata:
            said = {tag: str(value.value) for tag, value in data.metadata.items()}
    lost = {tag: text for tag, text in said.items() if run.tags.get(tag) != text}
    if lost:
        instance.add_run_tags(run_id, lost)
    told = said.get(CONTROL) or run.tags.get(CONTROL, "")
    return told if told in (BounceAction.pause.value, BounceAction.abort.value) else ""


def find(instance: dg.DagsterInstance, run_id: str, job: str | None = None) -> dg.DagsterRun:
    """The bounce whose id begins so; raises `InvalidInput` when none or several do."""
    found = [run for run in bounces(instance, job, limit=None) if run.run_id.startswith(run_id)]
    if len(found) == 1:
        return found[0]
    raise InvalidInput(
        f"a bounce whose run id begins with {run_id!r}",
        seen=", ".join(run.run_id for run in found[:5]) or "none",
        fix="more of the id" if found else "samza-dagster bounce status lists them",
    )


def steer(
    instance: dg.DagsterInstance,
    action: BounceAction,
    run_id: str = "",
    job: str | None = None,
    *,
    by: By | None = None,
    dry_run: bool = False,
) -> tuple[dg.DagsterRun, str]:
    """Tells a bounce what to do; the run, and what happens now, or would (`dry_run`).

    The run keeps by whom and why it was told (tag `samza/bounce-steered`).

    Without `run_id` the newest that the action fits. Raises `InvalidInput` when there is
    none, or without `job` when there are some of several jobs; `Refused` when the action
    doesn't fit the run.
    """
    run = find(instance, run_id, job) if run_id else _newest_for(instance, action, job)
    state, is_over = state_of(run), run.status in ENDED
    fits = (
        is_over and state != DONE
        if action is BounceAction.resume
        else not is_over or (action is BounceAction.abort and state == PAUSED)
    )
    later = goes_on_with(instance, run)
    if is_over and later.run_id != run.run_id:
        raise Refused(
            f"{action.value} bounce {run.run_id}",
            seen=f"run {later.run_id} went on with it",
            fix=f"name that run: {action.value} {later.run_id[:8]}",
        )
    if not fits:
        raise Refused(
            f"{action.value} bounce {run.run_id}",
            seen=f"it is {run.status.value.lower()} ({state or 'no state'})",
            fix="resume one that was paused, aborted or stopped; pause or abort one that runs",
        )
    given_up = action is BounceAction.abort and is_over
    if not dry_run:
        told = {BOUNCE: ABORTED, CONTROL: HEARD} if given_up else {CONTROL: action.value}
        from samza_dagster.orchestration.operations.steered import By, noted

        told |= noted(run.tags, action.value, by or By(), time.time_ns() // 1_000_000)
        instance.add_run_tags(run.run_id, told)
        if not is_over:
            said = EngineEventData({tag: dg.MetadataValue.text(text) for tag, text in told.items()})
            instance.report_engine_event(f"It is told: {action.value}.", run, said)
    if given_up:
        return run, "it was paused and is given up: nothing is left to stop"
    return run, {
        BounceAction.pause: "what is in flight is finished, then the run ends as paused",
        BounceAction.resume: "sensor bounce_resume launches a run that goes on with it, within some seconds",
        BounceAction.abort: "nothing more is asked, what is only held is given back",
    }[action]


def _newest_for(
    instance: dg.DagsterInstance, action: BounceAction, job: str | None
) -> dg.DagsterRun:
    found = _that_fit(instance, action, job)
    jobs = _jobs_of(found)
    if found and (job is not None or len(jobs) == 1):
        return found[0]
    if found:
        raise InvalidInput(
            f"a bounce to {action.value}",
            seen=f"bounces of {len(jobs)} jobs: {', '.join(jobs)}",
            fix=f"the run's id, or {' or '.join(_options(one) for one in jobs[:3])}",
        )
    none = "none is paused" if action is BounceAction.resume else "none runs"
    others = _jobs_of(_that_fit(instance, action, None)) if job is not None else []
    raise InvalidInput(
        f"a bounce to {action.value}",
        seen=f"{none} of {job}, but of {', '.join(others)}" if others else none,
        fix=f"if that is meant: {' or '.join(_options(one) for one in others[:3])}"
        if others
        else "samza-dagster bounce status lists them",
    )


def _that_fit(
    instance: dg.DagsterInstance, action: BounceAction, job: str | None
) -> list[dg.DagsterRun]:
    """Bounces that an action without a run's id may mean: those that run, then those paused."""
    found: list[dg.DagsterRun] = []
    if action is not BounceAction.resume:
        found += bounces(instance, job, _UNDER_WAY, limit=None)
    if action is not BounceAction.pause:
        found += paused(instance, job)
    return found


def _jobs_of(runs: Sequence[dg.DagsterRun]) -> list[str]:
    return sorted({run.tags.get(JOB, "") for run in runs})


def _options(job: str) -> str:
    """How the command line names the job of a tag `samza/job`."""
    *prefix, name, number = job.split("/")
    return " ".join([f"--job-name {name} --job-id {number}", *(f"--prefix {p}" for p in prefix)])
