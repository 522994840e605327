"""The asset check that is to judge a bounce's canary, looked up as the bounce is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import fake_bounce
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository
from fake_bounce import in_virtual_time, metadata

from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BounceWorld:
    """The demo job in virtual time."""
    made = BounceWorld()
    in_virtual_time(made, monkeypatch)
    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One of each test's own."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@dg.asset_check(asset=dg.AssetKey(["shop", "orders"]))
def fresh() -> dg.AssetCheckResult:
    """Of the code location that has the bounce."""
    return dg.AssetCheckResult(passed=True)


def location() -> dg.Definitions:
    """The bounce beside that check."""
    return dg.Definitions.merge(fake_bounce.definitions(), dg.Definitions(asset_checks=[fresh]))


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
    result = fake_bounce.rolling_bounce().execute_in_process(
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
