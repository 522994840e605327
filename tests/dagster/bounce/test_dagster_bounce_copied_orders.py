"""A re-executed bounce has its parent's tags: which of its orders are new, which are copied."""

from __future__ import annotations

import dagster as dg
import pytest

from samza_dagster.orchestration.bounce.job import rolling_bounce_job
from samza_dagster.orchestration.operations import control as bounce_runs
from samza_dagster.orchestration.operations.control import BounceAction
from samza_dagster.orchestration.operations.steered import By, steerings

pytestmark = pytest.mark.dagster
JOB = rolling_bounce_job("demo/1")
ACTIONS = (BounceAction.pause, BounceAction.abort)


def re_executed(instance: dg.DagsterInstance, told: BounceAction) -> str:
    """A run that waits and goes on with a bounce which was told so; as the UI makes it."""
    first = instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.STARTED, tags=JOB.tags)
    bounce_runs.begin(instance, first, bounce_runs.RUNNING)
    bounce_runs.steer(instance, told, first.run_id)
    state = {BounceAction.pause: bounce_runs.PAUSED, BounceAction.abort: bounce_runs.ABORTED}
    instance.add_run_tags(first.run_id, {bounce_runs.BOUNCE: state[told]})
    instance.report_run_failed(first)
    parent = instance.get_run_by_id(first.run_id)
    assert parent is not None
    return instance.create_run_for_job(
        JOB,
        status=dg.DagsterRunStatus.NOT_STARTED,
        parent_run_id=parent.run_id,
        root_run_id=parent.run_id,
        tags=parent.tags,
    ).run_id


def begun(instance: dg.DagsterInstance, run_id: str, state: str) -> str:
    """What the run is told to do, as its op begins."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    bounce_runs.begin(instance, run, state)
    return bounce_runs.order(instance, run_id)


@pytest.mark.parametrize("before", ACTIONS)
@pytest.mark.parametrize("now", ACTIONS)
def test_an_order_to_a_waiting_re_execution_is_heard_also_when_its_parent_was_told_the_same(
    instance: dg.DagsterInstance, before: BounceAction, now: BounceAction
) -> None:
    """It was answered: the bounce restarts nobody."""
    run_id = re_executed(instance, before)
    bounce_runs.steer(instance, now, run_id)
    assert begun(instance, run_id, bounce_runs.PLANNED) == now.value
    assert begun(instance, run_id, bounce_runs.RUNNING) == now.value


@pytest.mark.parametrize("order", ACTIONS)
def test_an_order_while_the_re_execution_plans_is_heard(
    instance: dg.DagsterInstance, order: BounceAction
) -> None:
    """The copied one was put away before."""
    run_id = re_executed(instance, order)
    assert begun(instance, run_id, bounce_runs.PLANNED) == ""
    bounce_runs.steer(instance, order, run_id)
    assert begun(instance, run_id, bounce_runs.RUNNING) == order.value


@pytest.mark.parametrize("order", ACTIONS)
def test_a_copied_order_is_none(instance: dg.DagsterInstance, order: BounceAction) -> None:
    """Who re-executes a bounce wants it to go on."""
    run_id = re_executed(instance, order)
    assert begun(instance, run_id, bounce_runs.PLANNED) == ""
    assert begun(instance, run_id, bounce_runs.RUNNING) == ""


@pytest.mark.parametrize("order", ACTIONS)
def test_an_order_that_the_run_s_own_tag_was_written_over_is_heard(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, order: BounceAction
) -> None:
    """Dagster reads a run's tags and writes all of them: a bounce went on for minutes after its abort."""
    run = instance.create_run_for_job(JOB, status=dg.DagsterRunStatus.STARTED, tags=JOB.tags)
    bounce_runs.begin(instance, run, bounce_runs.RUNNING)
    as_read = instance.get_run_by_id(run.run_id)
    bounce_runs.steer(instance, order, run.run_id, by=By("kim"))
    with monkeypatch.context() as late:
        late.setattr(instance.run_storage, "_get_run_by_id", lambda _: as_read)
        instance.add_run_tags(run.run_id, {bounce_runs.PROGRESS: "1/4"})
    assert bounce_runs.CONTROL not in bounce_runs.find(instance, run.run_id).tags
    assert bounce_runs.order(instance, run.run_id) == order.value
    tags = bounce_runs.find(instance, run.run_id).tags
    assert (tags[bounce_runs.CONTROL], tags[bounce_runs.PROGRESS]) == (order.value, "1/4")
    assert [one.who for one in steerings(tags)] == ["kim"]
