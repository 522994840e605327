"""The runs of operations in a Dagster instance: which there are, and how far each is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.chain import chain_of
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry

NAME = "rolling_bounce"
OPERATIONS = (NAME, "drain_host")
"""The jobs whose one run acts on many containers."""
BOUNCE = "samza/bounce"
"""Run tag: the state of a bounce."""
PROGRESS = "samza/progress"
RETRY_NUMBER = "dagster/retry_number"

PLANNED, DRY_RUN, RUNNING = "planned", "dry-run", "running"
DONE, STOPPED, TERMINATED = "done", "stopped", "terminated"
AT_WORK = (
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
UNDER_WAY = (*AT_WORK, dg.DagsterRunStatus.QUEUED)
MOST = 50


def runs_of(
    instance: dg.DagsterInstance,
    job: str | None = None,
    statuses: Sequence[dg.DagsterRunStatus] = (),
    tags: Mapping[str, str] | None = None,
    limit: int | None = MOST,
    *,
    actions: Sequence[str] = (NAME,),
) -> list[dg.DagsterRun]:
    """Returns the bounces, newest first; of one Samza job, by tag `samza/job`, or of all.

    Dry runs are none. With other `actions` the runs of those.
    """
    wanted: dict[str, str | list[str]] = {**(tags or {}), ACTION: [*actions]}
    wanted |= {JOB: job} if job else {}
    filters = dg.RunsFilter(tags=wanted, statuses=list(statuses))
    return [run for run in instance.get_runs(filters, limit=limit) if not is_dry_run(run)]


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the chain of re-executions."""
    return run.root_run_id or run.run_id


def chain(instance: dg.DagsterInstance, root: str) -> list[dg.DagsterRun]:
    """All runs of a bounce, newest first."""
    return [run for run in reversed(chain_of(instance, root)) if not is_dry_run(run)]


def begin(instance: dg.DagsterInstance, run: dg.DagsterRun, state: str) -> None:
    """Tags the run of a bounce with its state.

    Raises `Refused` for a retry that Dagster makes by itself where its parent was over: it was
    terminated, or has ended by its limits, and its process died after that.
    """
    instance.add_run_tags(run.run_id, {BOUNCE: state})
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    ended = parent.tags.get(BOUNCE) if parent is not None else None
    if RETRY_NUMBER in run.tags and ended in (TERMINATED, STOPPED):
        raise Refused(
            "a retry by Dagster itself goes on with a bounce whose worker died",
            seen=f"run {run.parent_run_id} was {ended}",
            fix="re-execute it by hand",
        )


def retried_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """The runs, newest first, that Dagster has retried by itself one after the other, up to `run`."""
    while RETRY_NUMBER in run.tags and run.parent_run_id is not None:
        parent = instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            return
        yield parent
        run = parent


def is_dry_run(run: dg.DagsterRun) -> bool:
    """By its config, before it has said so of itself."""
    return run.tags.get(BOUNCE) == DRY_RUN or is_dry(run.run_config)


class ProgressTag:
    """Run tag `samza/progress`, which lists of runs show."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._instance, self._run_id, self._shown = context.instance, context.run.run_id, ""

    def __call__(self, text: str) -> None:
        """Writes the tag when it says something new."""
        if text != self._shown:
            self._shown = text
            self._instance.add_run_tags(self._run_id, {PROGRESS: text})
