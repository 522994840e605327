"""What a planned move's downtime is expected to be: what was measured last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import dagster as dg

from samza_dagster.orchestration.requests.outcomes import TO_FIRST_COMMIT
from samza_dagster.orchestration.tags import ACTION, JOB, is_dry

STOPPING_ACTIVES = (
    *("move_container", "restart_container", "move_with_standby", "fail_over"),
    *("move_via_new_standby", "drain_host"),
)
RUNS_LOOKED_AT = 1_000
LOGS_READ = 20
NONE_STOPPED = "No active is stopped for it."


def last_downtime(
    instance: dg.DagsterInstance, job: str, action: str
) -> tuple[float, dg.DagsterRun] | None:
    """Seconds from an active's stop to its successor's first commit, and the run that measured it.

    None: none has; a run that doesn't wait for the first commit (`verify_timeout_s` 0) doesn't.
    `job` is the value of tag `samza/job`. The newest run of this action, else of any other that
    stops actives; of each the logs of the newest `LOGS_READ` that weren't dry runs are read.
    """
    return _measured(instance, job, [action]) or _measured(instance, job, STOPPING_ACTIVES)


def _measured(
    instance: dg.DagsterInstance, job: str, actions: Sequence[str]
) -> tuple[float, dg.DagsterRun] | None:
    runs = instance.get_runs(
        dg.RunsFilter(
            tags={JOB: job, ACTION: list(actions)}, statuses=[dg.DagsterRunStatus.SUCCESS]
        ),
        limit=RUNS_LOOKED_AT,
    )
    for run in [run for run in runs if not is_dry(run.run_config)][:LOGS_READ]:
        seconds = _seconds_of_an_active(instance, run)
        if seconds is not None:
            return seconds, run
    return None


def _seconds_of_an_active(instance: dg.DagsterInstance, run: dg.DagsterRun) -> float | None:
    for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
        output = event.dagster_event.step_output_data if event.dagster_event else None
        metadata = cast("Mapping[str, object]", output.metadata if output else {})
        for key, value in metadata.items():
            if key.startswith("move") and key.endswith(TO_FIRST_COMMIT):
                return _number(value)
    return None


def _number(value: object) -> float | None:
    found: object = getattr(value, "value", None)
    return float(found) if isinstance(found, int | float) else None


def expected_downtime(
    instance: dg.DagsterInstance, job: str, action: str, *, stops_active: bool
) -> str:
    """For a dry run: what was measured last, or that nothing was, or that no active is stopped."""
    if not stops_active:
        return NONE_STOPPED
    found = last_downtime(instance, job, action)
    if found is None:
        return "Expected downtime of an active: not measured yet."
    seconds, run = found
    return (
        f"Expected downtime of an active: {seconds:.1f} s from its stop to its first commit, as in run"
        f" {run.run_id[:8]} ({run.tags.get(ACTION)}); a cold one restores its state on top."
    )
