"""What is shown of a request's outcome: its timeline and the seconds of its phases."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from samza_dagster.orchestration.requests.step_request import STOPPING, Moment, Outcome
from samza_dagster.orchestration.show.pictures import picture
from samza_dagster.orchestration.show.tables import table
from samza_dagster.orchestration.show.timeline import timeline_svg

TO_FIRST_COMMIT = "stop_to_first_commit_seconds"
"""Ends the name of a metadata value: for how long a moved active made no progress."""
_NO_START = (
    "STOPPING lasts until the container has checked in: no answer comes when its start begins."
)


def timeline_shown(moments: Sequence[Moment]) -> dg.MarkdownMetadataValue:
    """A picture of every status that was read."""
    drawn = picture(timeline_svg([(m.stage, m.status, m.at_ms) for m in moments]), "timeline")
    stops = any(m.stage == STOPPING for m in moments)
    return dg.MetadataValue.md(f"{drawn}\n\n{_NO_START}" if stops else drawn)


def timeline_table(moments: Sequence[Moment]) -> dg.TableMetadataValue:
    """Every status that was read, with ms since its request."""
    rows = [
        {
            "step": m.step,
            "stage": m.stage,
            "status": m.status,
            "message": m.message,
            "ms since request": m.since_request_ms,
        }
        for m in moments
    ]
    return table(rows, ("step", "stage", "status", "message", "ms since request"))


def phase_seconds(outcome: Outcome) -> dict[str, float]:
    """Seconds of a request's phases, and in all.

    `reserve` ends where the container's stop begins, with what its standby took before
    that; `stop_and_start` ends at the outcome.
    """
    if not outcome.timeline:
        return {}
    stop = next((m for m in outcome.timeline if m.stage == STOPPING), None)
    total = outcome.timeline[-1].since_request_ms
    seconds = {f"{outcome.step}_seconds": total / 1000}
    if stop is not None:
        seconds[f"{outcome.step}_reserve_seconds"] = stop.since_request_ms / 1000
        seconds[f"{outcome.step}_stop_and_start_seconds"] = (total - stop.since_request_ms) / 1000
    return seconds


def first_commit_seconds(outcome: Outcome, committed_ms: int) -> dict[str, float]:
    """Seconds from where an active's stop begins to its successor's first commit.

    Up to the check-in by the coordinator's clock; from there by the run's, which saw the commit
    at `committed_ms`. Nothing where the stop, or the check-in, wasn't seen.
    """
    down_s = phase_seconds(outcome).get(f"{outcome.step}_stop_and_start_seconds")
    if down_s is None or outcome.since_ms is None:
        return {}
    restore_s = max(0, committed_ms - outcome.since_ms) / 1000
    return {f"{outcome.step}_{TO_FIRST_COMMIT}": down_s + restore_s}
