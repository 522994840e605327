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
    groups, silent = draft.index.take_overdue(draft.now_ms)
    hosts.unregistered_too_long(draft, silent)
    for group_id in groups:
        _group_due(draft, draft.group(group_id), expired)
    for group_id in groups:
        draft.index.keep_deadline(group_id)


def _group_due(draft: Draft, group: Group, expired: Expired) -> None:
    group_id, now_ms = group.group_id, draft.now_ms
    orphans.leases_over(draft, group_id)  # first: what follows chooses among the hosts
    for request in tuple(_open_requests(group)):
        if request.deadline_ms <= now_ms:
            expired(draft, request.request_id, NO_ANSWER)
    action = (draft.find_group(group_id) or group).action
    if action is not None and action.stage is Stage.HELD:
        assert action.reservation is not None
        if action.reservation.deadline_ms <= now_ms:
            actions.hold_expired(draft, group_id, action)
    for processor_id in group.processors:
        processor = draft.processor(group_id, processor_id)
        if processor.deadline_ms is None or processor.deadline_ms > now_ms:
            continue
        if processor.phase is Phase.STARTING:
            containers.start_overdue(draft, group_id, processor_id)
        else:
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
