"""Which bounces of a job may begin: one at a time."""

from __future__ import annotations

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.operations.runs import (
    AT_WORK,
    BOUNCE,
    MOST,
    NAME,
    PLANNED,
    PROGRESS,
    RETRY_NUMBER,
    RUNNING,
    UNDER_WAY,
    chain,
    is_dry_run,
    retried_by,
    root_of,
    runs_of,
)
from samza_dagster.orchestration.tags import ACTION, JOB


def check_alone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Raises `Refused` when an older run of the same job is at work, or any that bounces already.

    An older one counts from when it is being started, before it has said anything of itself.
    One that is started later finds this one by its tag: of two never both bounce.
    """
    job = run.tags.get(JOB, "")
    mine = instance.get_run_record_by_id(run.run_id)
    records = instance.get_run_records(
        dg.RunsFilter(tags={ACTION: NAME, JOB: job}, statuses=list(AT_WORK)), limit=MOST
    )
    for record in records:
        other = record.dagster_run
        if other.run_id == run.run_id or is_dry_run(other):
            continue
        is_older = mine is None or record.storage_id < mine.storage_id
        if is_older or other.tags.get(BOUNCE) == RUNNING:
            raise Refused(
                f"one bounce of {job} at a time",
                seen=f"run {other.run_id} is {other.status.value.lower()}: "
                f"{other.tags.get(PROGRESS, 'no progress yet')}",
                fix="wait for it, or terminate it",
            )


def check_not_overtaken(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Raises `Refused` for Dagster's own retry of a bounce that never began, where another was launched since.

    Minutes after a launch that came to nothing Dagster retries it: whoever launched another meanwhile has
    that one.
    """
    others = [one for one in chain(instance, root_of(run)) if one.run_id != run.run_id]
    has_begun = any(one.tags.get(BOUNCE, PLANNED) != PLANNED for one in others)
    if RETRY_NUMBER not in run.tags or has_begun:
        return
    launched = [run, *retried_by(instance, run)][-1]
    of_job = dg.RunsFilter(tags={ACTION: NAME, JOB: run.tags.get(JOB, "")})
    for other in instance.get_runs(of_job, cursor=launched.run_id, ascending=True):
        is_of_chain = root_of(other) == root_of(run)
        if not (is_of_chain or RETRY_NUMBER in other.tags or is_dry_run(other)):
            raise Refused(
                "a retry of a bounce that hadn't begun, while no other was launched",
                seen=f"bounce {other.run_id} was launched after it",
                fix="re-execute it by hand if that one isn't enough",
            )


def hindrance(instance: dg.DagsterInstance, job: str) -> str:
    """Why no bounce of a job may be launched by a clock now; empty when one may."""
    for run in runs_of(instance, job, UNDER_WAY):
        return f"bounce {run.run_id} is {run.status.value.lower()}: {run.tags.get(PROGRESS, 'no progress yet')}"
    return ""
