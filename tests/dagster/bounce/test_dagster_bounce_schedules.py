"""Bounces by the clock: what a tick launches, and when it doesn't."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from bounce_runs import bounce, definitions, in_virtual_time, metadata, tags_of
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import alone
from samza_dagster.orchestration.bounce import run as bouncing
from samza_dagster.orchestration.bounce.job import rolling_bounce_job
from samza_dagster.orchestration.bounce.schedules import (
    ScheduledBounce,
    bounce_schedules,
)
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.plans.bounce_config import BlackoutWindow
from tests.rig.bounce_world import BounceWorld
from tests.rig.worker import Calls

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
    """A tick that a restarted daemon evaluates again has the same run key; the run has blackouts in its zone."""
    assert (schedule.name, schedule.execution_timezone) == ("bounce_nightly", "Europe/Berlin")
    first, again = (tick(schedule, instance, THURSDAY) for _ in range(2))
    assert isinstance(first, dg.RunRequest)
    assert isinstance(again, dg.RunRequest)
    assert first.run_key == again.run_key == "nightly/2026-11-26T22:30Z"
    config = first.run_config["ops"]["plan_bounce"]["config"]
    assert (config["unit"], config["at_once"], config["skip"]) == ("hosts", 2, ["host-1"])
    assert (config["requested_by"], config["timezone"]) == ("schedule", "Europe/Berlin")
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


def launched(instance: dg.DagsterInstance, at: datetime, dates: str) -> dg.RunRequest:
    """What a tick at `at`, allowed then, launches; `dates` are in its blackout, by Berlin's time."""
    blackout = BlackoutWindow(dates=[dates], why="freeze")
    made = ScheduledBounce(
        name="nightly",
        cron="30 23 * * *",
        timezone="Europe/Berlin",
        settings={"canaries": 0},
        blackouts=[blackout],
    )
    (scheduled,) = bounce_schedules("demo/1", [made], now=lambda: at)
    asked = tick(scheduled, instance, at)
    assert isinstance(asked, dg.RunRequest)
    return asked


def begun(
    instance: dg.DagsterInstance,
    asked: dg.RunRequest,
    again: dg.ReexecutionOptions | None = None,
    tags: dict[str, str] | None = None,
) -> dg.ExecuteJobResult:
    """The run of a tick, when the queue lets it begin: now."""
    config = asked.run_config["ops"]["plan_bounce"]["config"]
    return bounce(instance, again, {**asked.tags, **(tags or {})}, **config)


ALWAYS = "2000-01-01..9999-12-30"
"""Whatever the present day."""
NEVER = "2000-01-01"


@pytest.mark.longdagster
def test_a_tick_s_run_that_the_queue_held_into_a_blackout_restarts_nobody(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allowed when it was launched, dark when it begins: it ends, says why, and hinders no tick."""
    world = BounceWorld()
    in_virtual_time(world, monkeypatch)
    before = datetime(1999, 11, 26, 22, 30, tzinfo=UTC)
    run = begun(instance, launched(instance, before, ALWAYS))
    assert world.requests == {}
    assert run.success
    tags = tags_of(instance, run)
    assert tags["samza/bounce"] == "skipped"
    assert "is in a blackout" in tags["samza/progress"]
    assert "freeze" in metadata(run, "plan_bounce")["what"]
    assert alone.hindrance(instance, "demo/1") == ""
    done = begun(instance, launched(instance, before, NEVER))
    assert tags_of(instance, done)["samza/bounce"] == "done"
    assert world.restarts() == dict.fromkeys(world.at, 1)


@pytest.mark.longdagster
def test_a_person_who_goes_on_with_a_skipped_bounce_begins_it(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blackout is for the clock; a bounce launched by hand isn't asked either."""
    world = BounceWorld()
    in_virtual_time(world, monkeypatch)
    asked = launched(instance, datetime(1999, 11, 26, 22, 30, tzinfo=UTC), ALWAYS)
    run = begun(instance, asked)
    again = begun(instance, asked, dg.ReexecutionOptions(parent_run_id=run.run_id))
    assert tags_of(instance, again)["samza/bounce"] == "done"
    assert world.restarts() == dict.fromkeys(world.at, 1)


@pytest.mark.longdagster
@pytest.mark.parametrize(("kill_at", "goes_on"), [(1, False), (40, True)])
def test_a_retry_in_a_blackout_goes_on_with_what_had_begun_alone(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, kill_at: int, goes_on: bool
) -> None:
    """Dagster retries a dead worker's run by itself: one that restarted nobody yet doesn't begin."""
    world = BounceWorld(calls=Calls(kill_at=kill_at))
    in_virtual_time(world, monkeypatch)
    asked = launched(instance, datetime(1999, 11, 26, 22, 30, tzinfo=UTC), ALWAYS)
    config = asked.run_config["ops"]["plan_bounce"]["config"]
    monkeypatch.setattr(bouncing, "present", lambda: datetime(1999, 11, 26, 22, 40, tzinfo=UTC))
    first = bounce(instance, **config)
    assert not first.success
    monkeypatch.undo()
    in_virtual_time(world, monkeypatch)
    again = dg.ReexecutionOptions(parent_run_id=first.run_id)
    retried = bounce(instance, again, {"dagster/retry_number": "1"}, **config)
    assert tags_of(instance, retried)["samza/bounce"] == ("done" if goes_on else "skipped")
    assert bool(world.requests) is goes_on


@pytest.mark.longdagster
def test_a_dry_run_of_a_bounce_in_a_blackout_says_so_and_plans(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes nothing, so it may begin at any time."""
    in_virtual_time(BounceWorld(), monkeypatch)
    asked = launched(instance, datetime(1999, 11, 26, 22, 30, tzinfo=UTC), ALWAYS)
    config = {**asked.run_config["ops"]["plan_bounce"]["config"], "dry_run": True}
    told = metadata(bounce(instance, **config), "plan_bounce")["what"]
    assert "rolling_bounce" in told
    assert "is in a blackout" in told


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
        ("start: 22:00", "start: 25:00", "a time of the day"),
        ("fri", "frog", "weekdays"),
        ("at_once: 2", "blackouts: []", "blackouts stand beside"),
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
    monkeypatch.setattr(alone.time, "time", lambda: later)
    assert isinstance(tick(schedule, instance, THURSDAY), dg.RunRequest)


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
    assert alone.hindrance(instance, "quiet/1") == ""
    assert run.run_id not in [one.run_id for one in bounce_runs.runs_of(instance)]
