"""Several runs of `drain_host` at a time: none sends anybody to a host that another one empties."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from judged_runs import drained_world
from placement_runs import placement_job

from samza_dagster.orchestration.tags import PARTITION
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
JOB = "drain_host"
SUCCESS = dg.DagsterRunStatus.SUCCESS
QUEUED = dg.DagsterRunStatus.QUEUED
UNDER_WAY = [QUEUED, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: other drains are looked for among all runs."""
    return own_instance


@pytest.fixture(autouse=True)
def _full(world: SteppedJob) -> None:
    """host-1 has 0 (its warm standby is on host-2), 1, 2 and 3's standby."""
    full = drained_world()
    world.hosts, world.at, world.lag_now = full.hosts, full.at, full.lag_now
    world.container_memory_mb = full.container_memory_mb
    world.lag_now["0-1"] = [5]  # the one that is spun up when 0-0 is no use


def other(
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
    host: str = "host-2",
    tags: dict[str, str] | None = None,
    **config: Any,
) -> dg.DagsterRun:
    """Another drain; of a partition without a host in its config."""
    job = placement_job(JOB)
    # One in the queue is of a code location, which starts it.
    here = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__")
    return instance.create_run_for_job(
        job,
        run_config={"ops": {"plan_drain_host": {"config": {"host": host, **config}}}},
        status=status,
        tags={**job.run_tags, **(tags or {})},
        remote_job_origin=RemoteJobOrigin(here, JOB),
    )


def drain(instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    given = {"host": "host-1", "steady_s": 0, **config}
    return placement_job(JOB).execute_in_process(
        run_config={"ops": {"plan_drain_host": {"config": given}}},
        instance=instance,
        raise_on_error=False,
    )


def went_to(world: SteppedJob) -> set[str]:
    """Hosts that a request named; one that removes a standby names none."""
    kinds = world.kinds.values()
    pairs = zip(kinds, world.asked, strict=True)
    return {host for kind, (_, host) in pairs if kind != "stop-standby"}


@pytest.mark.parametrize("status", UNDER_WAY, ids=lambda status: str(status.value))
def test_no_container_goes_to_a_host_that_another_run_drains(
    world: SteppedJob, instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    """They chose each other's hosts: neither was empty in the end. A warm standby there is no use; a run that
    waits in the queue will drain its host as well.
    """
    created = other(instance, status)
    told = drain(instance, dry_run=True).output_for_node("plan_drain_host", "preview")
    assert f"0-0 5 records behind on host-2, which run {created.run_id} drains" in told
    assert drain(instance).success
    assert "host-2" not in went_to(world)
    assert "host-1" not in world.at.values()


def test_a_drain_of_the_launchpad_s_partition_counts(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Its config names no host."""
    other(instance, dg.DagsterRunStatus.STARTED, "", {PARTITION: "host-2"})
    assert drain(instance).success
    assert "host-2" not in went_to(world)


def test_a_refusal_says_which_run_drains_the_host(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Otherwise it would look as if there was room."""
    created = other(instance, dg.DagsterRunStatus.STARTED)
    result = drain(instance, destinations=["host-2"])
    data = result.failure_data_for_node("plan_drain_host")
    assert data is not None
    assert data.user_failure_data is not None
    text = str(data.user_failure_data.description)
    assert f"host-2 is being drained by run {created.run_id}" in text
    assert world.requests == {}


def test_what_drains_nothing_any_more_or_asks_nothing_bars_no_host(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """A drain that ended, a dry run, one of another job, one that drains the same host."""
    for status in (SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        other(instance, status)
    other(instance, dg.DagsterRunStatus.STARTED, dry_run=True)
    other(instance, dg.DagsterRunStatus.STARTED, tags={"samza/job": "other/1"})
    other(instance, dg.DagsterRunStatus.STARTED, "host-1")
    assert drain(instance).success
    assert world.at["0"] == "host-2"
