"""Reserve, stop, move on our coordinator: what is held, committed and given back."""

from __future__ import annotations

import dagster as dg
import pytest
from placement_runs import Run, definitions_over, too_late
from run_results import asks, failure, output_metadata, was_cancelled

from samza_dagster.client import PlacementClient
from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import EXPIRED, HOLD_EXPIRED, SteppedJob

pytestmark = pytest.mark.dagster
MOVE = {"processor": "0", "destination": "host-2"}


def log_of(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    return " ".join(entry.user_message for entry in instance.all_logs(result.run_id))


def untouched(world: SteppedJob) -> bool:
    """Where it was, in the incarnation that it was."""
    return world.at["0"] == "host-1" and world.starts == {}


def test_reserve_holds_stop_commits_and_move_waits(world: SteppedJob, run: Run) -> None:
    """Each op is a phase: its part is in its metadata, and its end is its stage."""
    result = run("move_container", **MOVE)
    assert result.success
    assert list(world.kinds.values()) == ["hold"]
    assert world.at["0"] == "host-2"
    stages = [output_metadata(result, op)["stage"] for op in ("reserve", "stop", "move")]
    assert stages == ["HELD", "STOPPING", "ENDED"]
    assert asks(result, "reserve", "stop", "move") == ["asks", "asks", "observes"]


def test_the_ids_of_hold_and_commit_are_those_of_the_root_run(world: SteppedJob, run: Run) -> None:
    """Whoever knows the run knows what it asked."""
    result = run("move_container", **MOVE)
    hold, commit = (request_uuid(result.run_id, step, 0) for step in ("move", "commit"))
    assert world.committed == {hold: commit}
    assert world.released == {}
    assert world.requests[hold].request_expiry == 120_000


def test_stop_ends_when_the_container_is_seen_dead(world: SteppedJob, run: Run) -> None:
    """Our coordinator tells it: the action leaves its stopping stage."""
    world.dying_for = 1
    assert run("move_container", **MOVE).success
    assert world.dying_for == 0


def test_a_word_that_reserves_nothing_is_asked_by_one_op(world: SteppedJob, run: Run) -> None:
    """FORCE_RESTART_LAST_SEEN stops first: there is nothing to hold."""
    config = {"processor": "0", "destination": "FORCE_RESTART_LAST_SEEN"}
    result = run("move_container", **config)
    assert list(world.kinds.values()) == ["place"]
    assert asks(result, "reserve", "stop", "move") == ["asks", "observes", "observes"]


@pytest.mark.parametrize("where", ["wait", "held"])
def test_a_run_cancelled_while_it_reserves_gives_back_and_touches_nothing(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run, where: str
) -> None:
    """Before the hold and with it: released by an id of its own, the log says so."""
    world.breaks = {where: dg.DagsterExecutionInterruptedError()}
    result = run("move_container", **MOVE)
    assert not result.success
    assert untouched(world)
    hold, release = (request_uuid(result.run_id, step, 0) for step in ("move", "release"))
    assert world.released == {hold: release}
    assert world.committed == {}
    assert texts.RELEASED in log_of(instance, result)


def test_a_run_cancelled_before_its_commit_gives_back_and_touches_nothing(
    world: SteppedJob, run: Run
) -> None:
    """Op stop had begun; the commit wasn't written."""
    world.breaks = {"commit": dg.DagsterExecutionInterruptedError()}
    result = run("move_container", **MOVE)
    assert not result.success
    assert untouched(world)
    assert len(world.released) == 1


@pytest.mark.parametrize("where", ["wait", "held", "commit", texts.STOP_IN_PROGRESS])
def test_a_run_cancelled_while_kafka_is_away_is_cancelled(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run, where: str
) -> None:
    """At each phase: what can't be given back, or can't any more, is said, and takes nothing's place."""
    world.breaks = {where: dg.DagsterExecutionInterruptedError()}
    world.away_at = where
    result = run("move_container", **MOVE)
    phase = {"wait": "reserve", "held": "reserve", "commit": "stop"}.get(where, "move")
    assert was_cancelled(result, phase)
    told = "the coordinator goes on with it" if phase == "move" else "no broker answers"
    assert told in log_of(instance, result)


def test_a_move_that_fails_while_kafka_is_away_still_tells_the_coordinator_s_words(
    world: SteppedJob, run: Run
) -> None:
    """The map as it is now is the only thing that isn't known."""
    world.ends, world.away_at = [EXPIRED], EXPIRED[1]
    text, metadata = failure(run("move_container", **MOVE), "reserve")
    assert EXPIRED[1] in text
    assert "no broker answers" in metadata["hosts_and_containers_now"]


def test_a_run_that_ends_between_reserve_and_stop_gives_back(
    world: SteppedJob, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    """The resource's end does it, whatever kept op stop from running."""
    job = definitions_over(request.node.name).get_job_def("move_container")
    result = job.execute_in_process(
        run_config={"ops": {"plan_move_container": {"config": MOVE}}},
        instance=instance,
        op_selection=["plan_move_container", "reserve"],
    )
    assert result.success
    assert untouched(world)
    assert len(world.released) == 1
    assert "the run ended before its commit" in log_of(instance, result)
    assert world.closed == 1


def test_a_run_cancelled_after_its_commit_says_that_the_action_goes_on(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """What is being stopped can't be taken back: nothing is released."""
    world.breaks = {texts.STOP_IN_PROGRESS: dg.DagsterExecutionInterruptedError()}
    result = run("move_container", **MOVE)
    assert not result.success
    assert world.released == {}
    assert "the coordinator goes on with it" in log_of(instance, result)


def test_a_reservation_that_takes_too_long_is_given_back(world: SteppedJob, run: Run) -> None:
    """The run's own time limit, before the coordinator's."""
    world.breaks = {"wait": too_late()}
    result = run("move_container", **MOVE)
    assert "so it runs on untouched; reservation" in failure(result, "reserve")[0]
    assert len(world.released) == 1
    assert untouched(world)


def test_a_coordinator_that_cannot_be_reached_fails_the_commit_and_gives_back(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the commit was written isn't known: whichever came first counts."""

    def unreachable(*_given: object, **_named: object) -> None:
        raise Unreachable("write the commit", seen="no answer")

    monkeypatch.setattr(PlacementClient, "commit", unreachable)
    result = run("move_container", timeout_s=1, **MOVE)
    assert failure(result, "stop")[1]["error"] == "Unreachable"
    assert len(world.released) == 1


def test_a_coordinator_that_is_away_for_a_moment_fails_no_commit(
    world: SteppedJob, run: Run
) -> None:
    """It is written again, under the same uuid."""
    world.breaks = {"commit": Unreachable("write the commit", seen="no answer")}
    assert run("move_container", **MOVE).success
    assert len(world.committed) == 1
    assert world.released == {}


def test_a_destination_without_room_fails_op_reserve(world: SteppedJob, run: Run) -> None:
    """Nothing is stopped, and nothing is left to give back."""
    world.ends = [EXPIRED]
    result = run("move_container", **MOVE)
    assert failure(result, "reserve")[0] == f"reserve: FAILED: {EXPIRED[1]}"
    assert untouched(world)
    assert world.released == {}


def test_a_hold_that_expired_is_explained(world: SteppedJob, run: Run) -> None:
    """Its commit came too late: with what makes it right; the container is where it was."""
    world.ends = [HOLD_EXPIRED]
    result = run("move_container", **MOVE)
    text, metadata = failure(result, "stop")
    assert "was not committed in time; the container runs on untouched" in text
    assert "re-execute this run from failure: it reserves anew" in metadata["fix"]
    assert untouched(world)
