"""Dagster's jobs against Samza's own Application Master, judged by the kernel and by the topics."""

from __future__ import annotations

import os
import signal
import threading

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.rig.yarn_job import Jobs, application_master, places

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]


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
