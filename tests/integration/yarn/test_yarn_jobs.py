"""Dagster's jobs against Samza's own Application Master, judged by the kernel and by the topics."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.yarn.cluster import NODE_DIRECTORY
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]
MASTER = b"org.apache.samza.clustermanager.ClusterBasedJobCoordinatorRunner"


class Jobs:
    """Runs of the product's own jobs in this process."""

    def __init__(self, servers: str, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._definitions = dg.Definitions(
            jobs=placement_jobs(f"{demo_job.JOB_NAME}/{demo_job.JOB_ID}"),
            resources={
                "samza": SamzaClientResource(
                    bootstrap_servers=servers, job_name=demo_job.JOB_NAME, job_id=demo_job.JOB_ID
                ),
                "samza_policies": PlacementPolicies(
                    timeout_s=round(120 * PACE), verify_timeout_s=round(120 * PACE)
                ),
            },
        )

    def run(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self._definitions.get_job_def(job).execute_in_process(
            run_config={"ops": {f"plan_{job}": {"config": config}}},
            instance=self._instance,
            raise_on_error=False,
        )


@pytest.fixture
def jobs(servers: str) -> Iterator[Jobs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Jobs(servers, instance)


def places(sandbox: Sandbox) -> dict[str, str]:
    """Processor → the host that its one process runs on, by the kernel."""
    return {
        pid: each["host"]
        for pid, each in sandbox.yarn.processors().items()
        if len(each["pids"]) == 1
    }


def application_master(sandbox: Sandbox) -> int | None:
    """The process id of the Application Master, None while there is none."""
    mark = f"{NODE_DIRECTORY}={sandbox.directory / 'yarn'}".encode()
    for entry in Path("/proc").iterdir():
        try:
            is_master = MASTER in (entry / "cmdline").read_bytes().split(b"\0")
            if is_master and mark in (entry / "environ").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return None


def test_a_move_with_standby_ends_as_it_says(sandbox: Sandbox, jobs: Jobs, judge: Judge) -> None:
    """The active runs where its standby was, and that one elsewhere; nothing is lost."""
    before = places(sandbox)
    result = jobs.run("move_with_standby", processor="0")
    assert result.success
    after = places(sandbox)
    assert result.output_for_node("verify_placement") == after["0"] == before["0-0"]
    assert after["0-0"] not in (before["0"], before["0-0"])
    verdict = judge.judge(deadline_s=90)
    assert verdict.is_good, verdict


def test_any_host_is_the_one_that_the_plan_named(sandbox: Sandbox, jobs: Jobs) -> None:
    """It took the active's own host for a standby once, and stopped that for nothing."""
    result = jobs.run("move_container", processor="0-0", destination="ANY_HOST")
    assert result.success
    after = places(sandbox)
    assert result.output_for_node("verify_placement") == after["0-0"] != after["0"]


def test_a_run_ends_with_the_application_master_that_it_has_asked(
    sandbox: Sandbox, jobs: Jobs, client: PlacementClient, judge: Judge
) -> None:
    """Killed with the request in flight; the next one knows nothing of it, and takes the same anew."""
    ran: list[dg.ExecuteInProcessResult] = []
    run = threading.Thread(
        target=lambda: ran.append(jobs.run("restart_container", processor="1-0"))
    )
    run.start()
    until("it is in flight", lambda: client.view().actions or client.view().queued, every=0.05)
    master, deployment = application_master(sandbox), client.view().deployment_id
    assert master is not None
    os.kill(master, signal.SIGKILL)
    until("another deployment runs", lambda: client.view().deployment_id != deployment, seconds=90)
    run.join(30 * PACE)
    assert not run.is_alive(), "what can't come isn't waited for"
    assert not ran[0].success
    told = " ".join(
        str(event.event_specific_data) for event in ran[0].all_events if event.is_step_failure
    )
    assert f"over: deployment {deployment} ended" in told
    until("all run again", lambda: set(places(sandbox)) == {"0", "0-0", "1", "1-0"}, seconds=120)
    assert jobs.run("restart_container", processor="1-0").success
    assert judge.judge(deadline_s=120).is_good
