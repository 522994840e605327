"""Which bounces of a job may begin: one at a time, and none that another has overtaken."""

from __future__ import annotations

import time

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
    SKIPPED,
    UNDER_WAY,
    chain,
    is_dry_run,
    retried_by,
    root_of,
    runs_of,
)
from samza_dagster.orchestration.tags import ACTION, JOB

_WILL_RETRY, _RETRIED_AS = "dagster/will_retry", "dagster/auto_retry_run_id"
_RETRY_S = 300.0


def asked_for(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """What a person or a clock launched, where `run` is a retry that Dagster made by itself."""
    return [run, *retried_by(instance, run)][-1]


def is_by_clock(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run would begin its bounce, and nobody goes on with that by hand."""
    root = root_of(run)
    if asked_for(instance, run).run_id != root:
        return False
    others = [one for one in chain(instance, root) if one.run_id != run.run_id]
    return all(one.tags.get(BOUNCE, PLANNED) in (PLANNED, SKIPPED) for one in others)


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
        if other.run_id == run.run_id or _restarts_nobody(other):
            continue
        is_older = mine is None or record.storage_id < mine.storage_id
        if is_older or other.tags.get(BOUNCE) == RUNNING:
            raise Refused(
                f"one bounce of {job} at a time",
                seen=f"run {other.run_id} is {other.status.value.lower()}: "
                f"{other.tags.get(PROGRESS, 'no progress yet')}",
                fix="wait for it, or terminate it",
            )


def _restarts_nobody(run: dg.DagsterRun) -> bool:
    """A dry run, or one that was skipped."""
    return is_dry_run(run) or run.tags.get(BOUNCE) == SKIPPED


def hindrance(instance: dg.DagsterInstance, job: str) -> str:
    """Why no bounce of a job may be launched by a clock now; empty when one may."""
    for run in runs_of(instance, job, UNDER_WAY):
        return f"bounce {run.run_id} is {run.status.value.lower()}: {run.tags.get(PROGRESS, 'no progress yet')}"
    for run in runs_of(instance, job, tags={_WILL_RETRY: "true"}):
        if _is_retried_soon(instance, run):
            return f"bounce {run.run_id} has failed and Dagster is about to retry it"
    return ""


def _is_retried_soon(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Dagster's daemon retries a failed run seconds after it marked it so; no longer than that."""
    if run.tags.get(_WILL_RETRY) != "true" or _RETRIED_AS in run.tags:
        return False
    record = instance.get_run_record_by_id(run.run_id)
    ended = record.end_time if record is not None else None
    return ended is not None and time.time() - ended < _RETRY_S


def overtaken_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun | None:
    """The bounce of the job that was launched after the one which `run` retries by itself.

    None where that has restarted somebody: it is gone on with. One that wasn't submitted, or
    whose worker never began, counts as failed minutes after its launch, and is retried then:
    whoever saw it do nothing and launched another has that one. A launch counts
    whatever became of it, a retry of another bounce doesn't: of two that never began the
    later one is left.
    """
    if RETRY_NUMBER not in run.tags:
        return None
    root = root_of(run)
    if any(
        one.tags.get(BOUNCE, PLANNED) not in (PLANNED, SKIPPED)
        for one in chain(instance, root)
        if one.run_id != run.run_id
    ):
        return None
    launched = asked_for(instance, run).run_id
    of_job = dg.RunsFilter(tags={ACTION: NAME, JOB: run.tags.get(JOB, "")})
    for other in instance.get_runs(of_job, cursor=launched, ascending=True):
        is_launched = RETRY_NUMBER not in other.tags and not _restarts_nobody(other)
        if is_launched and root_of(other) != root:
            return other
    return None
