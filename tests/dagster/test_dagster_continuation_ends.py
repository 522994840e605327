"""Waits that don't go on by themselves: over their deadline, cancelled, or executed again by a person."""

from __future__ import annotations

import dagster as dg
import pytest
from placement_runs import placement_job
from waiting_runs import VIA, continued, launch, re_executed, requested, tags, tick

from samza_dagster.orchestration.chain import ROOT
from samza_dagster.orchestration.waits.waiting import (
    CANCELLED,
    CONTINUED,
    CONTINUES,
    GIVEN_UP,
    WAITING,
)
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: the sensor looks at every run of the instance."""
    return own_instance


def test_a_deadline_that_is_over_fails_the_run_with_the_true_reason(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """It is continued for that; the standby is kept, and the failure says so."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance, catch_up_timeout_s=60)
    first = tick(instance)
    clock[0] += 61_000
    second = tick(instance, first.cursor)
    (request,) = requested(second)
    result = continued(instance, request)
    data = result.failure_data_for_node("wait_until_warm")
    assert data is not None
    assert data.user_failure_data is not None
    text = str(data.user_failure_data.description)
    assert "90,000 records behind" in text
    assert "its time is over" in text
    assert "is kept" in text
    assert "no run waits" in str(tick(instance, second.cursor).skip_reason)


@pytest.mark.parametrize("ahead_s", [3_600, -3_600])
def test_a_sensor_whose_clock_is_not_the_runs_gives_a_wait_its_time_and_no_more(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int], ahead_s: int
) -> None:
    """A run that waits and the sensor that looks may be on two machines, of two clocks."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance, catch_up_timeout_s=60)
    clock[0] += ahead_s * 1000
    ticked = tick(instance)
    assert requested(ticked) == []
    clock[0] += 58_000
    ticked = tick(instance, ticked.cursor)
    assert requested(ticked) == []
    clock[0] += 2_000
    assert len(requested(tick(instance, ticked.cursor))) == 1


def test_what_a_sensor_with_a_clock_of_its_own_saw_steady_is_believed(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """An hour behind the run's: the standby is steady for longer than the run would look."""
    world.lag_now = {"0-1": [7]}
    launch(instance, steady_s=100)
    clock[0] -= 3_600_000
    first = tick(instance)
    clock[0] += 50_000
    second = tick(instance, first.cursor)
    clock[0] += 50_000
    (request,) = requested(tick(instance, second.cursor))
    assert continued(instance, request).success
    assert world.at["0"] == "host-4"


@pytest.mark.longdagster
def test_a_re_execution_of_the_failed_one_has_a_deadline_of_its_own(
    world: SteppedJob, instance: dg.DagsterInstance, clock: list[int]
) -> None:
    """To wait on is what its failure proposes."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance, catch_up_timeout_s=60)
    ticked = tick(instance)
    clock[0] += 61_000
    (request,) = requested(tick(instance, ticked.cursor))
    assert not continued(instance, request).success
    failed = instance.get_runs(dg.RunsFilter(tags={CONTINUES: "1"}))[0]
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, failed.run_id) as result:
        assert result.success
    assert world.at["0"] == "host-4"
    assert len(world.requests) == 3
    assert first.run_id in {r.tags.get(ROOT) for r in instance.get_runs()}


def test_a_wait_whose_run_was_re_executed_to_the_end_is_not_continued(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The standby that it waited for has done its part and is gone."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, first.run_id) as again:
        assert again.success
    assert world.at["0"] == "host-4"
    ticked = tick(instance)
    assert requested(ticked) == []
    assert "no run waits" in str(ticked.skip_reason)
    assert tags(instance, first.run_id)[WAITING] == CONTINUED


@pytest.mark.longdagster
def test_a_wait_is_not_continued_beside_its_re_execution(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Two runs of one chain would do the same side by side; when that one fails, it goes on."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    copied = {**tags(instance, first.run_id), "dagster/parent_run_id": first.run_id}
    beside = instance.create_run_for_job(
        placement_job(VIA),
        status=dg.DagsterRunStatus.STARTED,
        parent_run_id=first.run_id,
        root_run_id=first.run_id,
        tags=copied,
    )
    ticked = tick(instance)
    assert requested(ticked) == []
    assert "being re-executed" in str(ticked.skip_reason)
    instance.report_run_failed(beside)
    assert len(requested(tick(instance, ticked.cursor))) == 1


def test_a_re_execution_of_some_steps_alone_does_not_end_a_wait(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The plan was made again; what comes after the wait wasn't done."""
    world.lag_now = {"0-1": [90_000]}
    first = launch(instance)
    world.lag_now = {"0-1": [7]}
    with re_executed(instance, first.run_id, [f"plan_{VIA}"]) as again:
        assert again.success
    assert len(requested(tick(instance))) == 1


def test_a_cancelled_wait_is_not_continued(world: SteppedJob, instance: dg.DagsterInstance) -> None:
    """A tag on the run that waits is enough, whoever sets it."""
    world.lag_now = {"0-1": [7]}
    result = launch(instance, steady_s=3600)
    instance.add_run_tags(result.run_id, {CANCELLED: "by hand"})
    assert "no run waits" in str(tick(instance).skip_reason)
    assert tags(instance, result.run_id)[WAITING] == GIVEN_UP


def test_a_continuing_run_that_was_terminated_is_not_launched_again(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Its run exists: whoever stopped it meant it."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    world.lag_now = {"0-1": [7]}
    (request,) = requested(tick(instance))
    world.breaks = {"lag": dg.DagsterExecutionInterruptedError()}
    assert not continued(instance, request).success
    assert requested(tick(instance)) == []
    assert "no run waits" in str(tick(instance).skip_reason)


def test_a_standby_that_is_gone_fails_the_run(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Somebody removed it while nobody looked."""
    world.lag_now = {"0-1": [90_000]}
    launch(instance)
    del world.at["0-1"]
    (request,) = requested(tick(instance))
    result = continued(instance, request)
    data = result.failure_data_for_node("wait_until_warm")
    assert data is not None
    assert data.user_failure_data is not None
    assert "isn't in the job any more" in str(data.user_failure_data.description)
