"""The hosts that other runs of `drain_host` empty meanwhile, or are about to."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from samza_dagster.orchestration.deploy.submission import SUBMITTED, is_being_submitted
from samza_dagster.orchestration.follow import ROOT, root_run_id
from samza_dagster.orchestration.operations import control
from samza_dagster.orchestration.tags import ACTION, GROUP, JOB, is_dry, tags_from_run_config
from samza_dagster.orchestration.waits.conditions import Wait
from samza_dagster.orchestration.waits.waiting import CANCELLED, WAITING, WAITS_FOR, YES

_ENDED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
_AT_WORK = [status for status in SUBMITTED if status not in _ENDED]


def drained_beside(context: dg.OpExecutionContext, action: str) -> dict[str, str]:
    """Host → the run of the same Samza job and of `action` that drains it; none of this chain.

    One that is queued counts, too, one that waits without a run, and one that is paused.
    """
    job = context.run.tags.get(JOB, "")
    prefix, root = f"{job}/{action}/", root_run_id(context)
    found: dict[str, str] = {}
    others = _others(context.instance, {JOB: job, ACTION: action})
    for run in (*others, *control.paused(context.instance, job, action=action)):
        group = tags_from_run_config(run.run_config, run.tags).get(GROUP, "")
        is_own = run.run_id == context.run.run_id or run.tags.get(ROOT, run.run_id) == root
        if group.startswith(prefix) and not is_own and not is_dry(run.run_config):
            found[group.removeprefix(prefix)] = run.run_id
    return found


def _others(instance: dg.DagsterInstance, tags: dict[str, str]) -> Iterator[dg.DagsterRun]:
    created = dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.NOT_STARTED])
    yield from (run for run in instance.get_runs(created) if is_being_submitted(instance, run))
    yield from instance.get_runs(dg.RunsFilter(tags=tags, statuses=_AT_WORK))
    waiting = {**tags, WAITING: YES}
    ended = dg.RunsFilter(tags=waiting, statuses=[dg.DagsterRunStatus.SUCCESS])
    for run in instance.get_runs(ended):
        wait = Wait.read(run.tags.get(WAITS_FOR))
        if wait is not None and wait.run == run.run_id and CANCELLED not in run.tags:
            yield run
