"""Runs that wait, and the sensor `continuations` over the world of a test."""

from __future__ import annotations

from typing import Any

import dagster as dg
from placement_runs import SteppedSamza, execute_job, placement_job

from samza_dagster.orchestration.jobs import waiting_jobs
from samza_dagster.orchestration.waits.continuation import (
    continuations_sensor,
)

VIA = "move_via_new_standby"
ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}
NOW_MS = 1_800_000_000_000


def launch(
    instance: dg.DagsterInstance, wait_in_run_s: int = 0, job: str = VIA, **config: Any
) -> dg.ExecuteInProcessResult:
    return placement_job(job, wait_in_run_s).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": {**ASK, **config}}}},
        instance=instance,
        raise_on_error=False,
    )


def continued(
    instance: dg.DagsterInstance, request: dg.RunRequest, wait_in_run_s: int = 0
) -> dg.ExecuteInProcessResult:
    """What the daemon does with a run request."""
    return placement_job(str(request.job_name), wait_in_run_s).execute_in_process(
        run_config=request.run_config,
        instance=instance,
        tags={**request.tags, "dagster/run_key": str(request.run_key)},
        raise_on_error=False,
    )


def tick(instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    sensor = continuations_sensor(waiting_jobs("demo/1"))
    samza = SteppedSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"samza": samza}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(result: dg.SensorResult) -> list[dg.RunRequest]:
    return list(result.run_requests or [])


def re_executed(
    instance: dg.DagsterInstance, run_id: str, steps: list[str] | None = None
) -> dg.JobExecutionResult:
    """What the UI's button does: the tags go along."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return execute_job(
        "move_via_new_standby",
        wait_in_run_s=0,
        instance=instance,
        run_config=run.run_config,
        tags=dict(run.tags),
        reexecution_options=dg.ReexecutionOptions(parent_run_id=run_id, step_selection=steps or []),
    )


def tags(instance: dg.DagsterInstance, run_id: str) -> dict[str, str]:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return dict(run.tags)
