"""Which processors fail again and again. Pure, for whoever shows a job."""

from __future__ import annotations

from samza_dagster.placement.state import Limits, Processor


def is_flapping(processor: Processor, limits: Limits, now_ms: int) -> bool:
    """More than `retry_count` failures within the last `retry_window_ms`."""
    since = now_ms - limits.retry_window_ms
    return sum(at > since for at in processor.failed_at_ms) > limits.retry_count
