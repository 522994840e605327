"""Bounces by the clock: what a tick launches, and when it doesn't."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from bounce_runs import bounce, definitions, in_virtual_time
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import (
    bounce_schedules,
    hindrance,
    rolling_bounce_job,
)
from samza_dagster.orchestration.operations import runs as bounce_runs
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
"""


def component(tmp_path: Path, text: str = YAML) -> SamzaJobComponent:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return SamzaJobComponent.from_file(path)


@pytest.fixture(scope="module")
def instance(
    dagster_home: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dg.DagsterInstance]:
    """On SQLite: a schedule's context opens it anew."""
    home = dagster_home(tmp_path_factory.mktemp("home"))
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
    """A tick that a restarted daemon evaluates again has the same run key; as its settings say."""
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


def test_settings_are_kept_as_they_were_understood(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """Dagster would refuse a tick's config with a "2" for a number, each time anew."""
    loose = YAML.replace("at_once: 2", 'at_once: "2", lag_limit: null, dry_run: "yes"')
    (schedule,) = component(tmp_path, loose).bounces
    assert schedule.settings == {
        "unit": "hosts",
        "at_once": 2,
        "lag_limit": None,
        "dry_run": True,
        "skip": ["host-1"],
    }
    (made,) = bounce_schedules("demo/1", [schedule], now=lambda: THURSDAY)
    asked = tick(made, instance, THURSDAY)
    assert isinstance(asked, dg.RunRequest)
    assert dg.validate_run_config(definitions().get_job_def("rolling_bounce"), asked.run_config)
    with pytest.raises(Exception, match="at_once"):
        component(tmp_path, YAML.replace("at_once: 2", 'at_once: "two"'))


def test_a_tick_that_is_evaluated_hours_late_bounces_nothing(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """A daemon that was away comes to the last one that it missed: its hours are over."""
    late = tick(at_present(tmp_path, THURSDAY + timedelta(hours=9)), instance, THURSDAY)
    assert late == "it was due 9 h 0 min ago, at 2026-11-26T22:30Z"
    soon = tick(at_present(tmp_path, THURSDAY + timedelta(minutes=40)), instance, THURSDAY)
    assert isinstance(soon, dg.RunRequest)
    assert soon.run_key == "nightly/2026-11-26T22:30Z"


@pytest.mark.longdagster
def test_a_tick_while_a_bounce_runs_is_skipped(
    schedule: dg.ScheduleDefinition,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never two of a job."""
    world = BounceWorld()
    in_virtual_time(world, monkeypatch)
    said: list[dg.RunRequest | str] = []

    def look(world: BounceWorld) -> None:
        if world.restarts() and not said:
            said.append(tick(schedule, instance, THURSDAY))

    world.on_sleep = look
    run = bounce(instance)
    assert run.run_id in str(said[0])
    assert "is started" in str(said[0])
    assert isinstance(tick(schedule, instance, THURSDAY), dg.RunRequest)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("at_once: 2", "at_once: 0", "at_once"),
        ("at_once: 2", "at_onec: 2", "no setting at_onec"),
        ("Europe/Berlin", "Europe/Bonn", "no time zone"),
    ],
)
def test_a_typing_error_in_the_yaml_is_refused_at_load(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    """Not at the first tick."""
    with pytest.raises(InvalidInput, match=why):
        component(tmp_path, YAML.replace(old, new))


def test_a_dead_worker_s_bounce_is_gone_on_with_by_dagster_and_no_other(
    instance: dg.DagsterInstance,
) -> None:
    """By Dagster's own rule, on our instance: a failure of an op is an end that somebody chose."""
    job = definitions().get_job_def("rolling_bounce")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE, tags=job.tags)
    assert auto_reexecution_should_retry_run(instance, run, RunFailureReason.RUN_EXCEPTION)
    assert not auto_reexecution_should_retry_run(instance, run, RunFailureReason.STEP_FAILURE)


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTED"])
def test_a_dry_run_that_has_said_nothing_yet_keeps_no_tick_from_its_bounce(
    instance: dg.DagsterInstance, status: str
) -> None:
    """It is known by its config; a period without its bounce would be the price."""
    job = rolling_bounce_job("quiet/1")
    config = {"ops": {"plan_bounce": {"config": {"dry_run": True}}}}
    run = instance.create_run_for_job(
        job, run_config=config, tags=job.tags, status=dg.DagsterRunStatus[status]
    )
    assert hindrance(instance, "quiet/1") == ""
    assert run.run_id not in [one.run_id for one in bounce_runs.runs_of(instance)]
