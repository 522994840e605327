"""What falls due by time alone. The reducer has no clock: a `TimePassed` tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from samza_dagster.placement import actions, containers, hosts, orphans
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Phase, ResourceRequest, Stage

NO_ANSWER = "the cluster gave no answer in time"

Expired = Callable[[Draft, str, str], None]


def time_passed(draft: Draft, *, expired: Expired) -> None:
    """Handles every deadline that is reached; `expired` takes a request id and a reason."""
    groups = draft.index.overdue(draft.now_ms)
    hosts.unregistered_too_long(draft)
    for group_id in groups:
        group = draft.find_group(group_id)
        if group is not None:
            _group_due(draft, group, expired)


def _group_due(draft: Draft, group: Group, expired: Expired) -> None:
    group_id, now_ms = group.group_id, draft.now_ms
    orphans.leases_over(draft, group_id)  # first: what follows chooses among the hosts
    for request in tuple(_open_requests(group)):
        if request.deadline_ms <= now_ms:
            expired(draft, request.request_id, NO_ANSWER)
    action = (draft.find_group(group_id) or group).action
    held = action.reservation if action is not None and action.stage is Stage.HELD else None
    if action is not None and held is not None and held.deadline_ms <= now_ms:
        actions.hold_expired(draft, group_id, action)
    for processor_id in group.processors:
        processor = draft.group(group_id).processors.get(processor_id)
        if processor is None or processor.deadline_ms is None or processor.deadline_ms > now_ms:
            continue
        if processor.phase is Phase.STARTING:
            containers.start_overdue(draft, group_id, processor_id)
        elif processor.phase is Phase.STOPPING:
            containers.stop(draft, group_id, processor_id)


def _open_requests(group: Group) -> Iterator[ResourceRequest]:
    """Requests of a group that nothing was allocated for."""
    for processor in group.processors.values():
        if processor.request is not None and processor.request.allocated_host is None:
            yield processor.request
    action = group.action
    for reservation in (action.reservation, action.standby_reservation) if action else ():
        if reservation is not None and reservation.allocated_host is None:
            yield reservation
