"""The placement jobs. In process: an op costs a tenth of a second instead of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import dagster as dg

from samza_dagster.orchestration.bounce import rolling_bounce_job
from samza_dagster.orchestration.choices import TO_A_HOST, choice_of_a_job
from samza_dagster.orchestration.drain import drain_host_graph
from samza_dagster.orchestration.moves.acting import (
    move,
    move_standby_away,
    move_via_new_standby_graph,
    reserve,
    spin_up,
    stop,
    verify_placement,
    wait_until_warm,
)
from samza_dagster.orchestration.moves.planning import (
    plan_fail_over,
    plan_move_container,
    plan_move_with_standby,
    plan_relocate_standby,
    plan_restart_container,
    plan_spin_up_standby,
)
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.operations.planning import PLAN
from samza_dagster.orchestration.resource import SamzaClientResource, settled
from samza_dagster.orchestration.tags import is_of_all, job_tags


def _carry_out(planned: Any, *, makes_room: bool = False) -> None:
    plan = getattr(planned, PLAN)
    away = [move_standby_away(plan)] if makes_room else []
    verify_placement(plan, [*away, move(plan, stop(plan, reserve(plan, *away)))])


@dg.graph(name="move_with_standby")
def move_with_standby_graph() -> None:
    """Moves an active onto the host of its standby, where its state is warm.

    The standby first leaves for a host away from source and destination; then the
    active's new place is reserved, the active is stopped, started there and verified.
    """
    _carry_out(plan_move_with_standby(), makes_room=True)


@dg.graph(name="fail_over")
def fail_over_graph() -> None:
    """Moves an active onto the host of the standby soonest ready, which gives way at once.

    The standby gets a new place afterwards: faster, and without a warm copy meanwhile.
    """
    _carry_out(plan_fail_over(), makes_room=True)


@dg.graph(name="move_container")
def move_container_graph() -> None:
    """Moves one container: its new place is reserved before it is stopped."""
    _carry_out(plan_move_container())


@dg.graph(name="restart_container")
def restart_container_graph() -> None:
    """Restarts one container on the host where it was last seen."""
    _carry_out(plan_restart_container())


@dg.graph(name="relocate_standby")
def relocate_standby_graph() -> None:
    """Moves a standby to a host that is named, or to the legal one with most room."""
    _carry_out(plan_relocate_standby())


@dg.graph(name="spin_up_standby")
def spin_up_standby_graph() -> None:
    """Starts one more standby of an active and waits until it is warm: its lag small and flat."""
    plan = getattr(plan_spin_up_standby(), PLAN)
    wait_until_warm(plan, spin_up(plan))


GRAPHS: Sequence[dg.GraphDefinition] = (
    move_with_standby_graph,
    fail_over_graph,
    move_container_graph,
    restart_container_graph,
    relocate_standby_graph,
    spin_up_standby_graph,
    move_via_new_standby_graph,
    drain_host_graph,
)
BY_OWN_REQUEST = frozenset({"fail_over", "spin_up_standby", "move_via_new_standby"})
"""What a standalone group has no request for."""
BY_WHOLE_PROCESSOR = frozenset({"restart_container", "rolling_bounce"})
"""What restarts a standalone group's processors, with all their tasks."""

BY_AUTO_FAILOVER = ("fail_over", "move_with_standby", "restart_container")
"""What sensor `auto_failover` launches."""


def placement_jobs(job: str) -> list[dg.JobDefinition]:
    """The placement jobs of one Samza job; tagged with `job` as `samza/job`."""
    return [*(_to_job(graph, job) for graph in GRAPHS), rolling_bounce_job(job)]


def of_component(
    job: dg.JobDefinition,
    of: str,
    prefix: str,
    resources: Mapping[str, Any],
    samza: SamzaClientResource | None = None,
) -> dg.JobDefinition:
    """Return the job for a component; `of` is the value of tag `samza/job`, or of each for several.

    `prefix` comes before its name. `resources`, if given, are its own: a code location knows resources
    by name, and each component has different ones. `samza` provides the hosts that the form offers.
    """
    offers = samza is not None and job.name == TO_A_HOST
    if not prefix and not is_of_all(of) and not offers and not resources:
        return job
    needed = {key for op in job.graph.iterate_op_defs() for key in op.required_resource_keys}
    own = {name: settled(made) for name, made in resources.items() if name in needed}
    return job.graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=named(prefix, job.name),
        description=job.description,
        resource_defs=own or None,
        config=choice_of_a_job(job.name, of, samza if offers else None),
        executor_def=job.executor_def,
        tags=job.tags,
    )


@cache
def _to_job(graph: dg.GraphDefinition, job: str) -> dg.JobDefinition:
    return graph.to_job(  # pyright: ignore[reportUnknownMemberType]
        name=graph.name,
        executor_def=dg.in_process_executor,
        tags=job_tags(job, graph.name),
        config=choice_of_a_job(graph.name, job),
    )
