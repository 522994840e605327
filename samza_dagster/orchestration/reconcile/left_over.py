"""Standbys that runs of ours have spun up for a move and left: found by what the runs asked.

Which request has started a standby its answer tells; once the answer is cleaned up, a day
after it by default, the job's audit topic does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.deploy.submission import is_never_submitted
from samza_dagster.orchestration.follow import ROOT
from samza_dagster.orchestration.operations import control
from samza_dagster.orchestration.plans.findings import Finding
from samza_dagster.orchestration.spun_up import SPINS_UP, YES, newest_starts, spin_ups_noted
from samza_dagster.orchestration.tags import JOB
from samza_dagster.orchestration.waits.waiting import CANCELLED

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

RUNS_LOOKED_AT = 1_000
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dataclass(frozen=True)
class LeftOver:
    """Standbys that are left over, and of which it couldn't be told."""

    standbys: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


def left_over(
    instance: dg.DagsterInstance, client: PlacementClient, view: JobView, job: str
) -> LeftOver:
    """Standbys of runs of this job (tag `samza/job`) whose chain ended badly, or was cancelled while it waited.

    A standby of a chain that is going on, or ended well, isn't left over; nor is one whose id
    was free again and that somebody else has started since.
    """
    extra = sorted(p for p, known in view.processors.items() if known.extra)
    asked, all_runs = _asked_in_vain(instance, job) if extra else (frozenset[str](), True)
    if not asked:
        return LeftOver()
    origins = {standby: start.uuid for standby, start in newest_starts(client).items()}
    findings: list[Finding] = []
    unknown = [standby for standby in extra if standby not in origins]
    if unknown and asked - {response.uuid for response in client.history()}:
        by_audit, why = _by_audit(client)
        origins = {**by_audit, **origins}
        findings += [_not_known(one, why) for one in unknown if one not in origins]
    if not all_runs:
        findings.append(_OLDER_RUNS)
    return LeftOver(
        frozenset(standby for standby in extra if origins.get(standby) in asked), tuple(findings)
    )


def _asked_in_vain(instance: dg.DagsterInstance, job: str) -> tuple[frozenset[str], bool]:
    """Requests for standbys by chains that ended badly; whether all runs were looked at."""
    runs = instance.get_runs(dg.RunsFilter(tags={JOB: job, SPINS_UP: YES}), limit=RUNS_LOOKED_AT)
    found: set[str] = set()
    fates: dict[str, bool] = {}
    for run in runs:
        root = run.tags.get(ROOT) or run.root_run_id or run.run_id
        if root not in fates:
            fates[root] = _ended_badly(instance, root)
        if fates[root]:
            found.update(spin_ups_noted(run.tags))
    return frozenset(found), len(runs) < RUNS_LOOKED_AT


def _by_audit(client: PlacementClient) -> tuple[Mapping[str, str], str]:
    try:
        return client.standby_origins(), "the audit topic has no start of it on request"
    except SamzaDagsterError as error:
        return {}, str(error)


def _not_known(standby: str, why: str) -> Finding:
    return Finding(
        standby,
        "it was spun up on request, its answer is cleaned up, and whether a run of ours that"
        f" didn't end well asked for it isn't known: {why}",
        f"samza-dagster control-standby stop {standby} if nobody wants it; or no_extra: true",
    )


_OLDER_RUNS = Finding(
    "runs",
    f"more than {RUNS_LOOKED_AT:,} have spun up a standby: what older ones left over isn't known",
    "no_extra: true, if nobody wants the standbys that were spun up on request",
)


def _ended_badly(instance: dg.DagsterInstance, root: str) -> bool:
    chain = {run.run_id: run for run in instance.get_runs(dg.RunsFilter(tags={ROOT: root}))}
    for run in list(chain.values()) or [instance.get_run_by_id(root)]:
        if run is not None:
            group = instance.get_run_group(run.root_run_id or run.run_id)
            chain |= {one.run_id: one for one in (group[1] if group else ())}
    records = instance.get_run_records(dg.RunsFilter(run_ids=sorted(chain)))
    runs = (record.dagster_run for record in records)
    newest = next((run for run in runs if not is_never_submitted(instance, run)), None)
    if newest is None or newest.status is not dg.DagsterRunStatus.SUCCESS:
        return newest is not None and newest.status in _ENDED_BADLY
    return CANCELLED in newest.tags or control.state_of(newest) == control.ABORTED
