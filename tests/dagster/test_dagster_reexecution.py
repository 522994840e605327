"""A run that failed or was killed goes on where it stood, by ids derived from its root run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest
from fake_placement import World, fake_move_container, fake_move_with_standby

from samza_dagster.model import StatusCode

pytestmark = pytest.mark.dagster


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance on disk: a re-execution reads what the first run left."""
    with dg.instance_for_test() as made:
        yield made


CONFIG = {"ops": {"plan_move_with_standby": {"config": {"processor": "0"}}}}
MOVE = (StatusCode.FAILED, "failed to start container")
DONE = (StatusCode.SUCCEEDED, "started")


def execute(
    instance: dg.DagsterInstance,
    again: dg.ReexecutionOptions | None = None,
    job: Callable[[], dg.JobDefinition] = fake_move_with_standby,
    config: dict[str, Any] | None = None,
) -> tuple[bool, str]:
    with dg.execute_job(
        dg.reconstructable(job),
        instance=instance,
        run_config=config or CONFIG,
        reexecution_options=again,
        raise_on_error=False,
    ) as result:
        return result.success, result.run_id


def test_after_a_failure_only_the_failed_step_is_asked_again(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The standby has moved: from failure, the active alone is asked for, as a new attempt."""
    world.ends = [DONE, MOVE]
    done, first = execute(instance)
    assert not done
    again = dg.ReexecutionOptions.from_failure(first, instance)
    assert execute(instance, again)[0]
    assert world.asked == [("0-0", "host-2"), ("0", "host-3"), ("0", "host-3")]


def test_a_whole_re_execution_keeps_the_plan_and_asks_nothing_twice(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The standby's former host is still meant, though the standby has left it."""
    done, first = execute(instance)
    assert done
    again = dg.ReexecutionOptions(parent_run_id=first)
    assert execute(instance, again)[0]
    assert world.asked == [("0-0", "host-2"), ("0", "host-3")]


def test_a_run_killed_while_it_waits_finds_its_request_again(
    world: World, instance: dg.DagsterInstance
) -> None:
    """The request was written and not answered: it is followed, not written again."""
    world.breaks_once = RuntimeError("killed")
    done, first = execute(instance)
    assert not done
    world.hosts["host-2"] = world.hosts["host-2"].__class__("host-2", "alive", free_memory_mb=1)
    again = dg.ReexecutionOptions.from_failure(first, instance)
    assert execute(instance, again)[0]
    assert world.asked == [("0-0", "host-2"), ("0", "host-3")]


def test_each_failure_that_was_read_is_one_more_attempt(
    world: World, instance: dg.DagsterInstance
) -> None:
    """Re-execution of a re-execution still counts from the first run."""
    world.ends = [DONE, MOVE, MOVE]
    _, first = execute(instance)
    _, second = execute(instance, dg.ReexecutionOptions.from_failure(first, instance))
    done, _ = execute(instance, dg.ReexecutionOptions.from_failure(second, instance))
    assert done
    assert [p for p, _ in world.asked] == ["0-0", "0", "0", "0"]
    assert len(world.requests) == 4


def test_a_new_run_asks_anew(world: World, instance: dg.DagsterInstance) -> None:
    """Two runs of the same config are two actions."""
    config = {
        "ops": {"plan_move_container": {"config": {"processor": "0", "destination": "host-2"}}}
    }
    execute(instance, job=fake_move_container, config=config)
    execute(instance, job=fake_move_container, config=config)
    assert world.asked == [("0", "host-2"), ("0", "host-2")]
