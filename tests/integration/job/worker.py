"""A run's worker as a process of its own, which stops for good before it commits.

`python -m tests.integration.job.worker RUN_CONFIG` with DAGSTER_HOME and SERVERS set.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import dagster as dg

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.sandbox import demo_job
from tests.rig.pace import PACE

NEVER = threading.Event()


class StuckSamza(SamzaClientResource):
    """Its client never gets to a commit."""

    def open_client(self) -> PlacementClient:
        class Stuck(PlacementClient):
            def commit(self, *_: Any, **__: Any) -> Any:
                NEVER.wait()

        return Stuck(self.connection())


def definitions(servers: str, *, stuck: bool = False) -> dg.Definitions:
    """The product's jobs for the sandbox's job."""
    kind = StuckSamza if stuck else SamzaClientResource
    return dg.Definitions(
        jobs=placement_jobs(f"{demo_job.JOB_NAME}/{demo_job.JOB_ID}"),
        resources={
            "samza": kind(
                bootstrap_servers=servers, job_name=demo_job.JOB_NAME, job_id=demo_job.JOB_ID
            ),
            "samza_policies": PlacementPolicies(request_expiry_s=60 * PACE, timeout_s=120 * PACE),
        },
    )


def move_container() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    stuck = os.environ.get("STUCK") == "1"
    return definitions(os.environ["SERVERS"], stuck=stuck).get_job_def("move_container")


if __name__ == "__main__":
    with dg.DagsterInstance.get() as instance:
        dg.execute_job(
            dg.reconstructable(move_container), instance, run_config=json.loads(sys.argv[1])
        )
