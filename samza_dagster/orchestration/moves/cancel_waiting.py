"""`cancel_waiting`: gives up a run that waits without a worker, and hands back its standby."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from samza_dagster.errors import Refused
from samza_dagster.orchestration.chain import ROOT, root_run_id
from samza_dagster.orchestration.config import AskedConfig
from samza_dagster.orchestration.moves.extra_standby import remove_standby
from samza_dagster.orchestration.moves.planning import tag_run
from samza_dagster.orchestration.plans.conditions import Wait
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests.follow import errors_as_failures
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import JOB, job_tag
from samza_dagster.orchestration.waits.waiting import (
    CANCELLED,
    WAITS_FOR,
    WaitingRun,
    continued_by,
    re_executed_now,
    waiting_runs,
)

ACTION = "cancel_waiting"
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class CancelWaitingConfig(AskedConfig):
    """Which waiting run is given up."""

    run: str = Field(
        default="",
        max_length=64,
        description="Id of the run that waits, or of the first of its chain, or how one begins. "
        "Empty: the only one that waits.",
    )
    remove_standby: bool = Field(
        default=True,
        description="Also stop the standby that was spun up for it, if it isn't one of the job's own.",
    )


@dg.op(name="give_up", out=dg.Out(list[str], description="Standbys that were removed."))
def cancel_waiting(
    context: dg.OpExecutionContext,
    config: CancelWaitingConfig,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> list[str]:
    """Marks the wait as cancelled, so that it isn't continued, then removes its standby.

    One that a run goes on with is refused: that run is what is to be terminated.
    """
    with errors_as_failures():
        tag_run(context)
        root, job = root_run_id(context), job_tag(samza.job, samza.prefix)
        chosen = _chosen_before(context.instance, job, root, config.run) or choose(
            context.instance, waiting_runs(context.instance, job), config.run
        )
        processors = samza.client.view().processors
        extra = [p for p in chosen.wait.who if p in processors and processors[p].extra]
        going = extra if config.remove_standby else []
        text = f"{chosen.run.job_name} {chosen.run.run_id} waits for {', '.join(chosen.wait.who)}"
        if config.dry_run:
            context.log.info(f"{text}; it would be given up, and {going or 'no standby'} removed")
            return []
        context.instance.add_run_tags(chosen.run.run_id, {CANCELLED: root})
        # One that was launched meanwhile may have begun before the tag was there.
        goes_on = _gone_on_with(context.instance, chosen)
        if goes_on is not None and goes_on.status not in _ENDED_BADLY:
            raise _not_given_up(chosen, goes_on, "; then re-execute this run, to give it up")
        context.log.info(f"{text}: given up")
        timeout_s = samza_policies.timeout_s if config.timeout_s is None else config.timeout_s
        for standby in going:
            step = f"{ACTION}/{standby}"
            remove_standby(context, samza.client, standby, step=step, timeout_s=float(timeout_s))
    context.add_output_metadata(
        {"run": dg.MetadataValue.dagster_run(chosen.run.run_id), "removed": ", ".join(going) or "-"}
    )
    return going


@dg.graph(name=ACTION)
def cancel_waiting_graph() -> None:
    """Gives up a run that waits for a standby without a worker; removes the standby that it spun up."""
    cancel_waiting()


def _chosen_before(
    instance: dg.DagsterInstance, job: str, root: str, run: str
) -> WaitingRun | None:
    """The wait that a failed run of the chain `root` gave up, whose standby may be there still."""
    for cancelled in instance.get_runs(dg.RunsFilter(tags={JOB: job, CANCELLED: root})):
        wait = Wait.read(cancelled.tags.get(WAITS_FOR))
        if wait is not None and wait.run == cancelled.run_id:
            one = WaitingRun(cancelled.tags.get(ROOT, cancelled.run_id), wait, cancelled)
            if _is_meant(one, run):
                return one
    return None


def _is_meant(one: WaitingRun, run: str) -> bool:
    return run in ("", one.root) or one.run.run_id.startswith(run)


def _gone_on_with(instance: dg.DagsterInstance, one: WaitingRun) -> dg.DagsterRun | None:
    """The run that goes on with the wait: launched for it by the sensor, or its re-execution now."""
    again = re_executed_now(instance, one.run.tags.get(JOB, ""))
    return continued_by(instance, one) or again.get(one.run.run_id)


def _not_given_up(one: WaitingRun, goes_on: dg.DagsterRun, then: str = "") -> Refused:
    return Refused(
        f"{ACTION}: run {one.run.run_id} waits",
        seen=f"run {goes_on.run_id} goes on with it: it is {goes_on.status.value.lower()}",
        fix=f"terminate run {goes_on.run_id} unless it has ended{then}",
    )


def choose(instance: dg.DagsterInstance, waits: Sequence[WaitingRun], run: str) -> WaitingRun:
    """The wait that is meant; raises `Refused` that lists those there are.

    Also for one that a run goes on with already: the sensor's next tick marks it.
    """
    found = [one for one in waits if _is_meant(one, run)]
    alone, going = list[WaitingRun](), list[Refused]()
    for one in found:
        goes_on = _gone_on_with(instance, one)
        if goes_on is None:
            alone.append(one)
        else:
            going.append(_not_given_up(one, goes_on))
        if len(alone) > 1:
            break
    if len(alone) == 1 and (not run or not going):
        return alone[0]
    if going and not alone:
        raise going[0]
    raise Refused(
        f"{ACTION}: one run that waits" + (f": {run!r}" if run else ""),
        seen="; ".join(f"{one.run.job_name} {one.run.run_id}" for one in waits) or "none waits",
        fix="the run's id" if waits else "a run that goes on is cancelled with Terminate",
    )
