"""A run that ends while a standby is being started or moved for it: nothing goes on unsaid."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from placement_runs import Run, too_late
from run_results import failure
from test_dagster_holds import log_of

from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
VIA = "move_via_new_standby"
ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}
ENDS = [dg.DagsterExecutionInterruptedError(), too_late()]


@pytest.mark.longdagster
@pytest.mark.parametrize("end", ENDS, ids=["cancelled", "too late"])
@pytest.mark.parametrize(
    ("job", "config", "op", "step"),
    [
        (VIA, {**ASK, "if_it_fails": "remove"}, "spin_up", "spin_up"),
        (VIA, ASK, "spin_up", "spin_up"),
        ("spin_up_standby", ASK, "spin_up", "spin_up"),
        ("move_with_standby", {"processor": "0"}, "move_standby_away", "move"),
    ],
)
def test_a_request_that_has_only_reserved_is_cancelled_with_its_run(
    world: SteppedJob,
    instance: dg.DagsterInstance,
    run: Run,
    end: BaseException,
    job: str,
    config: dict[str, Any],
    op: str,
    step: str,
) -> None:
    """Nothing was stopped or started: the job stays as it was."""
    before = dict(world.at)
    world.breaks = {texts.RESOURCES_REQUESTED: end}
    result = run(job, **config)
    assert not result.success
    uuid = request_uuid(result.run_id, step, 0)
    assert world.cancelled == [uuid]
    assert world.at == before
    told = log_of(instance, result) + str(result.failure_data_for_node(op))
    assert f"{uuid} is ended: FAILED: {texts.CANCELLED}" in told


def test_what_was_cancelled_is_asked_anew_by_a_re_execution(world: SteppedJob, run: Run) -> None:
    """The failure says so."""
    world.breaks = {texts.RESOURCES_REQUESTED: too_late()}
    text, _ = failure(run(VIA, **ASK), "spin_up")
    assert "re-execute this run from failure to ask anew" in text


@pytest.mark.longdagster
@pytest.mark.parametrize("end", ENDS, ids=["cancelled", "too late"])
@pytest.mark.parametrize("fate", ["keep", "remove"])
def test_a_standby_that_starts_too_late_to_be_cancelled_is_kept_or_removed_as_configured(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run, end: BaseException, fate: str
) -> None:
    """The coordinator had begun to start it when the run ended: it is awaited, then removed."""
    world.breaks = {texts.RESOURCES_REQUESTED: end}
    world.too_late_to_cancel = True
    result = run(VIA, if_it_fails=fate, **ASK)
    assert not result.success
    assert world.cancelled == []
    told = log_of(instance, result) + str(result.failure_data_for_node("spin_up"))
    assert "he coordinator goes on with it" in told
    if fate == "keep":
        world.go_on(request_uuid(result.run_id, "spin_up", 0))
    else:
        assert "standby 0-1 is removed again" in told
    assert ("0-1" in world.at) is (fate == "keep")
