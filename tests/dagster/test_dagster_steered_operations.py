"""Drains and reconciliations are paused, resumed and aborted by the orders that bounces hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
from drains import on
from placement_runs import placement_job, tags
from test_dagster_drains_beside import other

from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.bounce.steering import bounce_resume_sensor
from samza_dagster.orchestration.jobs import steered_jobs
from samza_dagster.orchestration.operations import control
from samza_dagster.orchestration.operations.control import BounceAction
from samza_dagster.orchestration.operations.steered import By
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.orchestration.tags import PARTITION
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
PAUSE, RESUME, ABORT = BounceAction.pause, BounceAction.resume, BounceAction.abort
DRAIN, RECONCILE = "drain_host", "reconcile"


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: what is to be resumed is looked for among all runs."""
    return own_instance


@pytest.fixture(autouse=True)
def _heard_at_once(full_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "READ_MS", 0)


def launch(
    instance: dg.DagsterInstance,
    job: str = DRAIN,
    run_tags: dict[str, str] | None = None,
    **config: Any,
) -> dg.ExecuteInProcessResult:
    given = {"host": "host-1", "steady_s": 0} if job == DRAIN else {}
    return placement_job(job).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": {**given, **config}}}},
        instance=instance,
        raise_on_error=False,
        tags=run_tags,
    )


def when_asked(world: SteppedJob, number: int, tell: Callable[[str], object]) -> None:
    """Once so many requests are under way or over, `tell` gets the uuid of the last of them."""
    real = world.go_on

    def go_on(uuid: str) -> PlacementResponse | None:
        if len(world.requests) >= number:
            world.go_on = real  # type: ignore[method-assign]
            tell(uuid)
        return real(uuid)

    world.go_on = go_on  # type: ignore[method-assign]


def newest(instance: dg.DagsterInstance) -> str:
    return instance.get_runs(limit=1)[0].run_id


def order(instance: dg.DagsterInstance, action: BounceAction) -> Callable[[str], object]:
    """Tells the run that works now."""
    return lambda _: control.steer(instance, action, newest(instance), by=By("kim", "slow"))


def resumed(instance: dg.DagsterInstance, run_id: str) -> dg.ExecuteInProcessResult:
    """What the sensor launches, run as the daemon does."""
    control.steer(instance, RESUME, run_id[:8], by=By("lee"))
    with dg.build_sensor_context(instance=instance) as context:
        ticked = bounce_resume_sensor("demo/1", steered_jobs("demo/1"))(context)
    assert isinstance(ticked, dg.SensorResult)
    (asked,) = ticked.run_requests or []
    return placement_job(str(asked.job_name)).execute_in_process(
        run_config=asked.run_config, instance=instance, tags=asked.tags, raise_on_error=False
    )


def failure(result: dg.ExecuteInProcessResult, op: str) -> str:
    data = result.failure_data_for_node(op)
    assert data is not None
    assert data.user_failure_data is not None
    return str(data.user_failure_data.description)


def test_a_paused_drain_finishes_what_is_in_flight_and_a_resumed_one_does_the_rest(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Nobody is asked twice: the requests have the ids of the first run."""
    when_asked(world, 2, order(instance, PAUSE))
    first = launch(instance)
    assert first.success
    assert on(world) == ["1", "2"]
    assert tags(instance, first.run_id)[control.BOUNCE] == "paused"
    assert tags(instance, first.run_id)[control.PROGRESS] == "2/4"
    assert not any(e.step_key == "drain" and e.is_successful_output for e in first.all_events)
    second = resumed(instance, first.run_id)
    assert second.success
    assert second.output_for_node("drain") == 4
    assert on(world) == []
    assert len(world.requests) == 7
    assert request_uuid(first.run_id, "drain_host/host-1/2/move", 0) in world.requests
    told = tags(instance, second.run_id)
    assert (told[control.BOUNCE], told["samza/who"]) == ("done", "lee")
    with pytest.raises(Refused, match=f"run {second.run_id} went on with it"):
        control.steer(instance, RESUME, first.run_id)


def test_a_pause_does_not_wait_for_a_standby_that_is_far_behind(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Its unit is left waiting with what was done of it, and gone on with from there."""
    world.lag_now["1-1"] = [50_000]
    when_asked(world, 5, order(instance, PAUSE))
    first = launch(instance)
    assert first.success
    assert tags(instance, first.run_id)[control.BOUNCE] == "paused"
    assert on(world) == ["1"]
    assert "1-1" in world.at
    world.lag_now["1-1"] = [4]
    assert resumed(instance, first.run_id).success
    assert on(world) == []
    assert len(world.requests) == 7


def test_an_aborted_drain_gives_back_what_was_only_reserved_and_can_be_resumed(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The run fails and says what is left."""
    world.status_s = 10
    when_asked(world, 2, order(instance, ABORT))
    first = launch(instance)
    assert "it was aborted; not begun or left waiting: 2, 1" in failure(first, "drain")
    assert tags(instance, first.run_id)[control.BOUNCE] == "aborted"
    (held,) = world.cancelled
    assert world.requests[held].processor_id == "0-0"
    assert on(world) == ["0", "1", "2"]
    world.status_s = 0
    assert resumed(instance, first.run_id).success
    assert on(world) == []


@pytest.mark.parametrize(("ended", "goes_on"), [("stopped", True), ("aborted", False)])
def test_dagster_s_own_retry_goes_on_with_what_failed_and_not_with_what_was_aborted(
    world: SteppedJob, instance: dg.DagsterInstance, ended: str, goes_on: bool
) -> None:
    """Whoever has retries on for failures wants the first; the second was an order."""
    parent = other(instance, dg.DagsterRunStatus.FAILURE, tags={control.BOUNCE: ended})
    retry = {"dagster/retry_number": "1"}
    run = other(instance, dg.DagsterRunStatus.STARTED, tags=retry)
    run = run._replace(parent_run_id=parent.run_id, root_run_id=parent.run_id)
    if goes_on:
        assert control.begin(instance, run, control.RUNNING, over=[control.ABORTED])
        return
    with pytest.raises(Refused, match="was aborted"):
        control.begin(instance, run, control.RUNNING, over=[control.ABORTED])


def test_a_reconciliation_is_paused_and_resumed(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """One group after the other."""
    when_asked(world, 1, order(instance, PAUSE))
    wanted = {"2": "host-3", "3": "host-4"}
    first = launch(instance, RECONCILE, wanted=wanted)
    assert first.success
    assert tags(instance, first.run_id)[control.BOUNCE] == "paused"
    assert len(world.requests) == 1
    assert resumed(instance, first.run_id).success
    assert {p: world.at[p] for p in wanted} == wanted
    assert len(world.requests) == 2


def test_a_reconciliation_is_aborted(world: SteppedJob, instance: dg.DagsterInstance) -> None:
    """What was asked ends, and nothing more is asked."""
    world.status_s = 10
    when_asked(world, 1, order(instance, ABORT))
    first = launch(instance, RECONCILE, wanted={"2": "host-3", "3": "host-4"})
    assert "it was aborted" in failure(first, "carry_out_reconcile")
    assert world.cancelled == list(world.requests)
    assert len(world.requests) == 1


def test_a_standby_of_a_paused_drain_is_left_over_once_that_is_given_up(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Until then the drain may go on with it."""
    world.lag_now["1-1"] = [50_000]
    when_asked(world, 5, order(instance, PAUSE))
    first = launch(instance)
    assert launch(instance, RECONCILE, only=["1"]).success
    assert "1-1" in world.at
    _, told = control.steer(instance, ABORT, first.run_id)
    assert "given up" in told
    assert launch(instance, RECONCILE, only=["1"]).success
    assert "1-1" not in world.at


def test_nobody_is_sent_to_a_host_whose_drain_is_paused(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """It goes on with emptying it; one that was given up doesn't."""
    paused = {control.BOUNCE: control.PAUSED, PARTITION: "host-2"}
    run = other(instance, dg.DagsterRunStatus.SUCCESS, host="", tags=paused)
    preview = launch(instance, dry_run=True).output_for_node("plan_drain_host", "preview")
    assert f"on host-2, which run {run.run_id} drains" in preview
    control.steer(instance, ABORT, run.run_id)
    preview = launch(instance, dry_run=True).output_for_node("plan_drain_host", "preview")
    assert "standby 0-0 is warm" in preview


def test_the_host_that_was_chosen_in_the_launchpad_goes_along_with_who_resumes(
    instance: dg.DagsterInstance,
) -> None:
    """A drain of a partition has no host in its config."""
    paused = {control.BOUNCE: control.PAUSED, PARTITION: "host-2"}
    run = other(instance, dg.DagsterRunStatus.SUCCESS, host="", tags=paused)
    control.steer(instance, RESUME, run.run_id, by=By("lee"))
    with dg.build_sensor_context(instance=instance) as context:
        ticked = bounce_resume_sensor("demo/1", steered_jobs("demo/1"))(context)
    assert isinstance(ticked, dg.SensorResult)
    (asked,) = ticked.run_requests or []
    assert (asked.job_name, asked.tags[PARTITION]) == (DRAIN, "host-2")
    assert asked.run_config["ops"]["plan_drain_host"]["config"]["requested_by"] == "lee"
