"""What Samza's AM can't tell of itself: that it was replaced, or that its whole job is gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.orchestration.failover.memory import (
    COORDINATOR_REPLACED,
    JOB_DEAD,
    Memory,
    Trend,
)
from samza_dagster.orchestration.failover.pace import Limits
from samza_dagster.orchestration.failover.reports import commits
from samza_dagster.orchestration.failover.sight import Sight
from samza_dagster.readiness import Heard


def job_trouble(
    sight: Sight,
    trends: Mapping[str, Trend],
    reports: Mapping[str, Heard],
    memory: Memory,
    limits: Limits,
    now_ms: int,
) -> tuple[str, str] | None:
    """The signal and why; None where nothing is wrong, or a coordinator of ours tells it.

    A job whose tasks go on committing has broken reporters. A new deployment is told until each
    container has reported in it.
    """
    if sight.ours:
        return None
    if sight.dead:
        return JOB_DEAD, sight.dead
    heard_ms = [h.at_ms for h in reports.values() if h.mark]
    silent_ms = now_ms - max(heard_ms, default=now_ms)
    works = any(commits(trend, limits, now_ms) for trend in trends.values())
    known = not sight.application and not any(c.unread for c in sight.containers)
    if silent_ms >= limits.report_silent_ms and known and not works:
        return JOB_DEAD, (
            f"all {len(heard_ms)} containers that reported have been silent for"
            f" {silent_ms / 1000:.0f} s at least"
        )
    changed_ms = memory.deployment_ms
    is_new = changed_ms and now_ms - changed_ms < limits.report_silent_ms
    if is_new and any(at_ms <= changed_ms for at_ms in heard_ms):
        return COORDINATOR_REPLACED, (
            f"deployment {sight.deployment} runs for {(now_ms - changed_ms) / 1000:.0f} s: a new"
            " attempt of the AM, or the job was deployed again"
        )
    return None
