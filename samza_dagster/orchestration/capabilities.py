"""What the coordinator on the other side can do: asked of this, never who it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What the coordinator of a job can do, and what it tells.

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


_OURS = Capabilities(True, True, True, True, True)
_SAMZAS_AM = Capabilities(False, False, False, False, False)


def capabilities(coordinator: str) -> Capabilities:
    """The capabilities of a coordinator as `JobView.coordinator` and the records of plans name it."""
    return _OURS if coordinator == "samza_dagster" else _SAMZAS_AM
