"""One bounce of a job at a time, whichever of two runs comes first."""

from __future__ import annotations

import dagster as dg
import pytest
from bounce_runs import bounce, metadata

from samza_dagster.errors import Refused
from samza_dagster.orchestration.bounce import check_alone, rolling_bounce_job
from samza_dagster.orchestration.operations import runs as bounce_runs
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster


def test_two_bounces_of_a_job_are_never_at_work_at_once(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """The younger one is refused, with the progress of the older."""
    other: list[dg.ExecuteJobResult] = []

    def launch(world: BounceWorld) -> None:
        if world.restarts() and not other:
            world.on_sleep = None
            other.append(bounce(instance))

    world.on_sleep = launch
    first = bounce(instance)
    assert first.success
    told = metadata(other[0], "plan_bounce")
    assert told["asked"] == "one bounce of demo/1 at a time"
    assert first.run_id in told["seen"]
    assert len(world.requests) == 4


def made_run(instance: dg.DagsterInstance, status: str, **config: object) -> dg.DagsterRun:
    """A bounce's run that has said nothing of itself yet."""
    job = rolling_bounce_job("demo/1")
    return instance.create_run_for_job(
        job,
        run_config={"ops": {"plan_bounce": {"config": config}}},
        tags=job.tags,
        status=dg.DagsterRunStatus[status],
    )


def test_an_older_run_that_is_being_started_wins(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """It has no tag of its own yet; a faster younger one would pass it, and both would bounce."""
    older = made_run(instance, "STARTING")
    result = bounce(instance)
    assert f"run {older.run_id} is starting" in metadata(result, "plan_bounce")["seen"]
    assert world.requests == {}


@pytest.mark.parametrize("first", ["plan_bounce", "bounce"])
def test_an_older_run_that_starts_late_finds_the_younger_one_that_bounces(
    instance: dg.DagsterInstance, first: str
) -> None:
    """Whichever order they come in, at whichever of the two checks: never both go on."""
    older, younger = made_run(instance, "NOT_STARTED"), made_run(instance, "STARTED")
    bounce_runs.begin(instance, younger, bounce_runs.PLANNED)
    check_alone(instance, younger)
    if first == "bounce":
        bounce_runs.begin(instance, younger, bounce_runs.RUNNING)
        check_alone(instance, younger)
    started = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, older.job_name)
    instance.report_dagster_event(started, older.run_id)
    bounce_runs.begin(instance, older, bounce_runs.PLANNED)
    if first == "bounce":
        with pytest.raises(Refused, match=younger.run_id):
            check_alone(instance, older)
        return
    check_alone(instance, older)
    bounce_runs.begin(instance, younger, bounce_runs.RUNNING)
    with pytest.raises(Refused, match=older.run_id):
        check_alone(instance, younger)


@pytest.mark.longdagster
@pytest.mark.parametrize("state", ["", "dry-run"])
def test_a_run_that_restarts_nobody_is_no_bounce_beside_another(
    world: BounceWorld, instance: dg.DagsterInstance, state: str
) -> None:
    """A dry run by its config, before it has said so and after."""
    other = made_run(instance, "STARTING", dry_run=not state)
    if state:
        instance.add_run_tags(other.run_id, {bounce_runs.BOUNCE: state})
    assert bounce(instance, only=["0-0"]).success


@pytest.mark.parametrize("ended", [bounce_runs.TERMINATED, bounce_runs.STOPPED])
def test_dagster_s_own_retry_of_a_bounce_that_was_over_restarts_nobody(
    world: BounceWorld, instance: dg.DagsterInstance, ended: str
) -> None:
    """Its worker died after it had said so; by hand it is gone on with."""
    over = made_run(instance, "FAILURE", canaries=0)
    instance.add_run_tags(over.run_id, {bounce_runs.BOUNCE: ended})
    again = dg.ReexecutionOptions(parent_run_id=over.run_id)
    retried = bounce(instance, again, {bounce_runs.RETRY_NUMBER: "1"})
    assert f"run {over.run_id} was {ended}" in metadata(retried, "plan_bounce")["seen"]
    assert world.requests == {}
    assert bounce(instance, again).success


def test_a_re_execution_of_a_re_execution_restarts_nobody_twice(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Each is terminated half-way, and has what all runs of the chain have done."""
    parent = ""
    for done in (1, 2):

        def terminate(world: BounceWorld, most: int = done) -> None:
            if len(world.requests) > most:
                raise dg.DagsterExecutionInterruptedError

        world.on_sleep = terminate
        again = dg.ReexecutionOptions(parent_run_id=parent) if parent else None
        parent = bounce(instance, again).run_id
    world.on_sleep = None
    assert bounce(instance, dg.ReexecutionOptions(parent_run_id=parent)).success
    assert world.restarts() == dict.fromkeys(world.at, 1)
