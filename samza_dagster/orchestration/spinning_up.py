"""One more standby of an active: started on request, then waited for until it is warm."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.orchestration.acting import carry_out
from samza_dagster.orchestration.extra_standby import Leaving, settled, start_settled
from samza_dagster.orchestration.follow import errors_as_failures, map_metadata, root_run_id
from samza_dagster.orchestration.moves import CatchUp, MovePlan, host_map
from samza_dagster.orchestration.phases import SPIN_UP, MovePhases
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.requests import Outcome, standing
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.pictures import clock, lag_svg, picture
from samza_dagster.orchestration.show.plain_pictures import plain_lag, plain_maps
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.spun_up import (
    note_spin_up,
    started_anew,
    started_standby,
)
from samza_dagster.orchestration.ticks import elapsed_ms
from samza_dagster.orchestration.waits.conditions import Reported
from samza_dagster.orchestration.waits.continuation import seen_before, suspend
from samza_dagster.orchestration.waits.heartbeat import Heartbeat
from samza_dagster.orchestration.waits.warm_up import WarmUp

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient

SHOWN_SAMPLES = 200
SAMPLE_S = 2.0


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def spin_up(context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource) -> Outcome:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    if plan.if_it_fails:
        with errors_as_failures():
            root = root_run_id(context)
            asked = standing(samza.client, root, SPIN_UP, plan.processor, fits=plan.means)
            note_spin_up(context, asked.uuid)
    with start_settled(context, samza, plan):
        return carry_out(context, samza, plan, MovePhases.spun_up)


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
        watch, samples = WarmUp.of(standby, plan.catch_up, seen), list[tuple[int, int | None]]()
        in_run_ms = round(samza_policies.wait_in_run_s * 1000)
        is_warm = look_until_warm(samza.client, watch, samples, in_run_ms, context.log.info)
        after = host_map(samza.client.view())
    if not is_warm:
        suspend(context, watch.rest)
        return
    rows = [
        {"at": clock(at_ms), "seconds": (at_ms - samples[0][0]) / 1000, "records": records}
        for at_ms, records in samples[-SHOWN_SAMPLES:]
    ]
    metadata: dict[str, Any] = {
        "standby": standby,
        "host": started.host or "-",
        "lag_records": samples[-1][1] or 0,
        "steady_seconds": (watch.steady_ms or 0) / 1000,
        "catch_up_seconds": rows[-1]["seconds"] or 0.0,
        "lag": dg.MetadataValue.md(picture(_lag_svg(standby, samples, plan.catch_up), "lag")),
        "lag_table": table(rows, ("at", "seconds", "records")),
        **map_metadata(plan.before, after),
    }
    if seen is not None:
        metadata["waited_without_a_run"] = seen.why
    yield dg.Output(standby, metadata=metadata)
    known = [(at_ms, float(records)) for at_ms, records in samples if records is not None]
    context.log.info(f"standby {standby}: {plain_lag(known, plan.catch_up.lag_limit)}")
    context.log.info(plain_maps(plan.before, after))


def look_until_warm(
    client: "PlacementClient",
    watch: WarmUp,
    samples: list[tuple[int, int | None]],
    in_run_ms: int | None = None,
    log: Callable[[str], None] = lambda _: None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_ms: Callable[[], int] = elapsed_ms,
) -> bool:
    """Whether the standby is warm; False when `in_run_ms` is over first.

    `samples` gets, for each look, when it was and the most that any store of it is behind. Raises
    `ActionFailed` when it takes too long, and for a standby that is gone.
    """
    standby, began, beat = watch.standby, now_ms(), Heartbeat(log, now_ms)
    while True:
        if standby not in client.view().processors:
            raise ActionFailed(
                f"standby {standby} runs",
                seen="it isn't in the job any more",
                fix="launch a new run: it starts another one",
            )
        now, reported = now_ms(), Reported.read(client)
        samples.append((now, reported.lags.get(standby)))
        watch.look(reported, now)
        if watch.is_warm:
            return True
        if watch.is_too_late:
            between = "" if watch.seen is None else f"; between two runs: {watch.seen.why}"
            raise ActionFailed(
                f"standby {standby} is warm within {watch.within_s:g} s",
                seen=f"{watch.line}{between}",
                fix="re-execute this run from failure to wait on: the standby runs and catches up",
            )
        if in_run_ms is not None and now - began >= in_run_ms:
            return False
        beat("not steady" if watch.steady_ms is None else "steady", f"standby {watch.line}")
        sleep(SAMPLE_S)


def _lag_svg(standby: str, samples: list[tuple[int, int | None]], bounds: CatchUp) -> str:
    known = [(at_ms, float(records)) for at_ms, records in samples if records is not None]
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
