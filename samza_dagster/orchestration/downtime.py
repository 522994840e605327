"""What a planned move's downtime is expected to be: what was measured last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import dagster as dg

from samza_dagster.orchestration.tags import JOB

MEASURED = "stop_and_start_seconds"
RUNS_LOOKED_AT = 20


def last_downtime(instance: dg.DagsterInstance, job: str) -> tuple[float, str] | None:
    """Seconds from an active's stop to its check-in, and the run that measured it; None: none has.

    `job` is the value of tag `samza/job`.
    """
    runs = instance.get_runs(
        dg.RunsFilter(tags={JOB: job}, statuses=[dg.DagsterRunStatus.SUCCESS]),
        limit=RUNS_LOOKED_AT,
    )
    for run in runs:
        for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
            output = event.dagster_event.step_output_data if event.dagster_event else None
            told = cast("Mapping[str, object]", output.metadata if output else {})
            for key, value in told.items():
                if key.startswith("move") and key.endswith(MEASURED):
                    seconds = _number(value)
                    if seconds is not None:
                        return seconds, run.run_id
    return None


def _number(value: object) -> float | None:
    found: object = getattr(value, "value", None)
    return float(found) if isinstance(found, int | float) else None


def expected_downtime(instance: dg.DagsterInstance, job: str) -> str:
    """For a dry run: what was measured last, or that nothing was."""
    found = last_downtime(instance, job)
    if found is None:
        return "Expected downtime of an active: not measured yet."
    return (
        f"Expected downtime of an active: {found[0]:.1f} s from its stop to its check-in, as in run"
        f" {found[1][:8]}; a cold one restores its state on top."
    )
