"""The runs of operations in a Dagster instance: which they are, and what they are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.events import EngineEventData

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.orchestration.chain import ROOT as CHAIN
from samza_dagster.orchestration.deploy.submission import SUBMITTED
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.orchestration.operations.steered import By

NAME = "rolling_bounce"
STEERED_JOBS = (NAME, "drain_host", "reconcile")
"""What can be paused, resumed and aborted. Without a run's id it is a bounce that is meant."""
BOUNCE = "samza/bounce"
CONTROL = "samza/bounce-control"
PROGRESS = "samza/progress"
ROOT = "samza/bounce-root"
RESUMES = "samza/resumes"
"""The run whose operation this one was launched to go on with."""
RETRY_NUMBER = "dagster/retry_number"

PLANNED, DRY_RUN, RUNNING = "planned", "dry-run", "running"
PAUSED, ABORTED, STOPPED, DONE = "paused", "aborted", "stopped", "done"
SKIPPED = "skipped"
HEARD = "heard"
AT_WORK = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
UNDER_WAY = (*AT_WORK, dg.DagsterRunStatus.QUEUED)
ENDED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
MOST = 50
READ_MS = 1_000


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
    limit: int | None = MOST,
    *,
    actions: Sequence[str] = (NAME,),
) -> list[dg.DagsterRun]:
    """Bounces, newest first; of one Samza job, by tag `samza/job`, or of all. Dry runs are none.

    With other `actions` the runs of those.
    """
    wanted: dict[str, str | list[str]] = {**(tags or {}), ACTION: [*actions]}
    wanted |= {JOB: job} if job else {}
    filters = dg.RunsFilter(tags=wanted, statuses=list(statuses))
    return [run for run in instance.get_runs(filters, limit=limit) if not is_dry_run(run)]


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the chain: over re-executions, and over what resumed a paused one."""
    return run.tags.get(ROOT) or run.tags.get(CHAIN) or run.root_run_id or run.run_id


def chain(instance: dg.DagsterInstance, root: str) -> list[dg.DagsterRun]:
    """All runs of a bounce, or another operation, newest first."""
    return bounces(instance, tags={ROOT: root}, limit=None, actions=STEERED_JOBS)


def state_of(run: dg.DagsterRun) -> str:
    """The state of a bounce's run; paused and told to abort before it was over, it is given up."""
    state = run.tags.get(BOUNCE, "")
    command = run.tags.get(CONTROL)
    given_up = state == PAUSED and command == BounceAction.abort.value and run.status in ENDED
    return ABORTED if given_up else state


def _goes_on_with(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """The newest run of the bounce that `run` is part of; itself when none went on with it.

    One that was created and never submitted hasn't: its run key is to be asked for again.
    """
    # A run is tagged as one of its chain when it begins: one that never did is alone.
    runs = chain(instance, root_of(run))
    return next((one for one in runs if one.status in SUBMITTED), run)


def paused(
    instance: dg.DagsterInstance, job: str | None = None, *, action: str = NAME
) -> list[dg.DagsterRun]:
    """Paused bounces that no run has gone on with, newest first."""
    found = bounces(instance, job, ENDED, {BOUNCE: PAUSED}, actions=(action,))
    return [
        run
        for run in found
        if state_of(run) == PAUSED and _goes_on_with(instance, run).run_id == run.run_id
    ]


def begin(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    state: str,
    root: str = "",
    *,
    over: Sequence[str] = (ABORTED, STOPPED),
) -> str:
    """Marks a run as one of its chain (of `root`, if it is given); returns the root.

    Tags copied from its parent are no orders.

    A retry that Dagster made by itself keeps the order that its parent didn't live to hear.
    What goes on with a paused bounce isn't planned but paused, until it is running: should it
    fail before that, the bounce still is. Raises `Refused` where its parent is `over`: it has
    ended by an order, or by its limits.
    """
    root = root or root_of(run)
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
    if RETRY_NUMBER in run.tags and ended in over:
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


def retried_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """The runs, newest first, that Dagster has retried by itself one after the other, up to `run`."""
    while RETRY_NUMBER in run.tags and run.parent_run_id is not None:
        parent = instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            return
        yield parent
        run = parent


def goes_on_with_another(run: dg.DagsterRun) -> bool:
    """Whether a person, or an order, has this run begin anew what an earlier one has left."""
    return run.parent_run_id is not None or RESUMES in run.tags


def to_resume(instance: dg.DagsterInstance, job: str) -> list[dg.DagsterRun]:
    """Ended operations of a job that are told to resume and that no run has gone on with yet.

    Of those told the newest are looked at. With which a run has gone on is marked as heard:
    it isn't looked at again, in the place of an older one.
    """
    found: list[dg.DagsterRun] = []
    resumed = {CONTROL: BounceAction.resume.value}
    for run in bounces(instance, job, ENDED, resumed, actions=STEERED_JOBS):
        if _goes_on_with(instance, run).run_id == run.run_id:
            found.append(run)
        else:
            instance.add_run_tags(run.run_id, {CONTROL: HEARD})
    return found


def is_dry_run(run: dg.DagsterRun) -> bool:
    """By its config, before it has said so of itself."""
    return run.tags.get(BOUNCE) == DRY_RUN or is_dry(run.run_config)


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
    command = said.get(CONTROL) or run.tags.get(CONTROL, "")
    return command if command in (BounceAction.pause.value, BounceAction.abort.value) else ""


class RunControl:
    """What a run is told, read once a second, and the progress that its tag tells."""

    def __init__(
        self, context: dg.OpExecutionContext, now_ms: Callable[[], int] = elapsed_ms
    ) -> None:
        self._instance, self._run_id = context.instance, context.run.run_id
        self._now_ms, self._read_at_ms = now_ms, float("-inf")
        self._order = self._shown = ""

    def order(self) -> str:
        """Run tag `samza/bounce-control`, see `order`."""
        now_ms = self._now_ms()
        if now_ms - self._read_at_ms >= READ_MS:
            self._read_at_ms = now_ms
            self._order = order(self._instance, self._run_id)
        return self._order

    def progress(self, text: str) -> None:
        """Run tag `samza/progress`, which lists of runs show; written when it says something new."""
        if text != self._shown:
            self._shown = text
            self._instance.add_run_tags(self._run_id, {PROGRESS: text})


def find(instance: dg.DagsterInstance, run_id: str, job: str | None = None) -> dg.DagsterRun:
    """The operation whose run's id begins so; raises `InvalidInput` when none or several do."""
    known = bounces(instance, job, limit=None, actions=STEERED_JOBS)
    found = [run for run in known if run.run_id.startswith(run_id)]
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
    """Tells an operation what to do; the run, and what happens now, or would (`dry_run`).

    The run keeps by whom and why it was told (tag `samza/bounce-steered`).

    Without `run_id` the newest bounce that the action fits. Raises `InvalidInput` when there is
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
    later = _goes_on_with(instance, run)
    if is_over and later.run_id != run.run_id:
        raise Refused(
            f"{action.value} {_name(run)}",
            seen=f"run {later.run_id} went on with it",
            fix=f"name that run: {action.value} {later.run_id[:8]}",
        )
    if not fits:
        raise Refused(
            f"{action.value} {_name(run)}",
            seen=f"it is {run.status.value.lower()} ({state or 'no state'})",
            fix="resume one that was paused, aborted or stopped; pause or abort one that runs",
        )
    given_up = action is BounceAction.abort and is_over
    if not dry_run:
        tags = {BOUNCE: ABORTED, CONTROL: HEARD} if given_up else {CONTROL: action.value}
        from samza_dagster.orchestration.operations.steered import By, noted

        tags |= noted(run.tags, action.value, by or By(), time.time_ns() // 1_000_000)
        instance.add_run_tags(run.run_id, tags)
        if not is_over:
            said = EngineEventData({tag: dg.MetadataValue.text(text) for tag, text in tags.items()})
            instance.report_engine_event(f"It is told: {action.value}.", run, said)
    if given_up:
        return run, "it was paused and is given up: nothing is left to stop"
    return run, {
        BounceAction.pause: "what is in flight is finished, then the run ends as paused",
        BounceAction.resume: "sensor bounce_resume launches a run that goes on with it, within some seconds",
        BounceAction.abort: "nothing more is asked, what is only held is given back",
    }[action]


def _name(run: dg.DagsterRun) -> str:
    action = run.tags.get(ACTION, NAME)
    return f"{'bounce' if action == NAME else action} {run.run_id}"


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
        found += bounces(instance, job, UNDER_WAY, limit=None)
    if action is not BounceAction.pause:
        found += paused(instance, job)
    return found


def _jobs_of(runs: Sequence[dg.DagsterRun]) -> list[str]:
    return sorted({run.tags.get(JOB, "") for run in runs})


def _options(job: str) -> str:
    """How the command line names the job of a tag `samza/job`."""
    *prefix, name, number = job.split("/")
    return " ".join([f"--job-name {name} --job-id {number}", *(f"--prefix {p}" for p in prefix)])
