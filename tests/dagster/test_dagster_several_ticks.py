"""A tick of a sensor looks at all Samza jobs of its component, side by side and in bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from lookout import LOOKOUTS, Lookout
from several_jobs import Worlds, loaded, two_jobs

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration import job_sensor
from samza_dagster.orchestration.job_sensor import JobCursors, JobTick, of_every_job
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch import checks
from samza_dagster.orchestration.watch.evaluations import newest_evaluation
from tests.rig.sensor_ticks import tick, ticking

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance(dagster_home: Callable[[Path], Path], tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with two_jobs(str(dagster_home(tmp_path))) as made:
        yield made


def test_a_check_passes_when_it_does_for_each_job(instance: dg.DagsterInstance) -> None:
    """Any number of times: Dagster takes one evaluation of a partition that no run made, and no second."""
    several, cursor = loaded(), None
    key = dg.AssetCheckKey(dg.AssetKey("container_locality"), "same_host")

    def ticked(found: dict[str, bool]) -> dg.AssetCheckEvaluation:
        def one_tick(_one: JobTick, samza: SamzaClientResource) -> Any:
            if samza.job not in found:
                return dg.SkipReason("nothing new")
            passed = found[samza.job]
            event = dg.AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=key.name, passed=passed, description="as seen"
            )
            return dg.SensorResult(asset_events=[event])

        nonlocal cursor
        with ticking(instance, several, cursor) as context:
            told = of_every_job(context, context.resources.samza, one_tick)
        assert isinstance(told, dg.SensorResult)
        cursor = told.cursor
        for event in told.asset_events or []:
            instance.report_runless_asset_event(event)
        newest = newest_evaluation(instance, key)
        assert newest is not None
        return newest[0]

    assert ticked({"orders/1": True, "billing/2": True}).passed
    told = ticked({"orders/1": False})
    assert not told.passed
    assert told.description == "orders/1: as seen"
    told = ticked({"billing/2": True})
    assert not told.passed
    assert told.description == "billing/2: as seen; failing still: orders/1"
    assert ticked({"orders/1": True}).passed


def test_one_job_s_fault_ends_no_other_s_tick(instance: dg.DagsterInstance) -> None:
    """It is told, and that job's cursor stays."""
    with ticking(instance, loaded()) as context:

        def ticked(one: JobTick, samza: SamzaClientResource) -> Any:
            if samza.job == "orders/1":
                raise ValueError("broken")
            return dg.SensorResult(cursor="7")

        told = of_every_job(context, context.resources.samza, ticked)
    assert isinstance(told, dg.SensorResult)
    kept = JobCursors.read(told.cursor)
    assert kept is not None
    assert kept.cursors == {"billing/2": "7"}
    assert "orders/1: failed: ValueError('broken')" in str(told.skip_reason)


def test_a_job_that_is_unreachable_keeps_no_other_from_being_watched(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own line says so."""
    now_ms = Lookout().now_ms
    monkeypatch.setattr(checks.time, "time_ns", lambda: now_ms * 1_000_000)
    LOOKOUTS["orders/1"] = LOOKOUTS["billing/2"] = Lookout()
    LOOKOUTS["billing/2"].alive()
    opened = Worlds.open_client

    def one_is_away(samza: Worlds) -> Any:
        if samza.job == "orders/1":
            raise Unreachable("read the job", seen="no broker answers", fix="start it")
        return opened(samza)

    monkeypatch.setattr(Worlds, "open_client", one_is_away)
    several = loaded(bootstrap_servers="watched")
    result = tick(instance, several, "invariants")
    assert {event.metadata["job"].value for event in result.asset_events} == {"billing/2"}
    told = str(tick(instance, several, "invariants", result.cursor).skip_message)
    assert "orders/1: " in told
    assert "no broker answers" in told


def test_what_a_tick_has_no_time_for_is_named_and_others_are_left_in_the_next(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen of the others counts; no job is left for ever."""
    monkeypatch.setattr(job_sensor, "JOBS_AT_ONCE", 1)
    now, left = [0.0], list[set[str]]()
    monkeypatch.setattr(job_sensor, "monotonic", lambda: now[0])
    several = loaded(jobs=[f"job-{n:03}" for n in range(40)])

    def slow(_one: JobTick, _samza: SamzaClientResource) -> Any:
        now[0] += 1.0
        return dg.SensorResult(cursor="1")

    for _ in range(2):
        with ticking(instance, several) as context:
            told = of_every_job(context, context.resources.samza, slow)
        assert isinstance(told, dg.SensorResult)
        kept = JobCursors.read(told.cursor)
        assert kept is not None
        left.append({f"job-{n:03}/1" for n in range(40)} - kept.cursors.keys())
        assert len(left[-1]) == 9
        assert f"{min(left[-1])}, " in str(told.skip_reason)
        assert "left for the next tick" in str(told.skip_reason)
    assert left[0] != left[1]


def test_without_kafka_nothing_is_known_of_a_pattern_and_every_cursor_stays(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick is skipped: none of the jobs is taken for gone."""

    def away(_self: Worlds) -> list[str]:
        raise Unreachable("list the topics", seen="no broker", fix="start it")

    monkeypatch.setattr(Worlds, "deployed_jobs", away)
    result = tick(instance, loaded(jobs=["orders*/*"]), "choices")
    assert "which Samza jobs there are isn't known" in str(result.skip_message)
    assert result.cursor is None
