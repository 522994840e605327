"""The placement jobs. In process: an op costs a tenth of a second instead of seconds."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from samza_dagster.orchestration.acting import (
    move_standby_away,
    place_container,
    verify_placement,
)
from samza_dagster.orchestration.planning import (
    PLAN,
    plan_move_container,
    plan_move_with_standby,
    plan_restart_container,
)
from samza_dagster.orchestration.tags import job_tags


@dg.graph(name="move_with_standby")
def move_with_standby_graph() -> None:
    """Moves an active onto the host of its standby, where its state is warm.

    The standby first leaves for a host away from source and destination; then the
    active's new place is reserved, the active is stopped, started there and verified.
    """
    plan = getattr(plan_move_with_standby(), PLAN)
    away = move_standby_away(plan)
    moved = place_container(plan, after=away)
    verify_placement(plan, [away, moved])


@dg.graph(name="move_container")
def move_container_graph() -> None:
    """Moves one container: its new place is reserved before it is stopped."""
    plan = getattr(plan_move_container(), PLAN)
    verify_placement(plan, [place_container(plan)])


@dg.graph(name="restart_container")
def restart_container_graph() -> None:
    """Restarts one container on the host where it was last seen."""
    plan = getattr(plan_restart_container(), PLAN)
    verify_placement(plan, [place_container(plan)])


GRAPHS: Sequence[dg.GraphDefinition] = (
    move_with_standby_graph,
    move_container_graph,
    restart_container_graph,
)


def placement_jobs(job: str) -> list[dg.JobDefinition]:
    """The placement jobs of one Samza job; `job` is `<name>/<id>`."""
    return [
        graph.to_job(  # pyright: ignore[reportUnknownMemberType]
            name=graph.name,
            executor_def=dg.in_process_executor,
            tags=job_tags(job, graph.name),
        )
        for graph in GRAPHS
    ]
