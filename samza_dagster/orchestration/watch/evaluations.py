"""What a check was last evaluated as, by the instance's own records."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
)

_LOOKED_AT = 10


def newest_evaluation(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> tuple[dg.AssetCheckEvaluation, float] | None:
    """A check's newest evaluation and when it was (s since the epoch); None without one."""
    found = newest_evaluations(instance, key)
    return max(found.values(), key=lambda one: one[1], default=None)


def newest_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> dict[int, tuple[dg.AssetCheckEvaluation, float]]:
    """A check's newest evaluations by their number in the instance, and when each was.

    Times are by the clocks of whoever evaluated; whether one is new to whoever looks its number tells.
    """
    # Dagster's "latest record" is also one of a run that hasn't come to the check yet, or never
    # will; and records are in the order of the runs' launches, not of what they found.
    records = instance.event_log_storage.get_asset_check_execution_history(
        key,
        limit=_LOOKED_AT,
        status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
    )
    return {
        record.id: (record.event.dagster_event.asset_check_evaluation_data, record.event.timestamp)
        for record in records
        if record.event is not None and record.event.dagster_event is not None
    }
