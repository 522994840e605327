"""A bounce that Dagster created and whose submission failed bars no other.

Run monitoring fails it, and Dagster retries it by itself.
"""

from __future__ import annotations

import bounce_runs
import dagster as dg
import pytest

from samza_dagster.orchestration.bounce import rolling_bounce_job
from samza_dagster.orchestration.operations import runs
from samza_dagster.orchestration.tags import JOB
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster
RETRY_NUMBER = "dagster/retry_number"


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: other bounces are looked for among all runs."""
    return own_instance


def a_bounce(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **more: str
) -> dg.DagsterRun:
    job = rolling_bounce_job("demo/1")
    return instance.create_run_for_job(job, status=status, tags={**job.run_tags, **more})


def never_begun(instance: dg.DagsterInstance) -> dg.DagsterRun:
    """A bounce that run monitoring has failed: nobody submitted it, or its worker never began."""
    return a_bounce(instance, dg.DagsterRunStatus.FAILURE)


def retried(instance: dg.DagsterInstance, failed: dg.DagsterRun) -> dg.ExecuteJobResult:
    """What Dagster's daemon does by itself with a run whose tag `dagster/max_retries` says so."""
    again = dg.ReexecutionOptions(parent_run_id=failed.run_id)
    return bounce_runs.bounce(instance, again, {RETRY_NUMBER: "1"})


@pytest.fixture
def bounced(monkeypatch: pytest.MonkeyPatch) -> BounceWorld:
    """The job that is bounced."""
    made = BounceWorld()
    bounce_runs.in_virtual_time(made, monkeypatch)
    return made


def test_a_bounce_that_never_began_is_not_retried_after_another_was_launched(
    instance: dg.DagsterInstance, bounced: BounceWorld
) -> None:
    """Who saw the first do nothing launched again: the job was bounced a second time by itself."""
    first = never_begun(instance)
    second = bounce_runs.bounce(instance)
    assert second.success
    asked = dict(bounced.requests)
    again = retried(instance, first)
    assert not again.success
    assert bounced.requests == asked
    assert f"bounce {second.run_id} was launched after" in str(again.all_node_events)
    by_hand = dg.ReexecutionOptions(parent_run_id=again.run_id)
    assert bounce_runs.bounce(instance, by_hand).success
    assert len(bounced.requests) == 2 * len(asked)


def test_of_two_bounces_that_never_began_the_later_one_is_retried(
    instance: dg.DagsterInstance, bounced: BounceWorld
) -> None:
    """Neither is skipped for the other's retry."""
    first, second = never_begun(instance), never_begun(instance)
    told = [bounce_runs.tags_of(instance, retried(instance, one)) for one in (first, second)]
    assert [each[runs.BOUNCE] for each in told] == [runs.PLANNED, runs.DONE]


def test_a_bounce_that_never_began_is_retried_when_no_other_was_launched(
    instance: dg.DagsterInstance, bounced: BounceWorld
) -> None:
    """An older bounce, a dry run and another job's are none."""
    assert bounce_runs.bounce(instance).success
    asked = len(bounced.requests)
    first = never_begun(instance)
    assert bounce_runs.bounce(instance, dry_run=True).success
    a_bounce(instance, dg.DagsterRunStatus.SUCCESS, **{JOB: "other/1"})
    assert bounce_runs.tags_of(instance, retried(instance, first))[runs.BOUNCE] == "done"
    assert len(bounced.requests) == 2 * asked


def test_a_bounce_that_had_begun_is_gone_on_with_whatever_was_launched_since(
    instance: dg.DagsterInstance, bounced: BounceWorld
) -> None:
    """It left off in the middle: its retry brings it to its end."""
    bounced.calls.kill_at = 40
    first = bounce_runs.bounce(instance)
    assert not first.success
    never_begun(instance)
    failed = instance.get_run_by_id(first.run_id)
    assert failed is not None
    assert bounce_runs.tags_of(instance, retried(instance, failed))[runs.BOUNCE] == "done"
