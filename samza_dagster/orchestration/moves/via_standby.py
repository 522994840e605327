"""One more standby of an active: started, waited for until it is warm, and given up for its move."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.config import CatchUp, MoveViaNewStandbyConfig
from samza_dagster.orchestration.moves.acting import (
    carry_out,
    move,
    reserve,
    stop,
    verify_placement,
)
from samza_dagster.orchestration.moves.extra_standby import (
    GIVES_PLACE,
    Leaving,
    remove_standby,
    settle_if_it_fails,
)
from samza_dagster.orchestration.moves.phases import SPIN_UP, MovePhases
from samza_dagster.orchestration.moves.planning import PLAN, plan_op
from samza_dagster.orchestration.moves.spun_up import started_anew
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.plans.conditions import Reported, WarmUp
from samza_dagster.orchestration.plans.move import LOST, PLACE, RUNNING, MovePlan, host_map
from samza_dagster.orchestration.requests.follow import (
    errors_as_failures,
    map_metadata,
    outcome_metadata,
)
from samza_dagster.orchestration.requests.heartbeat import Heartbeat
from samza_dagster.orchestration.requests.step_request import Outcome, last_success
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.pictures import lag_svg, picture
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.text import clock
from samza_dagster.orchestration.ticks import elapsed_ms

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

SHOWN_SAMPLES = 200
SAMPLE_S = 2.0


@dg.op(out=dg.Out(Outcome, description="How the standby's request ended."))
def spin_up(context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource) -> Outcome:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    return carry_out(context, samza, plan, MovePhases.spin_up)


@dg.op(out=dg.Out(str, description="The standby's processor id."))
def wait_until_warm(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    started: Outcome,
    samza: SamzaClientResource,
) -> Iterator[dg.Output[Any]]:
    """Waits until the standby's lag has been small and flat for long enough.

    The log has what is seen of it, at each change and every half minute.
    """
    standby = started.started
    with settle_if_it_fails(context, samza, plan, standby), errors_as_failures():
        if standby is None or plan.catch_up is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        root = root_run_id(context)
        if plan.if_it_fails and Leaving.of(samza.client, root, plan, standby).is_asked:
            context.log.info(f"standby {standby} was warm: it was asked to give its place already")
            yield dg.Output(standby, metadata={"standby": standby})
            return
        _require_own(samza.client, root, standby)
        watch, samples = WarmUp.of(standby, plan.catch_up), list[tuple[int, int | None]]()
        look_until_warm(samza.client, watch, samples, context.log.info)
        after = host_map(samza.client.view())
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
    yield dg.Output(standby, metadata=metadata)
    context.log.info(f"standby {standby} is warm: {watch.line}")


def look_until_warm(
    client: "PlacementClient",
    watch: WarmUp,
    samples: list[tuple[int, int | None]],
    log: Callable[[str], None] = lambda _: None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_ms: Callable[[], int] = elapsed_ms,
) -> None:
    """Looks until the standby is warm.

    `samples` gets, for each look, when it was and the most that any store of it is behind. Raises
    `ActionFailed` when it takes too long, and for a standby that is gone.
    """
    standby, beat = watch.standby, Heartbeat(log, now_ms)
    while True:
        if standby not in client.view().processors:
            raise ActionFailed(
                f"standby {standby} runs",
                seen="it isn't in the job any more",
                fix="launch a new run: it starts another one",
            )
        now, reported = now_ms(), Reported.read(client)
        samples.append((now, reported.lags.get(standby)))
        if watch.look(reported, now):
            return
        if watch.is_too_late:
            raise ActionFailed(
                f"standby {standby} is warm within {watch.bounds.timeout_s:g} s",
                seen=watch.line,
                fix="re-execute this run from failure to wait on: the standby runs and catches up",
            )
        beat("not steady" if watch.steady_ms is None else "steady", f"standby {watch.line}")
        sleep(SAMPLE_S)


def _lag_svg(standby: str, samples: list[tuple[int, int | None]], bounds: CatchUp) -> str:
    known = [(at_ms, float(records)) for at_ms, records in samples if records is not None]
    return lag_svg({standby: known[-SHOWN_SAMPLES:]}, limit=bounds.lag_limit)


def _require_own(client: "PlacementClient", root_run_id: str, standby: str) -> None:
    """Raises `Refused` when the standby of this id is no longer the one that the chain has started."""
    other = started_anew(client, root_run_id, SPIN_UP, standby)
    if other:
        raise Refused(
            f"{standby} is the standby that this run has started",
            seen=f"that one is gone, and request {other} has started another of its id since",
            fix="launch a new run: it starts a standby of its own",
        )


plan_move_via_new_standby = plan_op(
    MoveViaNewStandbyConfig,
    decisions.move_via_new_standby,
    "Checks the active, chooses the host if none is named, and what the rules say of each step.",
)


@dg.op(
    out={
        "move_plan": dg.Out(MovePlan, description="The active's own move."),
        "away": dg.Out(Outcome, description="How the new standby gave way."),
    }
)
def give_place(
    context: dg.OpExecutionContext, plan: MovePlan, standby: str, samza: SamzaClientResource
) -> tuple[MovePlan, Outcome]:
    """The new standby frees its host: it is removed, or relocated when it is kept.

    The store that it has kept warm stays there, and the active runs on elsewhere.
    """
    swap = replace(plan, kind=PLACE, standby=standby, standby_host=plan.destination)
    with settle_if_it_fails(context, samza, plan, standby), errors_as_failures():
        client, root = samza.client, root_run_id(context)
        leaving, view = Leaving.of(client, root, plan, standby), client.view()
        if plan.keep_standby and leaving.removed.destination is not None:
            raise Refused(
                f"standby {standby} is kept",
                seen=f"request {leaving.removed.uuid} of an earlier run removes it from the job",
                fix="the same with keep_standby: false goes on with the move; spin_up_standby starts"
                " one more after it",
            )
        asked = leaving.relocated if plan.keep_standby else leaving.removed
        if asked.destination is None:
            _require_own(client, root, standby)
            _refuse_unless_it_may_move(view, plan, standby, leaving.relocated.destination)
        if plan.keep_standby:
            phases = MovePhases(context, samza, swap)
            outcome = phases.make_room()
            role = phases.role
        else:
            outcome = remove_standby(
                context, client, standby, step=GIVES_PLACE, timeout_s=plan.timeout_s
            )
            role = "asks: a request of our own that removes the standby"
    context.add_output_metadata(outcome_metadata(outcome, role), output_name="away")
    return swap, outcome


@dg.op(out=dg.Out(list[str], description="The standbys that the active has in the end."))
def standbys_after(
    context: dg.OpExecutionContext, plan: MovePlan, host: str, samza: SamzaClientResource
) -> list[str]:
    """Tells the standbys before and after, and what the new one cost."""
    with errors_as_failures():
        client = samza.client
        view = client.view()
        found = sorted(
            p.processor_id
            for p in view.processors.values()
            if view.is_standby(p.processor_id) and view.group_of(p.processor_id) == plan.processor
        )
        seconds = _lived_s(client, root_run_id(context))
    memory = view.container_memory_mb
    cost = (
        "not known" if memory is None or seconds is None else f"{memory:,} MiB for {seconds:,.0f} s"
    )
    context.add_output_metadata(
        {
            "standbys": ", ".join(found) or "none",
            "new_standby_cost": "it is kept" if plan.keep_standby else cost,
            "active_on": host,
            **map_metadata(plan.before, host_map(view)),
        }
    )
    return found


def _refuse_unless_it_may_move(
    view: "JobView", plan: MovePlan, standby: str, relocated: str | None
) -> None:
    """Before a warm standby leaves: what it leaves for must still be possible.

    `relocated`: where an earlier run has sent it, which was to keep it.
    """
    warm = view.processors.get(standby)
    active, host = view.processors.get(plan.processor), view.hosts.get(plan.destination)
    if host is None or host.state == LOST:
        seen = f"{plan.destination} is {'unknown' if host is None else 'lost'}"
    elif active is None or active.state != RUNNING:
        seen = f"{plan.processor} is {'gone' if active is None else active.state}"
    elif warm is None or warm.host not in (plan.destination, relocated):
        seen = f"{standby} is {'gone' if warm is None else f'on {warm.host}'}"
    else:
        return
    raise Refused(
        f"{plan.processor} takes the place of {standby} on {plan.destination}",
        seen=seen,
        fix="re-execute this run from failure once it is well again",
    )


def _lived_s(client: "PlacementClient", root: str) -> float | None:
    began = last_success(client, root, SPIN_UP)
    ended = last_success(client, root, GIVES_PLACE)
    if began is None or ended is None:
        return None
    return max(0, ended.timestamp - began.timestamp) / 1000


@dg.graph(name="move_via_new_standby")
def move_via_new_standby_graph() -> None:
    """Moves an active to a host where no warm copy is yet: a new standby warms up there first.

    It is started and waited for; then it gives its place to the active, which starts over the
    warm store. In the end there are as many standbys as before, or one
    more with keep_standby.
    """
    plan = getattr(plan_move_via_new_standby(), PLAN)
    swap, away = give_place(plan, wait_until_warm(plan, spin_up(plan)))
    host = verify_placement(swap, [away, move(swap, stop(swap, reserve(swap)))])
    standbys_after(plan, host)
