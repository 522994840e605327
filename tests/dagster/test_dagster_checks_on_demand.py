"""`outside_checks` on demand beside the sensors: they write to the same checks."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from check_stage import Stage, on_stage

from samza_dagster.orchestration.watch.checks import lag_slo_sensor
from samza_dagster.orchestration.watch.evaluations import newest_evaluation
from samza_dagster.orchestration.watch.invariants import CLOCKS, SAME_HOST
from samza_dagster.orchestration.watch.lag_objectives import OBJECTIVE
from samza_dagster.orchestration.watch.settings import LagSlo

pytestmark = pytest.mark.dagster
RECORDS = LagSlo.model_validate({"objectives": [{"records": 500, "severity": "error"}]})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with on_stage(monkeypatch) as made:
        yield made


def shown(stage: Stage, check: str, asset: str) -> dg.AssetCheckEvaluation:
    """What the UI shows of a check."""
    found = newest_evaluation(stage.instance, dg.AssetCheckKey(dg.AssetKey(asset), check))
    assert found is not None
    return found[0]


def test_a_breach_that_was_overwritten_by_a_look_on_demand_is_told_again(stage: Stage) -> None:
    """The look fell into a dip; the objective is broken on."""
    stage.sensor = lag_slo_sensor(RECORDS)
    stage.world.behind["1-0"] = 50_000
    assert not stage.tick(times=8)[OBJECTIVE].passed
    stage.world.behind["1-0"] = 3
    assert stage.on_demand(RECORDS)[OBJECTIVE].passed
    stage.world.behind["1-0"] = 50_000
    assert not stage.tick()[OBJECTIVE].passed
    assert not shown(stage, OBJECTIVE, "changelog_lag").passed
    assert stage.tick(times=3) == {}


def test_a_job_that_is_well_is_told_again_after_a_look_on_demand_that_saw_a_restart(
    stage: Stage,
) -> None:
    """The look has no patience; the sensor has."""
    assert stage.tick()[SAME_HOST].passed
    stage.world.at["0-0"] = "host-0"
    assert not stage.on_demand()[SAME_HOST].passed
    stage.world.at["0-0"] = "host-1"
    assert set(stage.tick()) == {SAME_HOST}
    assert shown(stage, SAME_HOST, "container_locality").passed
    assert stage.tick(times=3) == {}


def test_a_look_on_demand_that_sees_what_the_sensor_told_is_not_answered(stage: Stage) -> None:
    """Nothing is told twice."""
    stage.tick()
    assert all(event.passed for event in stage.on_demand().values())
    assert stage.tick() == {}


SECONDS = LagSlo.model_validate({"objectives": [{"seconds": 5, "severity": "error"}]})


def test_what_takes_more_than_one_look_is_left_to_the_sensors(stage: Stage) -> None:
    """One look tells no rate, and no slow clock from an old report: the sensors' word stands."""
    stage.sensor = lag_slo_sensor(SECONDS)
    stage.tick()
    stage.world.behind["1-0"] = 50_000
    stage.tick(times=16)
    assert shown(stage, OBJECTIVE, "changelog_lag").severity == dg.AssetCheckSeverity.ERROR
    assert stage.on_demand(SECONDS).keys().isdisjoint({OBJECTIVE, CLOCKS})
    assert not shown(stage, OBJECTIVE, "changelog_lag").passed


def test_a_standby_that_is_ready_passes_on_demand_without_the_sensor(stage: Stage) -> None:
    """Nothing is left to apply."""
    assert stage.on_demand(SECONDS)[OBJECTIVE].passed
