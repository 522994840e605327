"""The newest evaluations of a check, by the instance's own records."""

from __future__ import annotations

import dagster as dg

_LOOKED_AT = 50


def newest_evaluation(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> tuple[dg.AssetCheckEvaluation, float] | None:
    """Return a check's newest evaluation and when it was (s since the epoch); None without one."""
    found = newest_evaluations(instance, key)
    return max(found.values(), key=lambda one: one[1], default=None)


def newest_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> dict[int, tuple[dg.AssetCheckEvaluation, float]]:
    """Return a check's newest evaluations by their number in the instance, and when each was.

    Times are by the evaluator's clock; the number of an evaluation tells a reader whether it is new.
    """
    # Records are in the order of the runs' launches, not of what they found; and there is one of
    # each run that hasn't come to the check yet, or never will.
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOKED_AT)
    done = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    events = [
        (record.id, record.event.dagster_event, record.event.timestamp)
        for record in records
        if record.event is not None and record.event.dagster_event_type is done
    ]
    return {
        number: (event.asset_check_evaluation_data, at)
        for number, event, at in events
        if event is not None
    }
