"""Failures of a processor, their window, and the pause of the next start."""

from __future__ import annotations

from samza_dagster.placement.commands import CountMetric
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import Limits, Processor, Role

# Pause before a start that follows failed ones, times their number.
ATTEMPT_PAUSE_MS = 500
LONGEST_PAUSE_MS = 30_000


def count_death(step: GroupStep, processor_id: str) -> None:
    """Count a container that ended without a stop."""
    processor = step.processor(processor_id)
    kept = step.limits.retry_count + 1
    recent = (*_recent(processor, step.now_ms, step.limits), step.now_ms)[-kept:]
    active = processor.role is Role.ACTIVE
    step.change(processor_id, failures=processor.failures + 1, failed_at_ms=recent, unplaced=active)
    step.emit(
        CountMetric("failed-containers"),
        CountMetric("active-failures" if active else "standby-failures"),
    )


def count_failed_start(step: GroupStep, started: Processor) -> None:
    """Count a start that never checked in; the next tries avoid its host."""
    processor_id = started.processor_id
    processor = step.processor(processor_id)
    assert started.incarnation is not None
    avoid = avoiding(processor, started.incarnation.host)
    step.change(processor_id, attempts=processor.attempts + 1, avoid_hosts=avoid)
    count_death(step, processor_id)


def avoiding(processor: Processor, host: str) -> tuple[str, ...]:
    """Return the hosts that the processor avoids, this one the newest."""
    return (*(other for other in processor.avoid_hosts if other != host), host)


def pause_ms(step: GroupStep, processor: Processor) -> int:
    """Return the pause of the next start: a little per failed try, the longest while flapping."""
    if is_flapping(processor, step.now_ms, step.limits):
        return LONGEST_PAUSE_MS
    return min(LONGEST_PAUSE_MS, ATTEMPT_PAUSE_MS * processor.attempts)


def is_flapping(processor: Processor, now_ms: int, limits: Limits) -> bool:
    """Return whether more than `retry_count` failures fall within `retry_window_ms`.

    Samza ends the job at that point, also for planned restarts
    (`cluster-manager.container.retry.count`). Here only failures count, and the only cost is
    time.
    """
    return len(_recent(processor, now_ms, limits)) > limits.retry_count


def _recent(processor: Processor, now_ms: int, limits: Limits) -> tuple[int, ...]:
    since = now_ms - limits.retry_window_ms
    return tuple(at_ms for at_ms in processor.failed_at_ms if since < at_ms <= now_ms)
