"""`cancel_waiting`: gives up a run that waits without a worker, and hands back its standby."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from samza_dagster.errors import Refused
from samza_dagster.orchestration.config import RunConfig
from samza_dagster.orchestration.extra_standby import remove_standby
from samza_dagster.orchestration.follow import errors_as_failures
from samza_dagster.orchestration.planning import tag_run
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.waits.continuation import CANCELLED, Waiting, waiting_runs

ACTION = "cancel_waiting"


class CancelWaitingConfig(RunConfig):
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
    """Marks the wait as cancelled, so that it isn't continued, then removes its standby."""
    with errors_as_failures():
        tag_run(context)
        chosen = choose(waiting_runs(context.instance, samza.job), config.run)
        processors = samza.client.view().processors
        extra = [p for p in chosen.wait.who if p in processors and processors[p].extra]
        going = extra if config.remove_standby else []
        told = f"{chosen.run.job_name} {chosen.run.run_id} waits for {', '.join(chosen.wait.who)}"
        if config.dry_run:
            context.log.info(f"{told}; it would be given up, and {going or 'no standby'} removed")
            return []
        who = config.requested_by or context.run.run_id
        context.instance.add_run_tags(chosen.run.run_id, {CANCELLED: who})
        context.log.info(f"{told}: given up")
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


def choose(waits: Sequence[Waiting], run: str) -> Waiting:
    """The wait that is meant; raises `Refused` that lists those there are."""
    found = [one for one in waits if run in ("", one.root) or one.run.run_id.startswith(run)]
    if len(found) == 1:
        return found[0]
    raise Refused(
        f"{ACTION}: one run that waits" + (f": {run!r}" if run else ""),
        seen="; ".join(f"{one.run.job_name} {one.run.run_id}" for one in waits) or "none waits",
        fix="the run's id" if waits else "a run that goes on is cancelled with Terminate",
    )
