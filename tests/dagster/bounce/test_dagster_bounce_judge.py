"""The asset check that judges a bounce's canary: looked up as the bounce is planned, and its results."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import bounce_runs
import dagster as dg
import pytest
from bounce_runs import bounce, metadata
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.events import DagsterEvent

from samza_dagster.orchestration.bounce import rolling_bounce_job
from samza_dagster.orchestration.chain import ROOT
from samza_dagster.orchestration.operations.runs import check_result
from samza_dagster.orchestration.plans.units import BounceJudge
from samza_dagster.orchestration.watch.evaluations import newest_evaluation
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster


@dg.asset_check(asset=dg.AssetKey(["shop", "orders"]))
def fresh() -> dg.AssetCheckResult:
    """Of the code location that has the bounce."""
    return dg.AssetCheckResult(passed=True)


def location() -> dg.Definitions:
    """The bounce beside that check."""
    return dg.Definitions.merge(bounce_runs.definitions(), dg.Definitions(asset_checks=[fresh]))


def judged(
    instance: dg.DagsterInstance, asset: str, check: str, **config: Any
) -> dg.ExecuteJobResult:
    """A run of the bounce, in its code location."""
    fields = {"canaries": 1, "judge_asset": asset, "judge_check": check, "dry_run": True, **config}
    repository = ReconstructableRepository.for_file(__file__, "location")
    with dg.execute_job(
        repository.get_reconstructable_job("rolling_bounce"),
        instance=instance,
        run_config={"ops": {"plan_bounce": {"config": fields}}},
        raise_on_error=False,
    ) as result:
        return result


def refused(result: dg.ExecuteJobResult) -> str:
    """Why the plan was refused."""
    (failure,) = result.get_step_failure_events()
    assert failure.step_key == "plan_bounce"
    data = failure.step_failure_data.user_failure_data
    assert data is not None
    return str(data.description)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_judge_s_misspelled_check_is_refused_before_anybody_is_restarted(
    world: BounceWorld, instance: dg.DagsterInstance, *, dry_run: bool
) -> None:
    """It used to show after the bake, when no result had come in time."""
    said = refused(judged(instance, "shop/orders", "frsh", dry_run=dry_run))
    assert "judge_check 'frsh' of asset shop/orders" in said
    assert "its checks are fresh" in said
    assert world.requests == {}


def test_a_judge_s_misspelled_asset_is_refused_with_those_that_have_checks(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Of the run's code location."""
    said = refused(judged(instance, "shop/order", "fresh"))
    assert "judge_asset 'shop/order'" in said
    assert "assets with checks are shop/orders" in said
    assert world.requests == {}


@pytest.mark.usefixtures("world")
def test_a_judge_of_this_code_location_needs_no_word(instance: dg.DagsterInstance) -> None:
    """Also when it was never evaluated."""
    result = judged(instance, "shop/orders", "fresh")
    assert result.success
    assert "code location" not in metadata(result, "plan_bounce")["what"]


@pytest.mark.usefixtures("world")
def test_a_judge_of_another_code_location_is_known_by_what_it_found(
    instance: dg.DagsterInstance,
) -> None:
    """The plan says when that was: the check may be gone by now."""
    key = dg.AssetKey(["stock", "levels"])
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(check_name="low", passed=True, asset_key=key, metadata={})
    )
    result = judged(instance, "stock/levels", "low")
    assert result.success
    said = metadata(result, "plan_bounce")["what"]
    assert "check `low` of asset `stock/levels` isn't known to this code location" in said


@pytest.mark.usefixtures("world")
def test_a_run_that_does_not_know_its_code_location_warns_of_a_judge_that_was_never_evaluated(
    instance: dg.DagsterInstance,
) -> None:
    """It can't tell whether there is one."""
    config = {"canaries": 1, "judge_asset": "a", "judge_check": "b", "dry_run": True}
    result = bounce_runs.rolling_bounce().execute_in_process(
        instance=instance, run_config={"ops": {"plan_bounce": {"config": config}}}
    )
    text = result.output_for_node("plan_bounce", "preview")
    assert "check `b` of asset `a` was never evaluated" in text


def test_without_a_canary_nobody_is_judged_and_no_check_is_looked_up(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """The field has no effect."""
    assert judged(instance, "shop/orders", "frsh", canaries=0, dry_run=False).success
    assert len(world.requests) == 4


@pytest.mark.longdagster
@pytest.mark.parametrize("passed", [True, False])
def test_an_asset_check_judges_the_canary(
    world: BounceWorld, instance: dg.DagsterInstance, passed: bool
) -> None:
    """Its newest result, if it is from after the bake: the one before it doesn't count.

    Whoever evaluates it has a clock of its own, here an hour ahead of the bounce's.
    """

    def evaluate(when: bool) -> None:
        key = dg.AssetKey(["shop", "orders"])
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(check_name="fresh", passed=when, asset_key=key, metadata={})
        )

    world.now_ms = time.time_ns() // 1_000_000 - 3_600_000
    evaluate(not passed)

    told: list[int] = []
    before = world.now_ms

    def judge(world: BounceWorld) -> None:
        if world.now_ms > before + 60_000 and not told:
            told.append(1)
            evaluate(passed)

    world.on_sleep = judge
    config = {"judge_asset": "shop/orders", "judge_check": "fresh", "judge_timeout_s": 500}
    result = bounce(instance, canaries=1, bake_s=25, **config)
    assert result.success is passed
    assert len(world.order()) == (4 if passed else 1)


def in_one_chain(instance: dg.DagsterInstance) -> dg.OpExecutionContext:
    """What goes on with the same bounce each time."""
    run = instance.create_run_for_job(
        rolling_bounce_job("demo/1"),
        root_run_id="judged",
        parent_run_id="judged",
        tags={**rolling_bounce_job("demo/1").tags, ROOT: "judged"},
    )
    return cast("dg.OpExecutionContext", SimpleNamespace(instance=instance, run=run))


def test_a_check_whose_run_has_not_come_to_it_yet_hides_no_result(
    instance: dg.DagsterInstance,
) -> None:
    """Dagster notes a check when a run that will evaluate it is made: that is no result. The first
    result by the time it was found counts, also for a run that goes on after a later one.
    """
    key = dg.AssetKey(["shop", "orders"])

    @dg.asset_check(asset=key, name="fresh")
    def fresh() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    def newest() -> dg.AssetCheckEvaluation | None:
        found = newest_evaluation(instance, dg.AssetCheckKey(key, "fresh"))
        return found[0] if found is not None else None

    looks = dg.define_asset_job("looks", dg.AssetSelection.checks(fresh))
    job = dg.Definitions(asset_checks=[fresh], jobs=[looks]).resolve_job_def("looks")
    judge = BounceJudge("shop/orders", "fresh", 60.0)
    looks, goes_on = in_one_chain(instance), in_one_chain(instance)
    slow = instance.create_run_for_job(job)
    assert check_result(looks, judge) is None
    assert newest() is None
    no, yes = (
        dg.AssetCheckEvaluation(check_name="fresh", passed=passed, asset_key=key, metadata={})
        for passed in (False, True)
    )
    instance.report_runless_asset_event(no)
    instance.create_run_for_job(job)
    assert check_result(looks, judge) is False
    assert newest() == no
    found = DagsterEvent(
        dg.DagsterEventType.ASSET_CHECK_EVALUATION.value, "looks", event_specific_data=yes
    )
    instance.report_dagster_event(found, slow.run_id)
    assert newest() == yes
    assert check_result(looks, judge) is False
    assert check_result(goes_on, judge) is False
