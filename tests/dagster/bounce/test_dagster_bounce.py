"""The job `rolling_bounce` in Dagster: what a run shows, records and leaves for the next."""

from __future__ import annotations

import dagster as dg
import pytest
from bounce_runs import bounce, log_of, metadata, tags_of

from samza_dagster.client import PlacementClient
from samza_dagster.errors import Unreachable
from samza_dagster.model import StatusCode
from samza_dagster.orchestration.operations.runs import KEY, PROGRESS, recorded
from samza_dagster.placement import texts
from tests.rig.bounce_world import BEGIN_MS, BounceWorld

pytestmark = pytest.mark.dagster
NOT_STARTED = (StatusCode.FAILED, texts.start_failed("host-1", "host-1"))


def test_all_are_bounced_two_at_a_time(world: BounceWorld, instance: dg.DagsterInstance) -> None:
    """Standbys first; the run tells who, for how long, and where all are."""
    result = bounce(instance, at_once=2, requested_by="jo", reason="new image", ticket="C-1")
    assert result.success
    assert world.order() == ["0-0", "1-0", "0", "1"]
    assert world.restarts() == dict.fromkeys(world.at, 1)
    tags = tags_of(instance, result)
    assert tags["samza/bounce"] == "done"
    assert tags[PROGRESS] == "4/4"
    assert (tags["samza/who"], tags["samza/why"], tags["samza/ticket"]) == (
        "jo",
        "new image",
        "C-1",
    )
    told = metadata(result, "summarize_bounce")
    rows = [r.data for r in told["outcomes"].records]
    assert [r["container"] for r in rows] == ["0-0", "1-0", "0", "1"]
    assert {r["outcome"] for r in rows} == {"back"}
    assert all(r["down_seconds"] > 0 and r["seconds"] > r["down_seconds"] for r in rows)
    assert told["bounced"] == 4
    assert told["end"] == "done"


def test_each_container_is_an_event_of_bounce_history(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Its numbers are plotted over time; and a dry run tells what was measured last."""
    result = bounce(instance)
    records = instance.fetch_observations(KEY, limit=10).records
    first = records[-1].event_log_entry.asset_observation
    assert first is not None
    assert first.metadata["processor"].value == "0-0"
    assert first.metadata["down_seconds"].value == pytest.approx(3, abs=0.5)
    assert (first.metadata["done"].value, first.metadata["total"].value) == (1, 4)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert [row.processor for row in recorded(instance, [run])] == ["0-0", "1-0", "0", "1"]
    dry = bounce(instance, dry_run=True)
    text = metadata(dry, "plan_bounce")["what"]
    assert "s from its stop to its first commit, as in run" in text


def test_a_dry_run_tells_the_order_and_writes_nothing(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Whom it would ask for what, in which order; before the first bounce no time is known."""
    result = bounce(instance, dry_run=True, canaries=1, bake_s=30, at_once=2)
    assert result.success
    text = metadata(result, "plan_bounce")["what"]
    rows = [line for line in text.splitlines() if "| LAST_SEEN |" in line]
    assert [row.split(" | ")[3] for row in rows] == ["0-0", "1-0", "0", "1"]
    assert "not measured yet" in text
    assert "30 s of bake" in text
    assert world.requests == {}
    assert [e.step_key for e in result.all_events if e.is_step_success] == ["plan_bounce"]
    assert bounce(instance).success


def test_a_lag_that_nobody_tells_is_noticed_before_anything_is_asked(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """A standby without reports would never count as back."""
    world.mute = {"1-0"}
    result = bounce(instance, dry_run=True)
    assert "nobody tells the lag of 1-0" in metadata(result, "plan_bounce")["what"]


def test_a_checkpoint_topic_that_cant_be_read_is_told_before_anybody_is_restarted(
    world: BounceWorld, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an active works again is read from it; a bounce of standbys needs it not."""

    def unreadable(_client: PlacementClient) -> int:
        raise Unreachable("read topic c", seen="no right to read topic c", fix="ALLOW READ on c")

    monkeypatch.setattr(PlacementClient, "checkpoints_end", unreadable)
    data = bounce(instance).failure_data_for_node("plan_bounce")
    assert data is not None
    assert data.user_failure_data is not None
    assert "no right to read topic c" in str(data.user_failure_data.description)
    assert world.order() == []
    assert bounce(instance, only=["0-0"]).success
    assert world.order() == ["0-0"]


def test_the_budget_of_failures_ends_the_run_with_the_whole_table(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """It fails, tells who failed and who wasn't asked; re-executed by hand it tries all of them."""
    world.ends = {"1-0": [NOT_STARTED]}
    result = bounce(instance)
    assert not result.success
    told = metadata(result, "bounce")
    assert (told["bounced"], told["failed"], told["left"]) == (1, 1, 2)
    rows = {r.data["container"]: r.data for r in told["outcomes"].records}
    assert rows["1-0"]["outcome"] == "failed"
    assert "failed to start" in rows["1-0"]["why"]
    assert rows["0"]["outcome"] == "waiting"
    assert tags_of(instance, result)["samza/bounce"] == "stopped"
    again = dg.ReexecutionOptions.from_failure(result.run_id, instance)
    assert bounce(instance, again).success
    assert world.order() == ["0-0", "1-0", "1-0", "0", "1"]


@pytest.mark.longdagster
@pytest.mark.parametrize(("call", "nth"), [("place", 1), ("place", 3), ("response", 20)])
def test_under_samza_s_am_as_well(
    world: BounceWorld, instance: dg.DagsterInstance, call: str, nth: int
) -> None:
    """One request each, and no hold; the run tells what the AM can't."""
    world.coordinator = "samza"
    world.calls.kill_on, world.calls.kill_after = (call, nth), True
    result = bounce(instance, at_once=2)
    assert "Samza's wire has no hold" in metadata(result, "plan_bounce")["what"]
    again = dg.ReexecutionOptions.from_failure(result.run_id, instance)
    assert bounce(instance, again, at_once=2).success
    assert world.restarts() == dict.fromkeys(world.at, 1)
    assert len(world.requests) == 4


def test_under_samza_s_am_a_container_that_was_stopped_often_of_late_is_waited_for(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """The dry run tells it; the bounce goes on when its row is over."""
    world.coordinator = "samza"
    world.restarted_by_others("0-0", [BEGIN_MS - 10_000 * n for n in range(5, 1, -1)])
    text = metadata(bounce(instance, dry_run=True), "plan_bounce")["what"]
    assert "this would be stop 5 of 0-0 in a row; 4 count until 2023-11-14 22:19:00 UTC" in text
    assert bounce(instance).success
    assert world.order() == ["1-0", "0", "1", "0-0"]
    assert next(iter(world.requests.values())).asked_ms < BEGIN_MS + 10_000
    assert list(world.requests.values())[-1].asked_ms >= BEGIN_MS + 340_000


def test_under_samza_s_am_a_bounce_that_no_wait_makes_legal_is_refused(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """With a retry count of 0 or 1 the first stop may be the job's end."""
    world.coordinator = "samza"
    world.config = {"cluster-manager.container.retry.count": "1"}
    assert "stop 2 of a row ends the job" in metadata(bounce(instance), "plan_bounce")["asked"]
    assert world.requests == {}


@pytest.mark.longdagster
def test_a_whole_re_execution_of_a_finished_bounce_asks_nothing(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """A new run bounces all again."""
    first = bounce(instance)
    assert bounce(instance, dg.ReexecutionOptions(parent_run_id=first.run_id)).success
    assert len(world.requests) == 4
    world.now_ms += 1_000_000
    assert bounce(instance).success
    assert len(world.requests) == 8


def test_a_retry_that_dagster_made_keeps_the_budget_of_the_dead_run(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """What failed isn't asked again: only a person may want that."""
    world.ends = {"0-0": [NOT_STARTED]}
    world.calls.kill_on, world.calls.kill_after = ("reserve", 2), True
    first = bounce(instance, stop_after_failures=2)
    assert not first.success
    again = dg.ReexecutionOptions.from_failure(first.run_id, instance)
    retried = bounce(instance, again, tags={"dagster/retry_number": "1"})
    told = metadata(retried, "bounce")
    assert (told["bounced"], told["failed"], told["left"]) == (2, 1, 1)
    assert world.order() == ["0-0", "1-0", "1"]
    by_hand = dg.ReexecutionOptions.from_failure(retried.run_id, instance)
    assert bounce(instance, by_hand).success
    assert world.order() == ["0-0", "1-0", "1", "0-0", "0"]


def test_who_is_another_process_when_a_bounce_is_gone_on_with_is_verified_again_once(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """The run after that one goes by the process that was seen back last."""
    world.ends = {"1-0": [NOT_STARTED, NOT_STARTED]}
    runs = [bounce(instance)]
    world.started_ms["0-0"].append(world.now_ms)
    for _ in range(2):
        runs.append(bounce(instance, dg.ReexecutionOptions.from_failure(runs[-1].run_id, instance)))
    verified = ["0-0 was back, and now" in log_of(instance, run) for run in runs]
    assert verified == [False, True, False]
    assert world.order() == ["0-0", "1-0", "1-0", "1-0", "0", "1"]


def test_a_bounce_that_was_stopped_is_not_gone_on_with_by_dagster_itself(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """Retries of runs may be on in the instance: the job's tag keeps them to dead workers."""
    world.ends = {"0-0": [NOT_STARTED]}
    first = bounce(instance)
    assert tags_of(instance, first)["dagster/retry_on_asset_or_op_failure"] == "false"
    again = dg.ReexecutionOptions.from_failure(first.run_id, instance)
    retried = bounce(instance, again, tags={"dagster/retry_number": "1"})
    assert f"run {first.run_id} was stopped" in metadata(retried, "bounce")["seen"]
    assert world.order() == ["0-0"]


def test_a_run_that_is_cancelled_gives_back_what_it_only_holds(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """And its log says who was bounced, who is in flight, who wasn't."""
    world.crowded = {"1-0"}

    def cancel(world: BounceWorld) -> None:
        if any(r.stop_ms is not None for r in world.requests.values()):
            raise dg.DagsterExecutionInterruptedError

    world.on_sleep = cancel
    result = bounce(instance, at_once=2)
    assert not result.success
    assert world.released == ["1-0"]
    log = log_of(instance, result)
    assert "bounced: nobody" in log
    assert "not bounced: 1-0, 0, 1" in log
    assert "in flight: 0-0: request" in log
    world.on_sleep, world.crowded = None, set()
    again = dg.ReexecutionOptions.from_failure(result.run_id, instance)
    assert bounce(instance, again).success
    assert world.restarts() == dict.fromkeys(world.at, 1)


def test_a_bounce_terminated_while_the_broker_is_away_says_how_far_it_was(
    world: BounceWorld, instance: dg.DagsterInstance
) -> None:
    """What it holds can't be given back then; its hold ends by itself."""
    world.crowded = {"1-0"}

    def cancel(world: BounceWorld) -> None:
        if any(r.stop_ms is not None for r in world.requests.values()):
            away = Unreachable("the broker", seen="no answer")
            world.calls.breaks = dict.fromkeys(
                range(world.calls.count + 1, world.calls.count + 100), away
            )
            raise dg.DagsterExecutionInterruptedError

    world.on_sleep = cancel
    result = bounce(instance, at_once=2)
    assert tags_of(instance, result)["samza/bounce"] == "terminated"
    data = result.failure_data_for_node("bounce")
    assert data is not None
    assert data.error is not None
    assert data.error.cls_name == "DagsterExecutionInterruptedError"
    log = log_of(instance, result)
    assert "isn't released: the broker" in log
    assert "in flight: 0-0: request" in log


def test_a_bounce_that_stops_while_the_broker_is_away_still_says_how_far_it_was(
    world: BounceWorld, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the map as it is now is read, which fails then."""
    world.ends = {"0-0": [NOT_STARTED]}

    def away(_: object) -> None:
        raise Unreachable("the broker", seen="no answer")

    monkeypatch.setattr("samza_dagster.orchestration.bounce.host_map", away)
    result = bounce(instance)
    assert tags_of(instance, result)["samza/bounce"] == "stopped"
    log = log_of(instance, result)
    assert "not bounced: 1-0, 0, 1" in log
