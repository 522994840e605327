"""`outside_checks` on demand beside the sensors: they write to the same checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from check_stage import Stage, on_stage

from samza_dagster.metadata.resource_manager import Application, Cluster
from samza_dagster.orchestration.watch.check_events import latest
from samza_dagster.orchestration.watch.names import CLOCKS, OBJECTIVE, SAME_HOST
from samza_dagster.orchestration.watch.sensors import lag_slo_sensor
from samza_dagster.orchestration.watch.settings import LagSlo

pytestmark = pytest.mark.dagster
RECORDS = LagSlo.model_validate({"objectives": [{"records": 500, "severity": "error"}]})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with on_stage(monkeypatch) as made:
        yield made


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stage]:
    """On an instance that keeps the sensors' cursors."""
    with on_stage(monkeypatch, tmp_path) as made:
        yield made


def shown(stage: Stage, check: str, asset: str) -> dg.AssetCheckEvaluation:
    """What the UI shows of a check."""
    found = latest(stage.instance, asset, check)
    assert found is not None
    return found


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


def without_headway(stage: Stage, times: int) -> None:
    """A standby that hangs 50,000 records behind, for so many ticks of `lag_slo`."""
    stage.sensor = lag_slo_sensor(SECONDS)
    stage.tick()
    stage.world.behind["1-0"] = 50_000
    stage.tick(times=times)


def test_an_objective_in_seconds_is_judged_on_demand_by_what_the_sensor_follows(
    kept: Stage,
) -> None:
    """One look tells no rate, the sensor's looks do."""
    without_headway(kept, 6)
    kept.keep_cursor()
    told = kept.on_demand(SECONDS)[OBJECTIVE]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "1-0/store: it makes no headway" in str(told.description)


@pytest.mark.parametrize("since", ["never", "an hour ago"])
def test_an_objective_in_seconds_that_nobody_follows_is_not_known_on_demand(
    kept: Stage, since: str
) -> None:
    """It doesn't pass, and no error is claimed."""
    without_headway(kept, 6)
    if since == "an hour ago":
        kept.keep_cursor()
        kept.world.now_ms += 3_600_000
    told = kept.on_demand(SECONDS)[OBJECTIVE]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "1-0/store: not known from one look: 50,000 records behind" in str(told.description)


def test_a_standby_that_is_ready_passes_on_demand_without_the_sensor(stage: Stage) -> None:
    """Nothing is left to apply."""
    assert stage.on_demand(SECONDS)[OBJECTIVE].passed


def test_a_wrong_clock_is_judged_on_demand_by_what_the_sensor_follows(kept: Stage) -> None:
    """One look can't tell a slow clock from an old report, and says so."""
    kept.world.skew_ms = {"host-1": -100_000}
    alone = kept.on_demand()[CLOCKS]
    assert (alone.passed, alone.description) == (True, "nothing found; not known from one look")
    kept.tick(times=3)
    kept.keep_cursor()
    told = kept.on_demand()[CLOCKS]
    assert not told.passed
    assert "clock of host-1: its clock is about" in str(told.description)


def test_of_a_dead_job_a_look_on_demand_says_what_the_sensors_say(stage: Stage) -> None:
    """That it is dead, and no standby's lag."""
    stage.world.coordinator = "samza"
    stage.world.yarn = Cluster("http://rm:8088", {}, Application("application_1_0004", "FAILED"))
    stage.world.behind = dict.fromkeys(stage.world.at, None)
    told = {name: event for name, event in stage.on_demand(SECONDS).items() if not event.passed}
    assert set(told) == {"replicas_present", "standbys_within_limit", OBJECTIVE}
    assert {event.severity for event in told.values()} == {dg.AssetCheckSeverity.ERROR}
