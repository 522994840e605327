"""`invariants` and `lag_slo` as Dagster runs them: told once, also over lost cursors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import dagster as dg
import pytest
from check_stage import Stage, on_stage

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import JobView
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.resource_manager import Application, Cluster
from samza_dagster.orchestration.watch import lag_objectives
from samza_dagster.orchestration.watch.checks import due, lag_slo_sensor
from samza_dagster.orchestration.watch.findings import (
    NOT_JUDGED,
    CheckMemory,
    Hysteresis,
    looked,
)
from samza_dagster.orchestration.watch.lag_objectives import OBJECTIVE
from samza_dagster.orchestration.watch.settings import LagSlo

pytestmark = pytest.mark.dagster


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with on_stage(monkeypatch) as made:
        yield made


def test_a_job_that_is_well_passes_every_check_and_is_told_once(stage: Stage) -> None:
    """Then silence, until the hour is over."""
    told = stage.tick()
    assert {name: event.passed for name, event in told.items()} == dict.fromkeys(
        (
            *("same_host", "replicas_present", "one_owner", "standbys_within_limit"),
            *("locality_agrees", "clocks_agree", "coordinated", "live_copies", "none_flaps"),
        ),
        True,
    )
    assert stage.tick(times=5) == {}
    stage.world.now_ms += 3_600_000
    assert len(stage.tick()) == 9


def test_a_cursor_that_isnt_understood_is_told_and_costs_nothing_that_was_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later release's, after a step back: what the checks say is found in Dagster's own events."""
    logged: list[str] = []
    monkeypatch.setattr(logging.Logger, "warning", lambda _, text: logged.append(text))
    stage.tick(times=2)
    assert logged == []
    stage.cursor = '{"version":99,"job":"demo/1"}'
    assert stage.tick() == {}
    (line,) = logged
    assert "what was kept isn't understood, so this begins anew" in line


@pytest.mark.parametrize("sensor", ["invariants", "lag_slo"])
def test_a_tick_reads_the_job_for_its_lags_and_once_after_them(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, sensor: str
) -> None:
    """Each reading is the whole stream of a job that may have a thousand containers."""
    if sensor == "lag_slo":
        stage.sensor = lag_slo_sensor(LagSlo())
    real, read = PlacementClient.view, list[int]()

    def view(client: PlacementClient) -> JobView:
        read.append(1)
        return real(client)

    monkeypatch.setattr(PlacementClient, "view", view)
    stage.tick()
    assert len(read) == 2


def test_lags_that_cant_be_read_leave_the_objective_unjudged_and_the_tick_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be read for them may be what the job's view needs, too."""
    away = Unreachable("the state topic", seen="no leader", fix="start its broker")

    def fails(_: PlacementClient) -> None:
        raise away

    monkeypatch.setattr(PlacementClient, "view", fails)
    monkeypatch.setattr(PlacementClient, "lag", fails)
    stage.sensor = lag_slo_sensor(LagSlo())
    stage.tick()
    kept = CheckMemory.read(stage.cursor)
    assert kept is not None
    assert NOT_JUDGED in kept.checks[OBJECTIVE]


@pytest.mark.parametrize(
    ("skew_ms", "said"), [(-100_000, "95 s behind the observer's"), (100_000, "105 s ahead of")]
)
def test_a_host_with_a_wrong_clock_is_told_as_that_and_not_as_silent(
    stage: Stage, skew_ms: int, said: str
) -> None:
    """By the times of its reports and when they came: within bounds, a tick apart."""
    stage.world.skew_ms = {"host-1": skew_ms}
    stage.tick()
    told = stage.tick(times=2)
    assert set(told) == {"clocks_agree"}
    assert not told["clocks_agree"].passed
    assert f"clock of host-1: its clock is about {said}" in str(told["clocks_agree"].description)
    assert "its lag isn't known" not in str(told["clocks_agree"].description)
    stage.world.skew_ms = {}
    assert stage.tick(times=2)["clocks_agree"].passed


def test_a_broken_invariant_is_told_with_severity_and_what_to_do(stage: Stage) -> None:
    """At the second look; and its end."""
    stage.tick()
    stage.world.at["0-0"] = "host-0"
    assert stage.tick() == {}
    told = stage.tick()["same_host"]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert told.asset_key == dg.AssetKey("container_locality")
    row = told.metadata["what_was_seen"].value.records[0].data  # type: ignore[union-attr]
    assert (row["subject"], row["what_to_do"][:21]) == ("0 on host-0", "samza-dagster explain")
    stage.world.at["0-0"] = "host-1"
    over = stage.tick(times=2)["same_host"]
    assert over.passed
    assert over.metadata["over"].value == "0 on host-0"


@pytest.mark.parametrize("slo", [False, True], ids=["invariants", "lag_slo"])
def test_of_a_dead_job_it_is_told_that_it_is_dead_and_nothing_that_nobody_would_read(
    stage: Stage, slo: bool
) -> None:
    """Standbys without news were each to be restarted, by a request."""
    if slo:
        stage.sensor = lag_slo_sensor(LagSlo(breach_s=10))
    stage.world.coordinator = "samza"
    stage.tick()
    failed_job = Application("application_1_0004", "FAILED")
    stage.world.yarn = Cluster("http://rm:8088", {}, failed_job)
    stage.world.behind = dict.fromkeys(stage.world.at, None)
    told = {**stage.tick(times=2), **stage.tick(times=6)}  # of lags when a report is due again
    failed = {"lag_objective"} if slo else {"replicas_present", "standbys_within_limit"}
    assert {name for name, event in told.items() if not event.passed} == failed
    for name in failed:
        assert told[name].severity == dg.AssetCheckSeverity.ERROR
        assert told[name].description == f"job: YARN's ResourceManager: {failed_job}"
        rows = told[name].metadata["what_was_seen"].value.records  # type: ignore[union-attr]
        assert [row.data["what_to_do"][:20] for row in rows] == ["deploy the job again"]
    stage.world.yarn, stage.world.behind = None, {}
    over = {**stage.tick(times=2), **stage.tick()}  # a breach is over after three good looks
    assert {name for name, event in over.items() if event.passed} == failed


def test_a_tick_that_comes_again_tells_nothing_twice(stage: Stage) -> None:
    """Its events were kept and its cursor wasn't."""
    stage.tick(times=2)
    stage.world.at["0-0"] = "host-0"
    stage.tick()
    assert set(stage.tick(kept=False)) == {"same_host"}
    assert stage.tick() == {}
    assert stage.tick(times=3) == {}


@pytest.mark.longdagster
def test_a_lost_cursor_neither_forgets_a_finding_nor_tells_it_again(stage: Stage) -> None:
    """The last evaluation is where it goes on from."""
    stage.tick()
    stage.world.at["0-0"] = "host-0"
    stage.tick(times=2)
    stage.cursor = None
    assert stage.tick(times=4) == {}
    stage.cursor = None
    stage.world.at["0-0"] = "host-1"
    assert stage.tick()["same_host"].passed


def test_a_standby_over_its_objective_is_a_breach_after_hysteresis(stage: Stage) -> None:
    """Three looks, and not before a second report shows it; the recovery is told once."""
    stage.sensor = lag_slo_sensor(
        LagSlo.model_validate({"objectives": [{"records": 500, "severity": "error"}]})
    )
    assert stage.tick()[OBJECTIVE].passed
    stage.world.behind["1-0"] = 501
    assert stage.tick(times=7) == {}
    told = stage.tick()[OBJECTIVE]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "1-0/store: 501 records behind" in str(told.description)
    stage.world.behind["1-0"] = 3
    assert stage.tick(times=2) == {}
    assert stage.tick()[OBJECTIVE].passed
    assert stage.tick(times=4) == {}


def test_the_checks_can_be_run_on_demand(stage: Stage) -> None:
    """At one look, all but whether clocks agree."""
    stage.world.at["0-0"] = "host-0"
    passed = {name: event.passed for name, event in stage.on_demand().items()}
    assert len(passed) == 9
    assert [name for name, well in passed.items() if not well] == ["same_host"]


def test_what_lag_slo_does_not_follow_is_said_and_fails_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of objectives in seconds; told once it lasts, and when it is over."""
    monkeypatch.setattr(lag_objectives, "MOST_FOLLOWED", 1)
    stage.sensor = lag_slo_sensor(LagSlo.model_validate({"objectives": [{"seconds": 60}]}))
    assert stage.tick()[OBJECTIVE].description == "nothing found"
    stage.world.behind |= {"0-0": 30, "1-0": 20, "2-0": 10}
    told = stage.tick(times=8)[OBJECTIVE]
    assert told.passed
    assert told.description == "nothing found; not followed: 2 store partitions"
    assert told.metadata["findings"].value == 0
    stage.world.behind |= {"0-0": 0, "1-0": 0, "2-0": 0}
    over = stage.tick(times=3)[OBJECTIVE]
    assert over.description == "nothing found; over: not followed"


def test_a_check_is_told_again_once_its_asset_is_materialized() -> None:
    """The UI takes one whose word is older than its asset for not evaluated."""
    (result,) = looked(CheckMemory("demo/1"), {}, {"same_host": Hysteresis(looks=1)}, 1_000)[1]
    checks = {"same_host": dg.AssetKey("container_locality")}
    now_ms = time.time_ns() // 1_000_000

    def told(memory: CheckMemory, at_ms: int) -> tuple[CheckMemory, int]:
        memory, events = due(memory, (result,), checks, instance, at_ms)
        for event in events:
            instance.report_runless_asset_event(event)
        return memory, len(events)

    with dg.DagsterInstance.ephemeral() as instance:
        memory, first = told(CheckMemory("demo/1"), now_ms)
        memory, quiet = told(memory, now_ms + 1)
        instance.report_runless_asset_event(dg.AssetMaterialization("container_locality"))
        later_ms = time.time_ns() // 1_000_000 + 60_000
        memory, again = told(memory, later_ms)
        _, once = told(memory, later_ms + 1)
    assert (first, quiet, again, once) == (1, 0, 1, 0)
