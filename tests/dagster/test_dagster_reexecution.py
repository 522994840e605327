"""A run that failed or was killed goes on where it stood, by ids derived from its root run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from placement_runs import execute_job

from samza_dagster.client.views import CoordinatorKind
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import BAD_REQUEST, HOLD_EXPIRED, NOT_STARTED, SUCCEEDED, SteppedJob
from tests.rig.worker import Killed

pytestmark = pytest.mark.dagster


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """A re-execution reads what the first run left: events in memory, outputs on disk."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


CONFIG = {"ops": {"plan_move_with_standby": {"config": {"processor": "0"}}}}
CONTAINER = {
    "ops": {"plan_move_container": {"config": {"processor": "0", "destination": "host-2"}}}
}
DONE = (SUCCEEDED, "started")


def execute(
    instance: dg.DagsterInstance,
    again: dg.ReexecutionOptions | None = None,
    job: str = "move_with_standby",
    config: dict[str, Any] | None = None,
) -> tuple[bool, str]:
    with execute_job(
        job,
        instance=instance,
        run_config=config or CONFIG,
        reexecution_options=again,
        raise_on_error=False,
    ) as result:
        return result.success, result.run_id


def from_failure(
    instance: dg.DagsterInstance,
    first: str,
    job: str = "move_with_standby",
    config: dict[str, Any] | None = None,
) -> bool:
    again = dg.ReexecutionOptions.from_failure(first, instance)
    return execute(instance, again, job, config)[0]


def test_after_a_failure_only_the_failed_step_is_asked_again(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The standby has moved: from failure, the active alone is asked for, as a new attempt."""
    world.coordinator = "samza"
    world.ends = [DONE, NOT_STARTED]
    done, first = execute(instance)
    assert not done
    assert from_failure(instance, first)
    assert world.asked == [("0-0", "host-2"), ("0", "host-3"), ("0", "host-3")]


def test_after_a_failed_start_the_active_still_means_the_host_that_its_standby_left(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """STANDBY would now be the standby's new host: the former one is asked for, and held."""
    world.ends = [NOT_STARTED]
    done, first = execute(instance)
    assert not done
    assert from_failure(instance, first)
    assert world.asked == [("0", "STANDBY"), ("0", "host-3")]
    assert list(world.kinds.values()) == ["place", "hold"]
    assert world.at["0"] == "host-3"


@pytest.mark.parametrize("coordinator", ["samza", "samza_dagster"])
def test_a_whole_re_execution_keeps_the_plan_and_asks_nothing_twice(
    world: SteppedJob, instance: dg.DagsterInstance, coordinator: CoordinatorKind
) -> None:
    """The standby's former host is still meant, though the standby has left it."""
    world.coordinator = coordinator
    done, first = execute(instance)
    assert done
    asked = list(world.asked)
    again = dg.ReexecutionOptions(parent_run_id=first)
    assert execute(instance, again)[0]
    assert world.asked == asked


def test_a_run_killed_while_it_waits_finds_its_request_again(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The request was written and not answered: it is followed, not written again."""
    world.coordinator = "samza"
    world.breaks = {"wait": Killed()}
    done, first = execute(instance)
    assert not done
    world.at["2"] = "host-2"  # another host would be chosen now
    assert from_failure(instance, first)
    assert world.asked == [("0-0", "host-2"), ("0", "host-3")]


@pytest.mark.parametrize("where", ["wait", "held", "commit", texts.STOP_IN_PROGRESS])
def test_a_run_killed_at_any_op_is_gone_on_with(
    world: SteppedJob, instance: dg.DagsterInstance, where: str
) -> None:
    """One hold, one commit, one start: before the hold, with it, before the commit, after it."""
    world.breaks = {where: Killed()}
    done, first = execute(instance, job="move_container", config=CONTAINER)
    assert not done
    assert world.released == {}
    assert from_failure(instance, first, "move_container", CONTAINER)
    assert len(world.requests) == len(world.committed) == 1
    assert world.starts == {"0": 1}
    assert world.at["0"] == "host-2"


def test_a_hold_that_was_let_go_is_reserved_anew(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The worker died before its commit and the hold expired: a second attempt, a second commit."""
    world.breaks = {"commit": Killed()}
    done, first = execute(instance, job="move_container", config=CONTAINER)
    assert not done
    (hold,) = world.requests
    world.answer(hold, *HOLD_EXPIRED)
    assert from_failure(instance, first, "move_container", CONTAINER)
    second = request_uuid(first, "move", 1)
    assert list(world.requests) == [hold, second]
    assert world.committed == {second: request_uuid(first, "commit", 1)}
    assert world.starts == {"0": 1}


def test_a_cancelled_run_re_executed_reserves_anew(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What it gave back is given back: the next attempt holds for itself."""
    world.breaks = {"held": RuntimeError("a fault between hold and commit")}
    done, first = execute(instance, job="move_container", config=CONTAINER)
    assert not done
    assert len(world.released) == 1
    assert from_failure(instance, first, "move_container", CONTAINER)
    assert len(world.requests) == 2
    assert world.starts == {"0": 1}


@pytest.mark.longdagster
def test_each_failure_that_was_read_is_one_more_attempt(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Re-execution of a re-execution still counts from the first run."""
    world.coordinator = "samza"
    world.ends = [DONE, NOT_STARTED, NOT_STARTED]
    _, first = execute(instance)
    _, second = execute(instance, dg.ReexecutionOptions.from_failure(first, instance))
    assert from_failure(instance, second)
    assert [p for p, _ in world.asked] == ["0-0", "0", "0", "0"]
    assert len(world.requests) == 4


@pytest.mark.longdagster
@pytest.mark.parametrize("where", ["held", texts.STOP_IN_PROGRESS])
def test_a_chain_older_than_its_answers_is_refused(
    world: SteppedJob, instance: dg.DagsterInstance, where: str
) -> None:
    """The move has ended well, or its hold was given up; the leader has cleaned up either answer."""
    world.breaks = {where: Killed()}
    done, first = execute(instance, job="move_container", config=CONTAINER)
    assert not done
    (uuid,) = world.requests
    if where == "held":
        world.answer(uuid, *HOLD_EXPIRED)
    while not world.answers[uuid][-1].status_code.is_terminal:
        world.go_on(uuid)
    world.clean_up()
    assert not from_failure(instance, first, "move_container", CONTAINER)
    assert len(world.requests) == 1


@pytest.mark.parametrize(
    ("coordinator", "gone"), [("samza", "0-0"), ("samza", "0"), ("samza_dagster", "0")]
)
def test_a_processor_that_has_left_the_job_since_is_refused_with_what_to_do(
    world: SteppedJob, instance: dg.DagsterInstance, coordinator: CoordinatorKind, gone: str
) -> None:
    """The plan is the chain's; the job has changed under it. Nothing is asked for who is gone."""
    world.coordinator = coordinator
    config = {"processor": "0", "destination": "host-3", "standby": "0-0"}
    said = {"ops": {"plan_move_with_standby": {"config": config}}}
    world.ends = [(BAD_REQUEST, "not now")]
    done, first = execute(instance, config=said)
    assert not done
    asked, world.at = len(world.asked), {p: h for p, h in world.at.items() if p != gone}
    again = dg.ReexecutionOptions.from_failure(first, instance)
    with execute_job(
        "move_with_standby",
        instance=instance,
        run_config=said,
        reexecution_options=again,
        raise_on_error=False,
    ) as result:
        (failed,) = [e.step_failure_data for e in result.all_events if e.is_step_failure]
    assert failed.user_failure_data is not None, failed.error
    told = {k: v.value for k, v in failed.user_failure_data.metadata.items()}
    assert repr(gone) in str(told["asked"])
    assert str(told["seen"]) == f"processors {', '.join(sorted(world.at))}"
    assert "launch a new run" in str(told["fix"])
    assert gone not in [processor for processor, _ in world.asked[asked:]]
