"""What those who show a job, or tidy up after it, read in its state. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.placement.state import Group, Limits, Processor


def is_flapping(processor: Processor, limits: Limits, now_ms: int) -> bool:
    """More than `retry_count` failures within the last `retry_window_ms`."""
    since = now_ms - limits.retry_window_ms
    return sum(at > since for at in processor.failed_at_ms) > limits.retry_count


def in_flight(groups: Iterable[Group]) -> frozenset[str]:
    """UUIDs of the requests that are being acted on or wait for their turn."""
    return frozenset(
        uuid
        for group in groups
        for uuid in (
            *((group.action.ask.uuid,) if group.action is not None else ()),
            *(ask.uuid for ask in group.queue),
        )
    )
