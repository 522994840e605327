"""`move_via_new_standby`: a standby warms up at the destination, then the active takes its place."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as types.

from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import Refused
from samza_dagster.orchestration.acting import move, reserve, stop, verify_placement
from samza_dagster.orchestration.extra_standby import (
    GIVES_PLACE,
    Leaving,
    remove_standby,
    settled,
)
from samza_dagster.orchestration.follow import (
    errors_as_failures,
    map_metadata,
    outcome_metadata,
    root_run_id,
)
from samza_dagster.orchestration.moves import LOST, PLACE, RUNNING, MovePlan, host_map
from samza_dagster.orchestration.phases import SPIN_UP, MovePhases
from samza_dagster.orchestration.planning import PLAN, plan_op
from samza_dagster.orchestration.plans.via_new_standby import (
    MoveViaNewStandbyConfig,
    move_via_new_standby,
    renewed,
)
from samza_dagster.orchestration.requests import Outcome, last_success
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.spinning_up import require_own, spin_up, wait_until_warm

if TYPE_CHECKING:
    from samza_dagster.client import JobView, PlacementClient

plan_move_via_new_standby = plan_op(
    MoveViaNewStandbyConfig,
    move_via_new_standby,
    "Checks the active, chooses the host if none is named, and what the rules say of each step.",
    renewed,
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
    with settled(context, samza, plan, standby), errors_as_failures():
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
        if asked.destination is None and not (asked.forgotten and _has_left(view, plan, standby)):
            require_own(client, root, standby)
            _refuse_unless_it_may_move(view, plan, standby, leaving.relocated.destination)
        if plan.keep_standby:
            phases = MovePhases(context, samza, swap)
            outcome = phases.room_made()
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


def _has_left(view: "JobView", plan: MovePlan, standby: str) -> bool:
    found = view.processors.get(standby)
    return found is None or (plan.keep_standby and found.host not in (None, plan.destination))


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

    It is started and waited for without holding a run; then it gives its place to the
    active, which starts over the warm store. In the end there are as many standbys as before, or one
    more with keep_standby.
    """
    plan = getattr(plan_move_via_new_standby(), PLAN)
    swap, away = give_place(plan, wait_until_warm(plan, spin_up(plan)))
    host = verify_placement(swap, [away, move(swap, stop(swap, reserve(swap)))])
    standbys_after(plan, host)
