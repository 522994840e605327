"""Runs that Dagster has created and not submitted yet, or never: their submission failed.

Whoever creates a run submits it at once. One whose submission failed is failed by run monitoring
after `start_timeout_seconds` (600 s); where its tags ask for retries, as a bounce's do, Dagster then
launches another in its place.
"""

from __future__ import annotations

import time

import dagster as dg

SUBMITS_WITHIN_S = 60.0


def is_being_submitted(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run was created less than a minute ago and not submitted yet."""
    if run.status is not dg.DagsterRunStatus.NOT_STARTED:
        return False
    record = instance.get_run_record_by_id(run.run_id)
    created = record.create_timestamp.timestamp() if record is not None else 0.0
    return time.time() - created < SUBMITS_WITHIN_S
