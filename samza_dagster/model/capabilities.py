"""What the coordinator on the other side can do: asked of this, never who it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a job's coordinator can do, and what it tells: asked of this, never who it is.

    `has_own_requests`: it takes requests that Samza's wire has no form for: a hold until a
    commit, a cancel, a fail-over, a standby on request, an active in the place of its standby.
    `tells_what_runs`: it shows the state and the incarnation of each container, and its SUCCEEDED
    is the container's check-in; else that is a launch, and a state is when a container reported last.
    `answers_late`: what was asked of a former deployment gets its answer from the next one.
    `rules_before_stop`: what the rules refuse it refuses before it stops anything.
    `knows_all_hosts`: no host but those that it shows can take a container.
    """

    has_own_requests: bool
    tells_what_runs: bool
    answers_late: bool
    rules_before_stop: bool
    knows_all_hosts: bool


COORDINATORS = {
    "samza_dagster": Capabilities(True, True, True, True, True),
    "samza": Capabilities(False, False, False, False, False),
}
"""By the name that a view, its JSON and the records of plans have; a further kind is one entry more."""


def capabilities(coordinator: str) -> Capabilities:
    """The capabilities of a coordinator by its name; of one that isn't known those of Samza's AM, the fewest."""
    return COORDINATORS.get(coordinator, COORDINATORS["samza"])
