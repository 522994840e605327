"""The product's own jobs over a small world of containers (`stepped_job`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.stepped_job import SteppedJob

WORLDS: dict[str, SteppedJob] = {}


class SteppedSamza(SamzaClientResource):
    """The resource, with a world in the cluster's place; `bootstrap_servers` names the world."""

    def open_client(self) -> PlacementClient:
        return WORLDS[self.bootstrap_servers].client()


def too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the outcome", seen="last IN_PROGRESS: Preferred Resources requested")


Run = Callable[..., dg.ExecuteInProcessResult]
"""Runs a placement job of this name, with this config of its plan: a test's fixture `run`."""


def definitions_over(world: str) -> dg.Definitions:
    """The product's own jobs over a world."""
    return dg.Definitions(
        jobs=placement_jobs("demo/1"),
        resources={
            "samza": SteppedSamza(bootstrap_servers=world, job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=1, lag_limit=100),
        },
    )


def placement_job(name: str) -> dg.JobDefinition:
    """One of the jobs over the world of re-executions."""
    return definitions_over("reexecuted").get_job_def(name)


def execute_job(name: str, **given: Any) -> dg.JobExecutionResult:
    """Runs one of them as `dg.execute_job` does: it may be a re-execution."""
    job = dg.build_reconstructable_job(__name__, "placement_job", (name,))
    return dg.execute_job(job, **given)
