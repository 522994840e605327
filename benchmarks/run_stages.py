"""What a run of Dagster waits for until its first op begins, by Dagster's own events."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import dagster as dg
from rich.table import Table

_ENDS = {
    "made": dg.DagsterEventType.PIPELINE_ENQUEUED,
    "queued": dg.DagsterEventType.PIPELINE_DEQUEUED,
    "launched": dg.DagsterEventType.PIPELINE_STARTING,
    "worker's start": dg.DagsterEventType.PIPELINE_START,
    "before the op": dg.DagsterEventType.STEP_START,
}
"""Each stage, and the event that ends it; one begins where the one before it ended."""


def spread(times: Sequence[int]) -> dict[str, int]:
    """n, median, p95 and most, ms."""
    ranked = sorted(times)
    return {
        "n": len(ranked),
        "median": round(statistics.median(ranked)),
        "p95": ranked[min(len(ranked) - 1, round(0.95 * (len(ranked) - 1)))],
        "most": ranked[-1],
    }


def stages(instance: dg.DagsterInstance, run_id: str, since_ms: int) -> dict[str, int]:
    """ms of each stage of a run that was asked for at `since_ms`; its first op has begun.

    `made` is until it stands in the queue; `queued` until it may go; `worker's start` until
    its process has loaded the definitions.
    """
    found: dict[str, int] = {}
    before = since_ms
    for stage, ends in _ENDS.items():
        logs = instance.all_logs(run_id, of_type=ends)
        at = round(logs[0].timestamp * 1_000) if logs else before
        found[stage] = at - before
        before = at
    return found


def spreads(runs: list[dict[str, int]]) -> dict[str, dict[str, int]]:
    """Of each stage over several runs."""
    return {stage: spread([run[stage] for run in runs]) for stage in _ENDS} if runs else {}


def stages_table(of: dict[str, list[dict[str, int]]]) -> Table:
    """Medians side by side, by what was measured."""
    made = Table(title="where the time goes until the first op, median and most in ms")
    made.add_column("")
    for name in of:
        made.add_column(name, justify="right")
    columns = {name: spreads(runs) for name, runs in of.items()}
    for stage in _ENDS:
        cells = (
            f"{found[stage]['median']}, {found[stage]['most']}" if found else "-"
            for found in columns.values()
        )
        made.add_row(stage, *cells)
    return made
