"""The product's own jobs over a small world of containers (`fake_world`)."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
from fake_world import (  # noqa: F401 - tests have them from here
    BAD_REQUEST,
    EXPIRED,
    FAILED,
    HOLD_EXPIRED,
    NOT_STARTED,
    SUCCEEDED,
    World,
)

from samza_dagster.client import PlacementClient
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource

WORLDS: dict[str, World] = {}


class FakeSamza(SamzaClientResource):
    """The resource, with a world in the cluster's place; `bootstrap_servers` names the world."""

    def open_client(self) -> PlacementClient:
        return WORLDS[self.bootstrap_servers].client()


def too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the outcome", seen="last IN_PROGRESS: Preferred Resources requested")


Run = Callable[..., dg.ExecuteInProcessResult]
"""Runs a placement job of this name, with this config of its plan: a test's fixture `run`."""


def fake_definitions(world: str) -> dg.Definitions:
    """The product's own jobs over a world."""
    return dg.Definitions(
        jobs=placement_jobs("demo/1"),
        resources={
            "samza": FakeSamza(bootstrap_servers=world, job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=1, lag_limit=100),
        },
    )


def fake_job(name: str, wait_in_run_s: int = 120) -> dg.JobDefinition:
    """One of the jobs over the world of re-executions."""
    definitions = fake_definitions("reexecuted")
    policies = PlacementPolicies(verify_timeout_s=1, lag_limit=100, wait_in_run_s=wait_in_run_s)
    resources = {**(definitions.resources or {}), "samza_policies": policies}
    return dg.Definitions(jobs=definitions.jobs, resources=resources).get_job_def(name)


def fake_move_with_standby() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_with_standby")


def fake_move_via() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("move_via_new_standby")


def fake_move_via_waiting() -> dg.JobDefinition:
    """The same; a wait ends its run at once."""
    return fake_job("move_via_new_standby", wait_in_run_s=0)


def fake_move_container() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_container")


def fake_drain() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("drain_host")


def fake_cancel_waiting() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("cancel_waiting")


def fake_spin_up() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("spin_up_standby")


def fake_fail_over() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("fail_over")
