"""One more standby of an active: started on request, then waited for until it is warm."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.orchestration.acting import carry_out
from samza_dagster.orchestration.extra_standby import Leaving, settled, start_settled
from samza_dagster.orchestration.follow import errors_as_failures, map_metadata, root_run_id
from samza_dagster.orchestration.moves import CatchUp, MovePlan, host_map
from samza_dagster.orchestration.phases import SPIN_UP, Phases
from samza_dagster.orchestration.pictures import lag_svg, picture
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests import Outcome, standing
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.spun_up import (
    note_spin_up,
    started_anew,
    started_standby,
)
from samza_dagster.orchestration.tables import table
from samza_dagster.orchestration.waits.conditions import Wait
from samza_dagster.orchestration.waits.continuation import seen_before, suspend

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.orchestration.waits.warm_up import WarmUp

SHOWN_SAMPLES = 200


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def spin_up(context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource) -> Outcome:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    if plan.if_it_fails:
        with errors_as_failures():
            root = root_run_id(context)
            asked = standing(samza.client, root, SPIN_UP, plan.processor, fits=plan.means)
            note_spin_up(context, asked.uuid)
    with start_settled(context, samza, plan):
        return carry_out(context, samza, plan, Phases.spun_up)


@dg.op(
    out=dg.Out(
        str,
        is_required=False,
        description="The standby's processor id; nothing while the wait goes on without a run.",
    )
)
def wait_until_warm(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    started: Outcome,
    samza: SamzaClientResource,
    samza_policies: PlacementPolicies,
) -> Iterator[dg.Output[Any]]:
    """Waits until the standby's lag has been small and flat for long enough.

    After `wait_in_run_s` the run ends and sensor `continuations` goes on with the wait.
    """
    from samza_dagster.orchestration.waits.warm_up import WarmUp

    standby = started.started
    if standby is None and started.uuid:  # an older release handed it on in words
        standby = started_standby(samza.client.response(started.uuid))
    with settled(context, samza, plan, standby), errors_as_failures():
        if standby is None or plan.catch_up is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        root = root_run_id(context)
        if plan.if_it_fails and Leaving.of(samza.client, root, plan, standby).is_asked:
            context.log.info(f"standby {standby} was warm: it was asked to give its place already")
            yield dg.Output(standby, metadata={"standby": standby})
            return
        require_own(samza.client, root, standby)
        seen = seen_before(context)
        watch = WarmUp(samza.client, standby, plan.catch_up, log=context.log.info)
        steady_ms = watch.run(float(samza_policies.wait_in_run_s), seen)
        after = host_map(samza.client.view())
    if steady_ms is None:
        bounds = plan.catch_up
        suspend(
            context,
            Wait({standby: watch.left_ms}, bounds.lag_limit, bounds.steady_s, 0, ""),
        )
        return
    rows = [
        {"at": at_ms, "seconds": (at_ms - watch.samples[0][0]) / 1000, "records": records}
        for at_ms, records in watch.samples[-SHOWN_SAMPLES:]
    ]
    metadata: dict[str, Any] = {
        "standby": standby,
        "host": started.host or "-",
        "lag_records": watch.samples[-1][1] or 0,
        "steady_seconds": steady_ms / 1000,
        "catch_up_seconds": rows[-1]["seconds"] or 0.0,
        "lag": dg.MetadataValue.md(picture(_lag_svg(standby, watch, plan.catch_up), "lag")),
        "lag_table": table(rows, ("at", "seconds", "records")),
        **map_metadata(plan.before, after),
    }
    if seen is not None:
        metadata["waited_without_a_run"] = seen.why
    yield dg.Output(standby, metadata=metadata)


def _lag_svg(standby: str, watch: "WarmUp", bounds: CatchUp) -> str:
    known = [(at_ms, float(records)) for at_ms, records in watch.samples if records is not None]
    return lag_svg({standby: known[-SHOWN_SAMPLES:]}, limit=bounds.lag_limit)


def require_own(client: "PlacementClient", root_run_id: str, standby: str) -> None:
    """Raises `Refused` when the standby of this id is no longer the one that the chain has started."""
    other = started_anew(client, root_run_id, SPIN_UP, standby)
    if other:
        raise Refused(
            f"{standby} is the standby that this run has started",
            seen=f"that one is gone, and request {other} has started another of its id since",
            fix="launch a new run: it starts a standby of its own",
        )
