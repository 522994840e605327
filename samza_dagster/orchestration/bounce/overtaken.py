"""Bounces that Dagster retries by itself though somebody has launched another one meanwhile."""

from __future__ import annotations

import dagster as dg

from samza_dagster.orchestration.operations.control import (
    BOUNCE,
    NAME,
    PLANNED,
    RETRY_NUMBER,
    SKIPPED,
    asked_for,
    chain,
    restarts_nobody,
    root_of,
)
from samza_dagster.orchestration.tags import ACTION, JOB


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
        is_launched = RETRY_NUMBER not in other.tags and not restarts_nobody(other)
        if is_launched and root_of(other) != root:
            return other
    return None
