"""Which bounces of a job may begin: one at a time."""

from __future__ import annotations

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.operations.runs import (
    AT_WORK,
    BOUNCE,
    MOST,
    NAME,
    PROGRESS,
    RUNNING,
    UNDER_WAY,
    is_dry_run,
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


def hindrance(instance: dg.DagsterInstance, job: str) -> str:
    """Why no bounce of a job may be launched by a clock now; empty when one may."""
    for run in runs_of(instance, job, UNDER_WAY):
        return f"bounce {run.run_id} is {run.status.value.lower()}: {run.tags.get(PROGRESS, 'no progress yet')}"
    return ""
