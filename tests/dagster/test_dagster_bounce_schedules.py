"""Bounces by the clock: what a tick launches, and when it doesn't."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from fake_bounce import bounce, definitions, in_virtual_time

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import runs as bounce_runs
from samza_dagster.orchestration.bounce.schedules import bounce_schedules
from samza_dagster.orchestration.instance import write_instance
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster
YAML = """
type: samza_dagster.SamzaJobComponent
attributes:
  bootstrap_servers: here:9092
  app_name: demo
  bounces:
    - name: nightly
      cron: "30 23 * * *"
      timezone: Europe/Berlin
      settings: {unit: hosts, at_once: 2, skip: [host-1]}
      blackouts:
        - {weekdays: [fri], start: 22:00, end: 06:00, why: sale}
        - {dates: [2026-12-24..2027-01-02]}
"""


def component(tmp_path: Path, text: str = YAML) -> SamzaJobComponent:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return SamzaJobComponent.from_file(path)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """On SQLite: a schedule's context opens it anew."""
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


THURSDAY = datetime(2026, 11, 26, 22, 30, tzinfo=UTC)  # half past eleven in Berlin


@pytest.fixture
def schedule(tmp_path: Path) -> dg.ScheduleDefinition:
    """The one of the YAML, on a Thursday night."""
    return at_present(tmp_path, THURSDAY)


def at_present(tmp_path: Path, now: datetime) -> dg.ScheduleDefinition:
    """The one of the YAML, when it is `now`."""
    (made,) = bounce_schedules("demo/1", component(tmp_path).bounces, now=lambda: now)
    return made


def tick(
    schedule: dg.ScheduleDefinition, instance: dg.DagsterInstance, at: datetime
) -> dg.RunRequest | str:
    """What is launched, or why nothing is."""
    context = dg.build_schedule_context(instance=instance, scheduled_execution_time=at)
    ticked = schedule.evaluate_tick(context)
    if ticked.run_requests:
        return ticked.run_requests[0]
    return str(ticked.skip_message)


def test_a_tick_launches_the_bounce_with_its_settings_once(
    schedule: dg.ScheduleDefinition, instance: dg.DagsterInstance
) -> None:
    """A tick that a restarted daemon evaluates again has the same run key."""
    assert (schedule.name, schedule.execution_timezone) == ("bounce_nightly", "Europe/Berlin")
    first, again = (tick(schedule, instance, THURSDAY) for _ in range(2))
    assert isinstance(first, dg.RunRequest)
    assert isinstance(again, dg.RunRequest)
    assert first.run_key == again.run_key == "nightly/2026-11-26T22:30Z"
    config = first.run_config["ops"]["plan_bounce"]["config"]
    assert (config["unit"], config["at_once"], config["skip"]) == ("hosts", 2, ["host-1"])
    assert config["requested_by"] == "schedule"
    job = definitions().get_job_def("rolling_bounce")
    assert dg.validate_run_config(job, first.run_config)


@pytest.mark.parametrize(
    ("day", "why"),
    [
        (datetime(2026, 11, 27, 22, 30, tzinfo=UTC), "sale"),
        (datetime(2026, 12, 31, 22, 30, tzinfo=UTC), "2027-01-02"),
    ],
)
def test_a_tick_in_a_blackout_is_skipped_and_says_why(
    schedule: dg.ScheduleDefinition, instance: dg.DagsterInstance, day: datetime, why: str
) -> None:
    """In the schedule's own zone."""
    said = tick(schedule, instance, day)
    assert isinstance(said, str)
    assert "is in a blackout" in said
    assert why in said


def test_a_tick_that_is_evaluated_late_in_a_blackout_is_skipped(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """Thursday's tick, which a daemon that was away comes to on Friday night; some hours before it
    is launched under Thursday's run key.
    """
    late = tick(at_present(tmp_path, THURSDAY.replace(day=27)), instance, THURSDAY)
    assert "Fri 2026-11-27 23:30 CET is in a blackout" in str(late)
    afternoon = THURSDAY.replace(day=27, hour=20)
    launched = tick(at_present(tmp_path, afternoon), instance, THURSDAY)
    assert isinstance(launched, dg.RunRequest)
    assert launched.run_key == "nightly/2026-11-26T22:30Z"


def test_a_tick_while_a_bounce_runs_or_is_paused_is_skipped(
    schedule: dg.ScheduleDefinition,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never two of a job; and a pause is somebody's no until it is resumed or aborted."""
    world = BounceWorld()
    in_virtual_time(world, monkeypatch)
    said: list[dg.RunRequest | str] = []

    def look(world: BounceWorld) -> None:
        if world.restarts() and not said:
            said.append(tick(schedule, instance, THURSDAY))
            bounce_runs.steer(instance, bounce_runs.BounceAction.pause)

    world.on_sleep = look
    run = bounce(instance)
    assert run.run_id in str(said[0])
    assert "is started" in str(said[0])
    paused = tick(schedule, instance, THURSDAY)
    assert f"bounce {run.run_id} is paused" in str(paused)
    bounce_runs.steer(instance, bounce_runs.BounceAction.abort)
    assert isinstance(tick(schedule, instance, THURSDAY), dg.RunRequest)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("at_once: 2", "at_once: 0", "at_once"),
        ("at_once: 2", "at_onec: 2", "no setting at_onec"),
        ("Europe/Berlin", "Europe/Bonn", "no time zone"),
        ("start: 22:00", "start: 25:00", "a time of the day"),
        ("fri", "frog", "weekdays"),
    ],
)
def test_a_typing_error_in_the_yaml_is_refused_at_load(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    """Not at the first tick."""
    with pytest.raises(InvalidInput, match=why):
        component(tmp_path, YAML.replace(old, new))


def test_the_component_brings_jobs_schedule_sensor_and_asset(tmp_path: Path) -> None:
    """All that `dagster dev` shows of a bounce."""
    made = dg.build_defs_for_component(component(tmp_path))
    repository = made.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs()}
    assert {"rolling_bounce", "control_bounce"} <= jobs
    assert repository.has_schedule_def("bounce_nightly")
    assert repository.has_sensor_def("bounce_resume")
    assert dg.AssetKey("bounce_history") in repository.asset_graph.get_all_asset_keys()
    tags = repository.get_job("rolling_bounce").tags
    assert tags["samza/container-group"] == "demo/1/rolling_bounce"


def test_a_dead_worker_s_bounce_is_gone_on_with_by_dagster_and_no_other(
    instance: dg.DagsterInstance,
) -> None:
    """By Dagster's own rule, on our instance: a failure of an op is an end that somebody chose."""
    job = definitions().get_job_def("rolling_bounce")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE, tags=job.tags)
    assert auto_reexecution_should_retry_run(instance, run, RunFailureReason.RUN_EXCEPTION)
    assert not auto_reexecution_should_retry_run(instance, run, RunFailureReason.STEP_FAILURE)


def test_a_tick_between_a_worker_s_death_and_its_retry_is_skipped(
    schedule: dg.ScheduleDefinition,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No run is under way for these seconds, and the bounce isn't over; a retry that never comes
    doesn't keep the clock away for ever.
    """
    job = definitions().get_job_def("rolling_bounce")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=job.tags)
    instance.report_run_failed(run)  # as the code server does for a worker that is gone
    assert "about to retry it" in str(tick(schedule, instance, THURSDAY))
    later = time.time() + 3_600
    monkeypatch.setattr(bounce_runs.time, "time", lambda: later)
    assert isinstance(tick(schedule, instance, THURSDAY), dg.RunRequest)
