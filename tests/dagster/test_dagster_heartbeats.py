"""Each wait of an op says every half minute what it sees: here half a minute is over at once."""

from __future__ import annotations

import dagster as dg
import pytest
from placement_runs import Run
from test_dagster_holds import log_of

from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
MOVE = {"processor": "0", "destination": "host-2"}


@pytest.fixture(autouse=True)
def _half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "EVERY_MS", 0)


@pytest.mark.longdagster
def test_a_move_tells_status_restore_and_time_left(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """While it reserves, stops, starts, and until it processes: an active that restores tells no lag."""
    world.status_s, world.dying_for, world.processes = 10, 3, False
    world.lag_now = {"0": [None]}
    result = run("move_container", verify_timeout_s=1, **MOVE)
    assert not result.success
    log, uuid = log_of(instance, result), request_uuid(result.run_id, "move", 0)
    at = "0 is running on host-1, lag unknown"
    for line in (
        f"reserve: waiting: request {uuid} is IN_PROGRESS: {texts.RESOURCES_REQUESTED};"
        f" its action is at reserving, {at}; ",
        f"stop: waiting: request {uuid} is IN_PROGRESS: {texts.STOP_IN_PROGRESS};"
        f" its action is at stopping, {at}; ",
        "waiting: no input offset grew in a commit since its start; 0 is running on host-2,"
        " lag unknown; 1 s left",
    ):
        assert line in log
    assert "; 600 s left" in log


def test_a_standby_that_leaves_is_told_of(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """The extra standby of a move that gives its place to the active."""
    world.status_s = 10
    world.lag_now = {"0-1": [42]}
    config = {"processor": "0", "destination": "host-4", "steady_s": 0}
    result = run("move_via_new_standby", **config)
    assert result.success
    log = log_of(instance, result)
    assert "give_place: waiting: request" in log
    assert "0-1 is running on host-4, 42 records behind" in log


@pytest.mark.longdagster
def test_the_units_of_a_drain_are_told_of(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """Its request, and that its container doesn't process yet."""
    world.status_s, world.processes = 10, False
    world.lag_now = {"0": [0], "0-0": [5]}
    config = {"host": "host-1", "steady_s": 0, "verify_timeout_s": 1}
    result = run("drain_host", **config)
    assert not result.success
    log = log_of(instance, result)
    assert ": move: its place is held" in log
    assert ": processes: no input offset grew in a commit since its start, given up at" in log
