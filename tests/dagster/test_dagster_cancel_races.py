"""`cancel_waiting` and the run that goes on with the wait: never both."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from judged_runs import drained_world
from placement_runs import placement_job
from test_dagster_reexecution import execute, from_failure
from waiting_runs import VIA, continued, launch, requested, tags, tick

from samza_dagster.orchestration.moves import cancel_waiting
from samza_dagster.orchestration.waits.waiting import (
    CANCELLED,
    WAITING,
    YES,
    WaitingRun,
    continued_by,
)
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
STARTED = dg.DagsterRunStatus.STARTED


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: the sensor looks at every run of the instance."""
    return own_instance


def give_up(instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    return placement_job("cancel_waiting").execute_in_process(
        run_config={"ops": {"give_up": {"config": config}}}, instance=instance, raise_on_error=False
    )


def failure_of(result: dg.ExecuteInProcessResult, op: str) -> str:
    data = result.failure_data_for_node(op)
    assert data is not None
    assert data.user_failure_data is not None
    return str(data.user_failure_data.description)


def waits_and_is_due(world: SteppedJob, instance: dg.DagsterInstance) -> tuple[str, dg.RunRequest]:
    """A run that waits, and what a tick asks for: not launched yet."""
    world.lag_now = {**world.lag_now, "0-1": [90_000]}
    first = launch(instance)
    world.extra = {"0-1"}
    world.lag_now = {**world.lag_now, "0-1": [7]}
    (request,) = requested(tick(instance))
    return first.run_id, request


def launched(
    instance: dg.DagsterInstance,
    request: dg.RunRequest,
    status: dg.DagsterRunStatus = STARTED,
) -> dg.DagsterRun:
    return instance.create_run_for_job(placement_job(VIA), status=status, tags=dict(request.tags))


@pytest.mark.parametrize("by_id", [False, True])
def test_a_wait_that_a_run_goes_on_with_is_not_given_up(
    world: SteppedJob, instance: dg.DagsterInstance, *, by_id: bool
) -> None:
    """The sensor's next tick is yet to mark it; the standby was taken away beside that run."""
    first, request = waits_and_is_due(world, instance)
    runs = launched(instance, request)
    asked = len(world.requests)
    text = failure_of(give_up(instance, run=first[:8] if by_id else ""), "give_up")
    assert f"run {runs.run_id} goes on with it" in text
    assert f"terminate run {runs.run_id}" in text
    assert CANCELLED not in tags(instance, first)
    assert "0-1" in world.at
    assert len(world.requests) == asked


def test_a_wait_is_not_given_up_beside_its_re_execution(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """That one has the standby meanwhile, too."""
    first, _ = waits_and_is_due(world, instance)
    beside = instance.create_run_for_job(
        placement_job(VIA),
        status=STARTED,
        parent_run_id=first,
        root_run_id=first,
        tags={**tags(instance, first), "dagster/parent_run_id": first},
    )
    assert f"terminate run {beside.run_id}" in failure_of(give_up(instance), "give_up")
    assert "0-1" in world.at


def test_the_only_one_that_waits_is_given_up_beside_one_that_goes_on(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """No id is needed for it."""
    first, request = waits_and_is_due(world, instance)
    launched(instance, request)
    world.lag_now = {"1-1": [90_000]}
    second = launch(instance, processor="1", destination="host-1")
    assert give_up(instance, remove_standby=False).success
    assert CANCELLED in tags(instance, second.run_id)
    assert CANCELLED not in tags(instance, first)


def test_a_continuing_run_whose_wait_was_given_up_ends_at_its_first_op(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """It was asked for before, and launched after: it moved the active all the same."""
    first, request = waits_and_is_due(world, instance)
    assert give_up(instance, remove_standby=False).success
    asked = len(world.requests)
    text = failure_of(continued(instance, request), f"plan_{VIA}")
    assert f"the wait of run {first}" in text
    assert "given up" in text
    assert len(world.requests) == asked
    assert world.at["0"] == "host-1"


def test_a_drain_whose_wait_was_given_up_ends_at_its_first_op(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """So does every job whose runs wait."""
    full = drained_world()
    world.hosts, world.at, world.lag_now = full.hosts, full.at, full.lag_now
    world.lag_now["1-1"] = [50_000]
    config = {"ops": {"plan_drain_host": {"config": {"host": "host-1", "steady_s": 0}}}}
    waits = placement_job("drain_host", wait_in_run_s=0).execute_in_process(
        run_config=config, instance=instance
    )
    world.lag_now["1-1"] = [4]
    (request,) = requested(tick(instance))
    assert give_up(instance, remove_standby=False).success
    asked = len(world.requests)
    text = failure_of(continued(instance, request), "plan_drain_host")
    assert f"the wait of run {waits.run_id}" in text
    assert len(world.requests) == asked


def test_a_run_that_is_launched_while_the_wait_is_given_up_is_not_disturbed(
    world: SteppedJob, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have begun before the tag was there; once it has ended badly, giving up goes on."""
    _, request = waits_and_is_due(world, instance)
    begun = list[dg.DagsterRun]()

    def look(instance: dg.DagsterInstance, one: WaitingRun) -> dg.DagsterRun | None:
        found = continued_by(instance, one)
        if found is None and not begun:
            begun.append(launched(instance, request))
        return found

    monkeypatch.setattr(cancel_waiting, "continued_by", look)
    config = {"ops": {"give_up": {"config": {}}}}
    done, first = execute(instance, job="cancel_waiting", config=config)
    assert not done
    (runs,) = begun
    assert "0-1" in world.at
    assert not from_failure(instance, first, "cancel_waiting", config)
    assert "0-1" in world.at
    instance.report_run_failed(runs)
    assert from_failure(instance, first, "cancel_waiting", config)
    assert "0-1" not in world.at


def test_a_wait_whose_continuing_run_was_never_submitted_can_be_given_up(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Should that run be submitted yet, it ends at its first op."""
    first, request = waits_and_is_due(world, instance)
    launched(instance, request, dg.DagsterRunStatus.NOT_STARTED)
    assert tags(instance, first)[WAITING] == YES
    assert give_up(instance).output_for_node("give_up") == ["0-1"]
