"""Standbys that runs of ours have spun up for a move and left: found by what the runs asked."""

from __future__ import annotations

import dagster as dg

from samza_dagster.orchestration.follow import ROOT
from samza_dagster.orchestration.ports import Placement
from samza_dagster.orchestration.spun_up import SPINS_UP, SPUN_UP, YES, newest_starts
from samza_dagster.orchestration.tags import JOB
from samza_dagster.orchestration.waits.waiting import CANCELLED

RUNS_LOOKED_AT = 1_000
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def left_over(instance: dg.DagsterInstance, client: Placement, job: str) -> frozenset[str]:
    """Standbys of runs of this job (tag `samza/job`) whose chain ended badly, or was cancelled while it waited.

    A standby of a chain that is going on, or ended well, isn't left over; nor is one whose id
    was free again and that somebody else has started since.
    """
    started_by = {start.uuid: standby for standby, start in newest_starts(client).items()}
    runs = instance.get_runs(dg.RunsFilter(tags={JOB: job, SPINS_UP: YES}), limit=RUNS_LOOKED_AT)
    found: set[str] = set()
    fates: dict[str, bool] = {}
    for run in runs:
        root = run.tags.get(ROOT) or run.root_run_id or run.run_id
        if root not in fates:
            fates[root] = _ended_badly(instance, root)
        if not fates[root]:
            continue
        for uuid in run.tags.get(SPUN_UP, "").split(","):
            if uuid in started_by:
                found.add(started_by[uuid])
    return frozenset(found)


def _ended_badly(instance: dg.DagsterInstance, root: str) -> bool:
    chain = {run.run_id: run for run in instance.get_runs(dg.RunsFilter(tags={ROOT: root}))}
    for run in list(chain.values()) or [instance.get_run_by_id(root)]:
        if run is not None:
            group = instance.get_run_group(run.root_run_id or run.run_id)
            chain |= {one.run_id: one for one in (group[1] if group else ())}
    records = instance.get_run_records(dg.RunsFilter(run_ids=sorted(chain)), limit=1)
    if not records:
        return False
    newest = records[0].dagster_run
    return newest.status in _ENDED_BADLY or (
        newest.status is dg.DagsterRunStatus.SUCCESS and CANCELLED in newest.tags
    )
