"""What a dry run expects of a downtime: what an active's was when it was measured last."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from placement_runs import Run

from samza_dagster.orchestration.operations import runner
from samza_dagster.orchestration.operations.planning import last_downtime
from samza_dagster.orchestration.requests.follow import TO_FIRST_COMMIT
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance(own_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """One a test: what was measured is looked for among all runs."""
    return own_instance


MOVE = {"processor": "1", "destination": "host-1"}


def done(run: Run, job: str, **config: Any) -> str:
    result = run(job, **config)
    assert result.success
    return result.run_id


def expected(run: Run, job: str = "move_container", **config: Any) -> str:
    """The last line of a dry run."""
    result = run(job, **{**(config or MOVE), "dry_run": True})
    text = result.output_for_node(f"plan_{job}", "preview")
    return str(text).rpartition("\n\n")[2]


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("job", "config"),
    [
        ("relocate_standby", {"processor": "0-0"}),
        ("move_container", {"processor": "0-0", "destination": "host-4"}),
        ("restart_container", {"processor": "0-0"}),
    ],
)
def test_a_standby_s_move_is_no_measure_of_an_active_s_downtime(
    world: SteppedJob,
    run: Run,
    job: str,
    config: dict[str, Any],
) -> None:
    """Nothing but a standby was stopped."""
    done(run, job, **config)
    assert "not measured yet" in expected(run)


def test_a_drained_standby_is_no_measure_either(world: SteppedJob, run: Run) -> None:
    """The host had no active."""
    done(run, "drain_host", host="host-3")
    assert "not measured yet" in expected(run)


@pytest.mark.longdagster
def test_dry_runs_do_not_make_it_forget(
    world: SteppedJob,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor runs that stopped a standby alone, nor more dry runs than logs are read."""
    monkeypatch.setattr("samza_dagster.orchestration.operations.planning.LOGS_READ", 2)
    measured = done(run, "move_container", **MOVE)
    for _ in range(3):
        assert f"as in run {measured[:8]}" in expected(run)
    done(run, "relocate_standby", processor="0-0")
    assert f"as in run {measured[:8]}" in expected(run)


def test_what_is_expected_lasts_until_the_first_commit(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """Checked in isn't at work: it restores first. Here the third look sees the commit."""
    world.work_after = 2
    moved = done(run, "move_container", **MOVE)
    told = {
        event.step_key: {key: value.value for key, value in output.metadata.items()}
        for event in instance.all_logs(moved, of_type=dg.DagsterEventType.STEP_OUTPUT)
        if event.dagster_event is not None
        for output in [event.dagster_event.step_output_data]
    }
    seconds = told["verify_placement"]["move_stop_to_first_commit_seconds"]
    assert seconds >= told["move"]["move_stop_and_start_seconds"] + 2 * runner.POLL_S
    assert not any(key.endswith(TO_FIRST_COMMIT) for key in told["move"])
    assert f"{seconds:.1f} s from its stop to its first commit" in expected(run)


def test_a_run_that_doesn_t_wait_for_the_first_commit_measures_none(
    world: SteppedJob, run: Run
) -> None:
    """How long its active really made no progress nobody has seen."""
    done(run, "move_container", **MOVE, verify_timeout_s=0)
    assert "not measured yet" in expected(run)


def test_the_same_action_comes_before_a_newer_one(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """Without one of its own, another that stopped an active is quoted, by name."""
    moved = done(run, "move_container", **MOVE)
    restarted = done(run, "restart_container", processor="0")
    assert f"as in run {moved[:8]} (move_container)" in expected(run)
    told = expected(run, "move_with_standby", processor="0")
    assert f"as in run {restarted[:8]} (restart_container)" in told
    assert last_downtime(instance, "demo/2", "move_container") is None


@pytest.mark.longdagster
@pytest.mark.parametrize(
    ("job", "config"),
    [
        ("relocate_standby", {"processor": "0-0"}),
        ("move_container", {"processor": "0-0", "destination": "host-4"}),
        ("spin_up_standby", {"processor": "0", "destination": "host-4"}),
        ("drain_host", {"host": "host-3"}),
    ],
)
def test_where_no_active_is_stopped_none_is_down(
    world: SteppedJob,
    run: Run,
    job: str,
    config: dict[str, Any],
) -> None:
    """Whatever was measured before."""
    done(run, "restart_container", processor="1")
    assert expected(run, job, **config) == "No active is stopped for it."
