"""Job `spin_up_standby`: one more standby, and when it counts as warm."""

from __future__ import annotations

from datetime import datetime

import dagster as dg
import pytest
from placement_runs import Run
from run_results import failure, output_metadata
from test_dagster_holds import log_of

from samza_dagster.orchestration.requests.step_request import request_uuid
from tests.rig.stepped_job import EXPIRED, SteppedJob

pytestmark = pytest.mark.dagster
ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}


def test_a_standby_is_started_and_waited_for(world: SteppedJob, run: Run) -> None:
    """One request of our own; the run ends when the lag of its stores is small."""
    world.lags = [{"0-1": [90, 7], "0-0": [5000]}]
    result = run("spin_up_standby", **ASK)
    assert result.success
    assert list(world.kinds.items()) == [
        (request_uuid(result.run_id, "spin_up", 0), "start-standby")
    ]
    assert result.output_for_node("wait_until_warm") == "0-1"
    shown = output_metadata(result, "wait_until_warm")
    assert (shown["host"], shown["lag_records"]) == ("host-4", 90)
    first = shown["lag_table"].records[0].data
    assert datetime.fromisoformat(str(first["at"])).year > 2000, "a time that a person reads"


def test_a_new_standby_is_waited_for_until_it_has_been_steady(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """Small at one look isn't enough. The log has a line of it, not one of each look."""
    world.lag_now = {"0-1": [90]}
    result = run("spin_up_standby", **{**ASK, "steady_s": 1})
    assert output_metadata(result, "wait_until_warm")["steady_seconds"] >= 1
    assert log_of(instance, result).count("wait_until_warm: 0-1 90 records behind") == 1


def test_a_host_that_a_rule_forbids_is_refused_before_anything_is_asked(
    world: SteppedJob, run: Run
) -> None:
    """Its active is there."""
    result = run("spin_up_standby", **{**ASK, "destination": "host-1"})
    assert "0 is on host-1" in failure(result, "plan_spin_up_standby")[0]
    assert world.requests == {}


def test_without_a_place_the_job_is_as_it_was(world: SteppedJob, run: Run) -> None:
    """The coordinator's text is the failure's."""
    world.ends = [EXPIRED]
    result = run("spin_up_standby", **ASK)
    assert failure(result, "spin_up")[0] == f"spin_up: FAILED: {EXPIRED[1]}"
    assert "0-1" not in world.at


def test_a_standby_that_does_not_catch_up_fails_with_what_was_seen(
    world: SteppedJob, run: Run
) -> None:
    """It runs on: waiting again is what is left to do."""
    world.lag_now = {"0-1": [9000]}
    text, metadata = failure(run("spin_up_standby", catch_up_timeout_s=1, **ASK), "wait_until_warm")
    assert "9,000 records behind" in text
    assert "re-execute this run from failure" in metadata["fix"]
    assert world.at["0-1"] == "host-4"
