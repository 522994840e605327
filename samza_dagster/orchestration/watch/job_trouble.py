"""What Samza's AM can't tell of itself: that it was replaced, or that its whole job is gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.orchestration.watch.memory import (
    COORDINATOR_REPLACED,
    JOB_DEAD,
    Memory,
)
from samza_dagster.orchestration.watch.thresholds import Limits
from samza_dagster.orchestration.watch.observation import Sight
from samza_dagster.readiness import Heard, all_silent


def job_trouble(
    sight: Sight,
    reports: Mapping[str, Heard],
    memory: Memory,
    limits: Limits,
    now_ms: int,
) -> tuple[str, str] | None:
    """The signal and why; None where nothing is wrong, or a coordinator of ours tells it.

    A new deployment is told until each container has reported in it.
    """
    if sight.ours:
        return None
    if sight.dead:
        return JOB_DEAD, sight.dead
    if not sight.application and not any(c.unread for c in sight.containers):
        silent = all_silent(
            reports.values(),
            worked_ms=memory.committed.at_ms if memory.committed is not None else 0,
            now_ms=now_ms,
            after_ms=limits.report_silent_ms,
        )
        if silent:
            return JOB_DEAD, silent
    changed_ms = memory.deployment_ms
    is_new = changed_ms and now_ms - changed_ms < limits.report_silent_ms
    if is_new and any(h.mark and h.at_ms <= changed_ms for h in reports.values()):
        return COORDINATOR_REPLACED, (
            f"deployment {sight.deployment} runs for {(now_ms - changed_ms) / 1000:.0f} s: a new"
            " attempt of the AM, or the job was deployed again"
        )
    return None
