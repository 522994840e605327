"""The condition of a job, from its groups: whether it is complete, and why parts are late."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.placement.failures import is_flapping
from samza_dagster.placement.state import Group, Limits, Phase, Processor


def is_deployed(groups: Iterable[Group]) -> bool:
    """Return whether every wanted processor runs, actives and standbys alike; False for no job."""
    phases = [p.phase for group in groups for p in group.processors.values() if p.wanted]
    return bool(phases) and all(phase is Phase.RUNNING for phase in phases)


def paused_for_ms(processor: Processor, now_ms: int) -> int | None:
    """Return how long a failed processor still waits for its start; None when it isn't paused."""
    if processor.phase is not Phase.WAITING or processor.not_before_ms <= now_ms:
        return None
    return processor.not_before_ms - now_ms


def degraded(groups: Iterable[Group], limits: Limits, now_ms: int) -> dict[str, str]:
    """Return processor → reason for the wanted processors that have no place now."""
    return {
        processor.processor_id: _why(processor, limits, now_ms)
        for group in groups
        for processor in group.processors.values()
        if processor.wanted and processor.phase in (Phase.WAITING, Phase.REQUESTING)
    }


def _why(processor: Processor, limits: Limits, now_ms: int) -> str:
    paused_ms, request = paused_for_ms(processor, now_ms), processor.request
    if paused_ms is not None:
        cause = "it flaps" if is_flapping(processor, now_ms, limits) else "its last try failed"
        return f"{cause}: paused for {paused_ms / 1000:.1f} s"
    if request is not None:
        return f"room is asked for on {request.host or 'any legal host'}"
    return "it waits for its turn, or for a legal host with room"
