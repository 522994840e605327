"""Capabilities of the coordinator on the other side: code asks for these, never for its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a job's coordinator: code asks for these, never for its name.

    `has_own_requests`: it accepts requests that Samza's wire can't express: a hold until a commit,
    a cancel, a fail-over, a standby on request. `has_standby_destination`: an active may be asked
    to take the place of its standby, which makes room. `tells_what_runs`: it shows the state and
    the incarnation of each container, and its SUCCEEDED is the container's check-in; else that is a
    launch, and a state is when a container reported last. `answers_late`: the next deployment
    answers requests to a former one. `rules_before_stop`: it refuses by the rules before it stops
    anything. `knows_all_hosts`: only the hosts that it shows can run a container. `shows_its_life`:
    its own records show whether it lives; else containers' reports or YARN do. `heeds_destination`:
    a requested host counts, whether or not the job has host affinity. `places_tasks`: requests
    place single tasks for good; a whole processor is only restarted.
    """

    has_own_requests: bool
    has_standby_destination: bool
    tells_what_runs: bool
    answers_late: bool
    rules_before_stop: bool
    knows_all_hosts: bool
    shows_its_life: bool
    heeds_destination: bool
    places_tasks: bool


COORDINATORS = {
    "samza_dagster": Capabilities(
        has_own_requests=True,
        has_standby_destination=True,
        tells_what_runs=True,
        answers_late=True,
        rules_before_stop=True,
        knows_all_hosts=True,
        shows_its_life=True,
        heeds_destination=True,
        places_tasks=False,
    ),
    "samza": Capabilities(
        has_own_requests=False,
        has_standby_destination=False,
        tells_what_runs=False,
        answers_late=False,
        rules_before_stop=False,
        knows_all_hosts=False,
        shows_its_life=False,
        heeds_destination=False,
        places_tasks=False,
    ),
    "standalone": Capabilities(
        has_own_requests=False,
        has_standby_destination=True,
        tells_what_runs=False,
        answers_late=True,
        rules_before_stop=True,
        knows_all_hosts=True,
        shows_its_life=True,
        heeds_destination=True,
        places_tasks=True,
    ),
}
"""By the name that a view, its JSON and the records of plans have; a further kind is one entry more."""


def capabilities(coordinator: str) -> Capabilities:
    """Return a coordinator's capabilities by its name; an unknown one has those of Samza's AM."""
    return COORDINATORS.get(coordinator, COORDINATORS["samza"])
