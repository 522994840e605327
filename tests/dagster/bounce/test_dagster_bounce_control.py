"""A bounce steered while it runs: from the UI's job and by the sensor."""

from __future__ import annotations

import dagster as dg
import pytest
from bounce_runs import bounce, control, definitions, metadata, tags_of

from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.orchestration.bounce import alone
from samza_dagster.orchestration.bounce.loop import Bounce
from samza_dagster.orchestration.bounce.row import Result
from samza_dagster.orchestration.bounce.steering import bounce_resume_sensor
from samza_dagster.orchestration.jobs import steered_jobs
from samza_dagster.orchestration.operations import control as bounce_runs
from samza_dagster.orchestration.operations.control import BounceAction
from samza_dagster.orchestration.operations.steered import By, noted, steerings
from samza_dagster.orchestration.tags import STEERED
from tests.rig.bounce_world import BounceWorld

pytestmark = pytest.mark.dagster


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
    world.calls.kill_at = 40
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
    world.calls.breaks = {world.calls.count + 1: Unreachable("read the job", seen="no answer")}
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
