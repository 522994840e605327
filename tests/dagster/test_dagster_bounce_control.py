"""A bounce steered while it runs: from the UI's job, by the sensor, on the command line."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner
from fake_bounce import bounce, control, definitions, in_virtual_time, metadata, tags_of

from samza_dagster.cli.main import cli
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.orchestration.bounce import alone
from samza_dagster.orchestration.bounce.job import rolling_bounce_job
from samza_dagster.orchestration.bounce.loop import Bounce
from samza_dagster.orchestration.bounce.row import Result
from samza_dagster.orchestration.bounce.steering import bounce_resume_sensor
from samza_dagster.orchestration.deploy.instance import POSTGRES_URL, write_instance
from samza_dagster.orchestration.jobs import steered_jobs
from samza_dagster.orchestration.operations import control as bounce_runs
from samza_dagster.orchestration.operations.control import BounceAction
from samza_dagster.orchestration.operations.steered import By, noted, steerings
from samza_dagster.orchestration.tags import STEERED
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
def home(dagster_home: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A DAGSTER_HOME."""
    return dagster_home(tmp_path)


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
    ticked = bounce_resume_sensor("demo/1", steered_jobs("demo/1"))(context)
    return list(ticked.run_requests or []) if isinstance(ticked, dg.SensorResult) else []


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


@pytest.mark.longdagster
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


@pytest.mark.longdagster
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


def cancelled(instance: dg.DagsterInstance, tags: dict[str, str]) -> str:
    """A bounce that was taken out of the queue; its run's id."""
    job = definitions().get_job_def("rolling_bounce")
    config = {"ops": {"plan_bounce": {"config": {"canaries": 0}}}}
    return instance.create_run_for_job(
        job, run_config=config, tags={**job.tags, **tags}, status=dg.DagsterRunStatus.CANCELED
    ).run_id


@pytest.mark.longdagster
def test_a_run_that_never_began_is_resumed_and_keeps_no_other_from_it(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Cancelled in the queue, say: it has no tag of its chain yet."""
    idle = cancelled(instance, {})
    when_first_is_back(world, instance, "pause")
    paused = bounce(instance)
    for run_id in (idle, paused.run_id):
        bounce_runs.steer(instance, BounceAction.resume, run_id)
    asked = {request.run_key: request for request in resumed(instance)}
    assert set(asked) == {f"resume/{idle}", f"resume/{paused.run_id}"}
    assert bounce(instance, tags=dict(asked[f"resume/{idle}"].tags)).success
    assert [request.run_key for request in resumed(instance)] == [f"resume/{paused.run_id}"]


@pytest.mark.longdagster
def test_a_newer_bounce_that_did_nothing_does_not_end_a_pause(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Refused in the plan, or cancelled in the queue: the clock still keeps away."""
    when_first_is_back(world, instance, "pause")
    first = bounce(instance)
    refused = bounce(instance, skip=["7"])
    assert not refused.success
    cancelled(instance, {})
    assert f"bounce {first.run_id} is paused (1/4" in alone.hindrance(instance, "demo/1")
    bounce_runs.steer(instance, BounceAction.abort)
    assert alone.hindrance(instance, "demo/1") == ""


@pytest.mark.longdagster
def test_a_resumption_that_fails_before_it_bounces_leaves_the_bounce_paused(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Cancelled in the queue, or Kafka is away: the clock keeps away, and resume finds it again."""
    when_first_is_back(world, instance, "pause")
    bounce(instance)
    bounce_runs.steer(instance, BounceAction.resume)
    (asked,) = resumed(instance)
    second = cancelled(instance, dict(asked.tags))
    assert f"bounce {second} is paused (1/4" in alone.hindrance(instance, "demo/1")
    assert bounce_runs.steer(instance, BounceAction.resume)[0].run_id == second
    (asked,) = resumed(instance)
    world.breaks = {world.calls + 1: Unreachable("read the job", seen="no answer")}
    third = bounce(instance, tags=dict(asked.tags))
    assert metadata(third, "plan_bounce")["error"] == "Unreachable"
    assert f"bounce {third.run_id} is paused (1/4" in alone.hindrance(instance, "demo/1")
    assert bounce_runs.steer(instance, BounceAction.resume)[0].run_id == third.run_id
    (asked,) = resumed(instance)
    last = bounce(instance, tags=dict(asked.tags))
    assert tags_of(instance, last)["samza/bounce"] == "done"
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert alone.hindrance(instance, "demo/1") == ""


@pytest.mark.longdagster
def test_an_abort_between_the_pause_and_the_run_s_end_gives_the_bounce_up(
    world: BounceWorld, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left in the run who would hear it; it was promised, and the clock goes on."""
    when_first_is_back(world, instance, "pause")
    run = Bounce.run

    def then_abort(self: Bounce) -> Result:
        ended = run(self)
        bounce_runs.steer(instance, BounceAction.abort)
        return ended

    monkeypatch.setattr(Bounce, "run", then_abort)
    first = bounce(instance)
    assert bounce_runs.state_of(bounce_runs.find(instance, first.run_id)) == "aborted"
    assert alone.hindrance(instance, "demo/1") == ""


def test_who_steers_and_why_is_told_of_the_bounce_and_whoever_resumes_it_asks_for_the_rest(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """On the steering run, on the bounce, in its summary; the run that goes on has its own person."""

    def pause(world: BounceWorld) -> None:
        if world.restarts():
            world.on_sleep = None
            said = {"requested_by": "kim", "reason": "brokers are slow", "ticket": "OPS-7"}
            steering = control(instance, "pause", **said)
            tags = tags_of(instance, steering)
            assert [tags[f"samza/{name}"] for name in ("who", "why", "ticket")] == [*said.values()]

    world.on_sleep = pause
    first = bounce(instance, requested_by="jo", reason="image", ticket="REL-1")
    told = metadata(first, "summarize_bounce")["what"]
    assert "- told: pause at " in told
    assert " by kim: brokers are slow (OPS-7)" in told
    assert tags_of(instance, first)["samza/who"] == "jo"
    assert control(instance, "resume", requested_by="lee", ticket="OPS-8").success
    (asked,) = resumed(instance)
    assert asked.run_config["ops"]["plan_bounce"]["config"] == {
        **first.dagster_run.run_config["ops"]["plan_bounce"]["config"],
        "requested_by": "lee",
        "reason": "image",
        "ticket": "OPS-8",
    }
    config = asked.run_config["ops"]["plan_bounce"]["config"]
    second = bounce(instance, tags=dict(asked.tags), **config)
    tags = tags_of(instance, second)
    names = ("who", "why", "ticket")
    assert [tags[f"samza/{name}"] for name in names] == ["lee", "image", "OPS-8"]
    told = metadata(second, "summarize_bounce")["what"]
    assert [line.split(" at ")[0] for line in told.splitlines() if "told" in line] == [
        "- told: pause",
        "- told: resume",
    ]
    assert world.restarts() == dict.fromkeys(world.at, 1)


@pytest.mark.parametrize("sign", ["x", "\N{GRINNING FACE}"])
def test_many_orders_have_room_in_a_tag(sign: str) -> None:
    """The newest are kept; a row of PostgreSQL's index over tags has 2,704 bytes."""
    tags: dict[str, str] = {}
    for n in range(40):
        tags = noted(tags, "pause", By(f"{n}", sign * 500, sign * 128), n)
        assert len(tags[STEERED].encode()) < 2_600
    assert steerings(tags)[-1].who == "39"
    assert steerings({STEERED: "by hand"}) == []


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
            said = ["--reason", "slow", "--ticket", "OPS-7", "--requested-by", "kim"]
            told = command(home, "pause", "--job-name", "demo", *said)
            assert told["action"] == "pause"
            assert told["bounce"]["status"] == "started"

    world.on_sleep = pause
    run = bounce(on_disk, requested_by="jo", reason="image")
    (shown,) = command(home, "status")["bounces"]
    assert shown["run_id"] == run.run_id
    assert (shown["state"], shown["who"], shown["why"]) == ("paused", "jo", "image")
    assert shown["progress"].startswith("1/4")
    (order,) = shown["orders"]
    assert [order[name] for name in ("action", "who", "why", "ticket")] == [
        *("pause", "kim", "slow", "OPS-7"),
    ]
    one = command(home, "status", run.run_id[:6])
    stands = [(p["processor"], p["stand"]) for p in one["processors"]]
    assert stands == [("0-0", "back"), *((p, "not yet") for p in ("1-0", "0", "1"))]
    told = command(home, "resume")
    assert told["bounce"]["told"] == "resume"
    assert told["bounce"]["orders"][-1]["who"] == getpass.getuser()
    assert "at most" in command(home, "resume", "--reason", "x" * 501, code=2)["fix"]
    assert len(resumed(on_disk)) == 1
    assert "given up" in command(home, "abort", run.run_id[:6])["what_happens_now"]
    assert resumed(on_disk) == []
    assert command(home, "pause", code=2)["asked"] == "a bounce to pause"
    assert command(home, "status", "--job-name", "other") == {"bounces": []}

    given = ["bounce", "status", run.run_id, "--dagster-home", str(home)]
    lines = CliRunner().invoke(cli, given).stdout.splitlines()
    assert any(line.split()[:2] == ["0-0", "back"] for line in lines)
    assert any(line.split()[:4] == ["1", "not", "yet", "host-2"] for line in lines)


def begun(instance: dg.DagsterInstance, job: str, state: str, status: str = "STARTED") -> str:
    """The id of a bounce of a job that is under way, or was."""
    definition = rolling_bounce_job(job)
    run = instance.create_run_for_job(
        definition,
        status=dg.DagsterRunStatus[status],
        tags={**definition.tags, bounce_runs.BOUNCE: state},
    )
    instance.add_run_tags(run.run_id, {bounce_runs.ROOT: run.run_id})
    return run.run_id


@pytest.mark.longdagster
@pytest.mark.parametrize("action", ["pause", "abort"])
def test_without_a_job_an_action_that_fits_bounces_of_several_is_refused(
    on_disk: dg.DagsterInstance, home: Path, action: str
) -> None:
    """The newest would be some other team's; the refusal names the jobs and the options."""
    mine = begun(on_disk, "orders/1", "running")
    theirs = begun(on_disk, "east/billing/7", "running")
    refused = command(home, action, code=2)
    assert "east/billing/7, orders/1" in refused["seen"]
    assert "--job-name billing --job-id 7 --prefix east" in refused["fix"]
    assert command(home, action, "--job-name", "orders")["bounce"]["run_id"] == mine
    assert command(home, action, theirs[:8])["bounce"]["run_id"] == theirs


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("action", "state", "status"),
    [
        ("pause", "running", "STARTED"),
        ("abort", "running", "STARTED"),
        ("abort", "paused", "SUCCESS"),
        ("resume", "paused", "SUCCESS"),
    ],
)
def test_a_dry_run_names_the_bounce_and_tells_it_nothing(
    on_disk: dg.DagsterInstance, home: Path, action: str, state: str, status: str
) -> None:
    """From the UI's job and on the command line."""
    run_id = begun(on_disk, "demo/1", state, status)
    before = on_disk.get_run_by_id(run_id)
    result = control(on_disk, action, dry_run=True)
    assert result.success
    assert result.output_for_node("steer_bounce").startswith("dry run: ")
    told = command(home, action, "--dry-run")
    assert (told["bounce"]["run_id"], told["told"]) == (run_id, False)
    after = on_disk.get_run_by_id(run_id)
    assert before is not None
    assert after is not None
    assert after.tags == before.tags
    assert command(home, action)["told"] is True


def test_an_abort_without_a_job_doubts_between_one_that_runs_and_one_that_is_paused(
    on_disk: dg.DagsterInstance, home: Path
) -> None:
    """Of different jobs; of one job the one that runs is meant."""
    begun(on_disk, "orders/1", "paused", "SUCCESS")
    running = begun(on_disk, "orders/1", "running")
    assert command(home, "abort")["bounce"]["run_id"] == running
    begun(on_disk, "billing/1", "paused", "SUCCESS")
    assert "billing/1, orders/1" in command(home, "abort", code=2)["seen"]


def test_the_command_line_says_that_it_needs_an_instance() -> None:
    """And which."""
    result = CliRunner().invoke(cli, ["bounce", "status"], env={"DAGSTER_HOME": ""})
    assert result.exit_code == 2
    assert "DAGSTER_HOME" in result.stderr


def test_a_directory_that_is_no_instance_is_refused_and_nothing_is_made_in_it(
    tmp_path: Path,
) -> None:
    """Dagster would make a new instance of it, which has no bounces."""
    for home in (tmp_path, tmp_path / "none"):
        refused = command(home, "status", code=2)
        assert "DAGSTER_HOME" in refused["asked"] + refused["fix"]
        assert refused["seen"]
    assert f"samza-dagster instance {tmp_path}" in command(tmp_path, "abort", code=2)["fix"]
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "runs.db").write_text("no database")
    assert "no dagster.yaml" in command(tmp_path, "status", code=2)["seen"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["history", "runs.db"]


@pytest.mark.longdagster
def test_an_instance_with_dagster_s_defaults_needs_no_dagster_yaml(tmp_path: Path) -> None:
    """What it keeps of runs shows that it is one."""
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        assert made.get_runs_count() == 0
    assert command(tmp_path, "status") == {"bounces": []}


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"a: [", "while parsing"),
        (b"- 1\n", "to parse to dictionary"),
        (b"\xff\xfe\x80", "utf-8"),
    ],
)
def test_a_dagster_yaml_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, seen: str
) -> None:
    """As one JSON document, without a traceback."""
    (tmp_path / "dagster.yaml").write_bytes(content)
    refused = command(tmp_path, "status", code=2)
    assert seen in refused["seen"]
    assert str(tmp_path / "dagster.yaml") in refused["fix"]


def test_the_command_line_says_what_keeps_it_from_opening_the_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that isn't set; a database that doesn't answer, without its password."""
    write_instance(tmp_path, storage="postgres")
    monkeypatch.delenv(POSTGRES_URL, raising=False)
    unset = command(tmp_path, "status", code=2)
    assert (unset["error"], POSTGRES_URL in unset["seen"]) == ("InvalidInput", True)
    monkeypatch.setenv(POSTGRES_URL, "postgresql+psycopg2://me:s3cret@127.0.0.1:1/dagster")
    monkeypatch.setattr("dagster_postgres.utils.time.sleep", lambda _: None)
    down = command(tmp_path, "status", code=4)
    assert down["error"] == "Unreachable"
    assert "refused" in down["seen"]
    assert "s3cret" not in str(down)
