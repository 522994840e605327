"""One more standby of an active: started, waited for until it is warm, and given up for its move."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.errors import ActionFailed, Refused
from samza_dagster.orchestration.chain import root_run_id
from samza_dagster.orchestration.config import MoveViaNewStandbyConfig
from samza_dagster.orchestration.moves.acting import (
    RELOCATE,
    SPIN_UP,
    MoveOp,
    carry_out,
    move,
    move_op,
    reserve,
    stop,
    verify_placement,
)
from samza_dagster.orchestration.moves.planning import plan_op
from samza_dagster.orchestration.operations.planning import PLAN
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.plans.move import LOST, RUNNING, MovePlan, host_map
from samza_dagster.orchestration.plans.units import NEW, Kind, UnitStep
from samza_dagster.orchestration.requests.follow import (
    errors_as_failures,
    map_metadata,
    outcome_metadata,
)
from samza_dagster.orchestration.requests.step_request import (
    StepRequest,
    is_of_step,
    last_success,
    newest_starts,
    started_anew,
)
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.text import clock

GIVES_PLACE = "gives_place"
SHOWN_SAMPLES = 200


@dg.op(out=dg.Out(StepRequest, description="How the standby's request ended."))
def spin_up(
    context: dg.OpExecutionContext, plan: MovePlan, samza: SamzaClientResource
) -> StepRequest:
    """Reserves a place and starts the standby there; if it can't, the job is as it was."""
    return carry_out(context, samza, plan, _spin_up)


def _spin_up(op: MoveOp) -> StepRequest:
    plan = op.plan
    asked = op.find(SPIN_UP, plan.processor, plan.means)
    if asked.destination is None and plan.if_it_fails:
        _refuse_beside_another(op)
    op.role = "asks: a request of our own"
    step = UnitStep(SPIN_UP, Kind.START_STANDBY, plan.processor, plan.destination)
    return op.ask(step, asked)


@dg.op(out=dg.Out(str, description="The standby's processor id."))
def wait_until_warm(
    context: dg.OpExecutionContext,
    plan: MovePlan,
    started: StepRequest,
    samza: SamzaClientResource,
) -> Iterator[dg.Output[Any]]:
    """Waits until the standby's lag has been small and flat for long enough.

    The log has what is seen of it, at each change and every half minute.
    """
    standby = started.started
    with move_op(context, samza, plan, standby) as op:
        if standby is None:
            raise ActionFailed("the new standby's id", seen=started.message)
        if plan.if_it_fails and any(one.destination for one in _leaving(op, standby)):
            context.log.info(f"standby {standby} was warm: it was asked to give its place already")
            yield dg.Output(standby, metadata={"standby": standby})
            return
        _require_own(op, standby)
        warm = op.wait(UnitStep("", Kind.WAIT_WARM, NEW), standby=standby).warm_up
        assert warm is not None
        after = host_map(op.client.view())
    samples = warm.samples
    rows = [
        {"at": clock(at_ms), "seconds": (at_ms - samples[0][0]) / 1000, "records": records}
        for at_ms, records in samples[-SHOWN_SAMPLES:]
    ]
    metadata: dict[str, Any] = {
        "standby": standby,
        "host": started.host or "-",
        "lag_records": samples[-1][1] or 0,
        "steady_seconds": (warm.steady_ms or 0) / 1000,
        "catch_up_seconds": rows[-1]["seconds"] or 0.0,
        "lag_table": table(rows, ("at", "seconds", "records")),
        **map_metadata(plan.before, after),
    }
    yield dg.Output(standby, metadata=metadata)
    context.log.info(f"standby {standby} is warm: {warm.line}")


def _require_own(op: MoveOp, standby: str) -> None:
    """Raises `Refused` when the standby of this id is no longer the one that the chain has started."""
    other = started_anew(op.client, op.root, SPIN_UP, standby)
    if other:
        raise Refused(
            f"{standby} is the standby that this run has started",
            seen=f"that one is gone, and request {other} has started another of its id since",
            fix="launch a new run: it starts a standby of its own",
        )


def _refuse_beside_another(op: MoveOp) -> None:
    """Raise `Refused` while a standby lives that the chain has started for its move elsewhere.

    Nobody would give that one back.
    """
    there = op.client.view().processors
    for standby, start in newest_starts(op.client).items():
        if standby in there and is_of_step(start.uuid, op.root, SPIN_UP):
            raise Refused(
                f"a standby on {op.plan.destination} for the move, the only one that this chain has"
                " started for it",
                seen=f"it has started standby {standby} on {start.destination_host} as well",
                fix=f"destination {start.destination_host} to go on with that one; or a new run, and"
                f" samza-dagster control-standby stop {standby} if it isn't wanted any more",
            )


def _leaving(op: MoveOp, standby: str) -> tuple[StepRequest, StepRequest]:
    """Return the requests by which the chain's own standby is relocated, and removed, as they stand.

    A removal elsewhere was of another standby that had its id.
    """
    relocated = op.find(RELOCATE, standby, op.plan.makes_room)
    hosts = (op.plan.destination, relocated.destination)
    return relocated, op.find(GIVES_PLACE, standby, hosts.__contains__)


plan_move_via_new_standby = plan_op(
    MoveViaNewStandbyConfig,
    decisions.move_via_new_standby,
    "Checks the active, chooses the host if none is named, and what the rules say of each step.",
)


@dg.op(
    out={
        "move_plan": dg.Out(MovePlan, description="The active's own move."),
        "away": dg.Out(StepRequest, description="How the new standby gave way."),
    }
)
def give_place(
    context: dg.OpExecutionContext, plan: MovePlan, standby: str, samza: SamzaClientResource
) -> tuple[MovePlan, StepRequest]:
    """The new standby frees its host: it is removed, or relocated when it is kept.

    The store that it has kept warm stays there, and the active runs on elsewhere.
    """
    swap = replace(plan, kind=Kind.PLACE, standby=standby, standby_host=plan.destination)
    with move_op(context, samza, swap, standby) as op:
        relocated, removed = _leaving(op, standby)
        if plan.keep_standby and removed.destination is not None:
            raise Refused(
                f"standby {standby} is kept",
                seen=f"request {removed.uuid} of an earlier run removes it from the job",
                fix="the same with keep_standby: false goes on with the move; spin_up_standby starts"
                " one more after it",
            )
        if (relocated if plan.keep_standby else removed).destination is None:
            _require_own(op, standby)
            _refuse_unless_it_may_move(op, standby, relocated.destination)
        if plan.keep_standby:
            outcome = op.make_room()
        else:
            outcome = op.remove_standby(standby, GIVES_PLACE)
            op.role = "asks: a request of our own that removes the standby"
    context.add_output_metadata(outcome_metadata(outcome, op.role), output_name="away")
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


def _refuse_unless_it_may_move(op: MoveOp, standby: str, relocated: str | None) -> None:
    """Before a warm standby leaves: what it leaves for must still be possible.

    `relocated`: where an earlier run has sent it, which was to keep it.
    """
    plan, view = op.plan, op.client.view()
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


def _lived_s(client: PlacementClient, root: str) -> float | None:
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
