"""The bounce's own job over a world in virtual time."""

from __future__ import annotations

import functools
from typing import Any

import dagster as dg
import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.orchestration import bounce as bouncing
from samza_dagster.orchestration.bounce import rolling_bounce_job
from samza_dagster.orchestration.chain import ROOT
from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.bounce_world import BounceWorld

WORLDS: dict[str, BounceWorld] = {}


class BounceSamza(SamzaClientResource):
    """The resource, with the one world in the cluster's place."""

    def open_client(self) -> PlacementClient:
        return WORLDS["bounce"].client()


def in_virtual_time(world: BounceWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world is the one of all runs to come, and its clock is theirs."""
    WORLDS["bounce"] = world
    clocked = functools.partial(Runner, sleep=world.sleep, now_ms=world.clock)
    monkeypatch.setattr(runner, "POLL_S", 0.25)
    monkeypatch.setattr(runner, "LOOK_MS", 1_000)
    monkeypatch.setattr(runner, "LAG_MS", 2_000)
    monkeypatch.setattr(bouncing, "Runner", clocked)


def definitions() -> dg.Definitions:
    """The product's own jobs over the world."""
    return dg.Definitions(
        jobs=[rolling_bounce_job("demo/1")],
        resources={
            "samza": BounceSamza(bootstrap_servers="none", job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=60, lag_limit=100),
        },
    )


def rolling_bounce() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return definitions().get_job_def("rolling_bounce")


def bounce(
    instance: dg.DagsterInstance,
    again: dg.ReexecutionOptions | None = None,
    tags: dict[str, str] | None = None,
    **config: Any,
) -> dg.ExecuteJobResult:
    """One run of the bounce, or a re-execution of one, which has its root in a tag as Dagster's have."""
    if again is not None:
        parent = instance.get_run_by_id(again.parent_run_id)
        assert parent is not None
        tags = {**(tags or {}), ROOT: parent.root_run_id or parent.run_id}
    fields: dict[str, Any] = {"canaries": 0, **config}
    with dg.execute_job(
        dg.reconstructable(rolling_bounce),
        instance=instance,
        run_config={"ops": {"plan_bounce": {"config": fields}}},
        reexecution_options=again,
        raise_on_error=False,
        tags=tags,
    ) as result:
        return result


def metadata(result: dg.ExecuteJobResult, op: str) -> dict[str, Any]:
    """What an op told, whether it succeeded or failed."""
    for event in result.all_events:
        if event.step_key != op:
            continue
        if event.is_successful_output:
            return {k: v.value for k, v in event.step_output_data.metadata.items()}
        if event.is_step_failure and event.step_failure_data.user_failure_data is not None:
            told = event.step_failure_data.user_failure_data.metadata
            return {k: v.value for k, v in told.items()}
    raise AssertionError(f"{op} told nothing")


def tags_of(instance: dg.DagsterInstance, result: dg.ExecuteJobResult) -> dict[str, str]:
    """The tags that the run has in the end."""
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return dict(run.tags)


def log_of(instance: dg.DagsterInstance, result: dg.ExecuteJobResult) -> str:
    """All that the run has told."""
    return " ".join(entry.user_message for entry in instance.all_logs(result.run_id))
