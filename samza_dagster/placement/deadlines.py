"""What falls due by time alone. The heart has no clock: a `TimePassed` tells it."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.placement.state import Group, JobState, Phase, Processor, ResourceRequest

NO_ANSWER = "the cluster gave no answer in time"


def next_due_ms(state: JobState) -> int | None:
    """The earliest time at which something falls due; None when nothing does."""
    return min(_due_times(state), default=None)


def overdue_requests(state: JobState, now_ms: int) -> list[str]:
    """Ids of open resource requests whose deadline is reached."""
    return [
        request.request_id
        for group in state.groups.values()
        for request in open_requests(group)
        if request.deadline_ms <= now_ms
    ]


def overdue_processors(state: JobState, now_ms: int) -> list[tuple[str, str]]:
    """(group, processor) of starts without a check-in and stops without an answer."""
    return [
        (group.group_id, processor.processor_id)
        for group in state.groups.values()
        for processor in group.processors.values()
        if processor.deadline_ms is not None and processor.deadline_ms <= now_ms
    ]


def open_requests(group: Group) -> Iterator[ResourceRequest]:
    """Requests of a group that nothing was allocated for."""
    for processor in group.processors.values():
        if processor.request is not None:
            yield processor.request
    reservation = group.action.reservation if group.action is not None else None
    if reservation is not None and reservation.allocated_host is None:
        yield reservation


def _due_times(state: JobState) -> Iterator[int]:
    for group in state.groups.values():
        for request in open_requests(group):
            yield request.deadline_ms
        for processor in group.processors.values():
            if processor.deadline_ms is not None:
                yield processor.deadline_ms
            if _waits_for_time(processor, state.now_ms):
                yield processor.not_before_ms


def _waits_for_time(processor: Processor, now_ms: int) -> bool:
    return processor.phase is Phase.WAITING and processor.not_before_ms > now_ms
