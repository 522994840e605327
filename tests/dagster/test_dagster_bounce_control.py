"""A bounce steered while it runs: from the UI's job, by the sensor, on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner
from fake_bounce import bounce, control, in_virtual_time, metadata, tags_of

from samza_dagster.cli.main import cli
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.orchestration.bounce import runs as bounce_runs
from samza_dagster.orchestration.bounce.config import BounceAction
from samza_dagster.orchestration.bounce.steering import bounce_resume_sensor
from samza_dagster.orchestration.instance import write_instance
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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A DAGSTER_HOME."""
    write_instance(tmp_path)
    return tmp_path


@pytest.fixture
def on_disk(home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on SQLite, which the command line opens beside the run."""
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def when_first_is_back(world: BounceWorld, instance: dg.DagsterInstance, action: str) -> None:
    """Has the action told by the UI's job once a container was restarted."""

    def tell(world: BounceWorld) -> None:
        if world.restarts():
            world.on_sleep = None
            assert control(instance, action).success

    world.on_sleep = tell


def resumed(instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """What a tick of the sensor launches."""
    context = dg.build_sensor_context(instance=instance)
    ticked = list(bounce_resume_sensor("demo/1")(context) or [])  # pyright: ignore[reportArgumentType, reportCallIssue]
    return [asked for asked in ticked if isinstance(asked, dg.RunRequest)]


def command(home: Path, *arguments: str, code: int = 0) -> Any:
    """The JSON of `samza-dagster bounce …`."""
    given = ["bounce", *arguments, "--json", "--dagster-home", str(home)]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_a_pause_ends_the_run_as_a_success_and_the_sensor_goes_on_with_it(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """A paused bounce holds no slot; resumed it restarts nobody twice."""
    when_first_is_back(world, instance, "pause")
    first = bounce(instance, requested_by="jo")
    assert first.success
    assert tags_of(instance, first)["samza/bounce"] == "paused"
    told = metadata(first, "summarize_bounce")
    assert (told["bounced"], told["left"], told["end"]) == (1, 3, "paused")
    assert "not bounced: 1-0, 0, 1" in told["what"]
    assert resumed(instance) == []
    assert control(instance, "resume").success
    (asked,), (again,) = resumed(instance), resumed(instance)
    assert asked.run_key == again.run_key == f"resume/{first.run_id}"
    assert asked.run_config == first.dagster_run.run_config
    second = bounce(instance, tags=dict(asked.tags), requested_by="jo")
    assert second.success
    assert tags_of(instance, second)["samza/bounce-root"] == first.run_id
    assert tags_of(instance, second)["samza/bounce"] == "done"
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert len(world.requests) == 4
    assert resumed(instance) == []
    with pytest.raises(Refused, match=f"run {second.run_id} went on with it"):
        bounce_runs.steer(instance, BounceAction.resume, first.run_id)
    with pytest.raises(InvalidInput, match="none is paused"):
        bounce_runs.steer(instance, BounceAction.resume)


def test_a_re_execution_resumes_as_well_and_copied_tags_are_no_orders(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """The UI copies the tags of the run that it re-executes, `pause` among them."""
    when_first_is_back(world, instance, "pause")
    first = bounce(instance)
    copied = {bounce_runs.CONTROL: "pause", bounce_runs.BOUNCE: "paused"}
    instance.add_run_tags(first.run_id, copied)
    second = bounce(instance, dg.ReexecutionOptions(parent_run_id=first.run_id), tags=copied)
    assert second.success
    assert tags_of(instance, second)["samza/bounce"] == "done"
    assert len(world.requests) == 4


def test_a_retry_that_dagster_made_still_hears_the_order(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Its parent's worker died before it could."""
    world.kill_at = 40
    first = bounce(instance)
    order = {bounce_runs.CONTROL: "pause"}
    instance.add_run_tags(first.run_id, order)
    again = dg.ReexecutionOptions.from_failure(first.run_id, instance)
    retried = bounce(instance, again, tags={**order, "dagster/retry_number": "1"})
    assert retried.success
    assert tags_of(instance, retried)["samza/bounce"] == "paused"


def test_an_abort_fails_the_run_and_tells_who_was_bounced(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """It can be resumed all the same."""
    when_first_is_back(world, instance, "abort")
    first = bounce(instance)
    assert not first.success
    told = metadata(first, "bounce")
    assert told["end"] == "aborted"
    rows = {r.data["processor"]: r.data["outcome"] for r in told["processors_table"].records}
    assert rows["1"] == "waiting"
    assert tags_of(instance, first)["samza/bounce"] == "aborted"
    bounce_runs.steer(instance, BounceAction.resume, first.run_id)
    (asked,) = resumed(instance)
    assert bounce(instance, tags=dict(asked.tags)).success
    assert world.restarts() == dict.fromkeys(world.at, 1)


def test_an_action_that_does_not_fit_is_refused(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Nothing runs; what is done can't be resumed."""
    with pytest.raises(InvalidInput, match="none runs"):
        bounce_runs.steer(instance, BounceAction.pause)
    with pytest.raises(InvalidInput, match="none is paused"):
        bounce_runs.steer(instance, BounceAction.resume)
    done = bounce(instance, only=["0"])
    with pytest.raises(Refused, match="it is success"):
        bounce_runs.steer(instance, BounceAction.resume, done.run_id)
    with pytest.raises(InvalidInput, match="begins with 'ffff'"):
        bounce_runs.steer(instance, BounceAction.abort, "ffff")
    assert not control(instance, "pause").success


def test_the_command_line_pauses_shows_resumes_and_aborts(
    world: BounceWorld, on_disk: dg.DagsterInstance, home: Path
) -> None:
    """Through the instance alone: no web server is asked."""

    def pause(world: BounceWorld) -> None:
        if world.restarts():
            world.on_sleep = None
            told = command(home, "pause", "--job-name", "demo")
            assert told["action"] == "pause"
            assert told["bounce"]["status"] == "started"

    world.on_sleep = pause
    run = bounce(on_disk, requested_by="jo", reason="image")
    (shown,) = command(home, "status")["bounces"]
    assert shown["run_id"] == run.run_id
    assert (shown["state"], shown["who"], shown["why"]) == ("paused", "jo", "image")
    assert shown["progress"].startswith("1/4")
    one = command(home, "status", run.run_id[:6])
    assert [(p["processor"], p["stand"]) for p in one["processors"]] == [("0-0", "back")]
    told = command(home, "resume")
    assert told["bounce"]["told"] == "resume"
    assert len(resumed(on_disk)) == 1
    assert "given up" in command(home, "abort", run.run_id[:6])["what_happens_now"]
    assert resumed(on_disk) == []
    assert command(home, "pause", code=2)["asked"] == "a bounce to pause"
    assert command(home, "status", "--job-name", "other") == {"bounces": []}

    given = ["bounce", "status", run.run_id, "--dagster-home", str(home)]
    lines = CliRunner().invoke(cli, given).stdout.splitlines()
    assert any(line.split()[:2] == ["0-0", "back"] for line in lines)


def test_the_command_line_says_that_it_needs_an_instance() -> None:
    """And which."""
    result = CliRunner().invoke(cli, ["bounce", "status"], env={"DAGSTER_HOME": ""})
    assert result.exit_code == 2
    assert "DAGSTER_HOME" in result.stderr
