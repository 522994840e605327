"""The runs that wait, by the tags that they ended with, and what has become of their chains."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.chain import ROOT, root_run_id
from samza_dagster.orchestration.deploy.submission import SUBMITTED, is_never_submitted
from samza_dagster.orchestration.plans.conditions import Wait
from samza_dagster.orchestration.tags import JOB

WAITS_FOR = "samza/waits_for"
WAITING = "samza/waiting"
CONTINUES = "samza/continues"
MET = "samza/met"
CANCELLED = "samza/cancelled"
YES, CONTINUED, GIVEN_UP = "yes", "continued", "cancelled"

MOST_LOOKED_AT = 2_000
_UNDER_WAY = frozenset(dg.DagsterRunStatus) - {
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
}


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits, and what for."""

    root: str
    wait: Wait
    run: dg.DagsterRun


def waiting_runs(instance: dg.DagsterInstance, job: str) -> list[WaitingRun]:
    """The newest wait of each chain of this job (tag `samza/job`), oldest run first.

    Those that a newer wait of the same chain has replaced are marked as continued, also
    those that somebody has re-executed to the end; those that somebody cancelled as given
    up: none is looked at again.
    """
    tags = {JOB: job, WAITING: YES}
    runs = instance.get_runs(
        dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.SUCCESS]),
        limit=MOST_LOOKED_AT,
        ascending=True,
    )
    newest: dict[str, WaitingRun] = {}
    overtaken: set[str] = set()
    for run in runs:
        wait = Wait.read(run.tags.get(WAITS_FOR))
        if wait is None:
            continue
        if wait.run != run.run_id:
            if _goes_to_the_end(instance, run):
                overtaken.add(wait.run)
                instance.add_run_tags(run.run_id, {WAITING: CONTINUED})
            continue
        root = run.tags.get(ROOT, run.run_id)
        other = newest.get(root)
        if other is not None and other.wait.number > wait.number:
            instance.add_run_tags(run.run_id, {WAITING: CONTINUED})
            continue
        if other is not None:
            instance.add_run_tags(other.run.run_id, {WAITING: CONTINUED})
        newest[root] = WaitingRun(root, wait, run)
    for one in list(newest.values()):
        over = GIVEN_UP if CANCELLED in one.run.tags else None
        over = CONTINUED if one.run.run_id in overtaken else over
        if over is not None:
            instance.add_run_tags(one.run.run_id, {WAITING: over})
            del newest[one.root]
    return list(newest.values())


def _goes_to_the_end(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """A re-execution that does the last step, too: it carries its parent's tags.

    Had it waited itself, it would have a wait of its own.
    """
    steps, plan = run.step_keys_to_execute, run.execution_plan_snapshot_id
    if run.parent_run_id is None or steps is None or plan is None:
        return run.parent_run_id is not None
    all_steps = instance.get_execution_plan_snapshot(plan).steps
    followed = {key for step in all_steps for one in step.inputs for key in one.upstream_step_keys}
    return {step.key for step in all_steps} - followed <= set(steps)


def re_executed_now(instance: dg.DagsterInstance, job: str) -> dict[str, dg.DagsterRun]:
    """Waiting run → the run that re-executes it now: what it waits for is that one's meanwhile."""
    filters = dg.RunsFilter(tags={JOB: job, WAITING: YES}, statuses=list(_UNDER_WAY))
    found: dict[str, dg.DagsterRun] = {}
    for run in instance.get_runs(filters):
        wait = Wait.read(run.tags.get(WAITS_FOR))
        if wait is None or wait.run == run.run_id or is_never_submitted(instance, run):
            continue
        if _goes_to_the_end(instance, run):
            found[wait.run] = run
    return found


def continued_by(instance: dg.DagsterInstance, one: WaitingRun) -> dg.DagsterRun | None:
    """The run that goes on with this wait, or the newest re-execution of it; None for none.

    One that was created and never submitted is none: its run key is to be asked for again.
    """
    tags = {ROOT: one.root, CONTINUES: str(one.wait.number)}
    filters = dg.RunsFilter(tags=tags, statuses=list(SUBMITTED))
    return next(iter(instance.get_runs(filters, limit=1)), None)


def refuse_given_up(context: dg.OpExecutionContext) -> None:
    """Raises `Refused` for a run that goes on with a wait which somebody has given up meanwhile.

    Called first of all. Whoever gives a wait up tags it, then looks for such a run: of the two
    one at least sees the other.
    """
    number = context.run.tags.get(CONTINUES)
    if number is None:
        return
    filters = dg.RunsFilter(tags={ROOT: root_run_id(context)})
    for run in context.instance.get_runs(filters):
        wait = Wait.read(run.tags.get(WAITS_FOR))
        its_own = wait is not None and wait.run == run.run_id and str(wait.number) == number
        if its_own and CANCELLED in run.tags:
            raise Refused(
                f"go on with the wait of run {run.run_id}",
                seen=f"it was given up ({CANCELLED}: {run.tags[CANCELLED]})",
                fix="launch a new run; job reconcile removes a standby that is left",
            )
