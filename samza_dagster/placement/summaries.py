"""What the index must know of a group, read off the group alone."""

from __future__ import annotations

from typing import Any

from samza_dagster.placement import ownership
from samza_dagster.placement.index import Summary
from samza_dagster.placement.state import Group, Phase, ResourceRequest, Role, Stage

_STARTING = (Phase.REQUESTING, Phase.RESERVED, Phase.STARTING)


def summarise(group: Group) -> Summary:
    """Deadlines, turns, hosts and ids of one group."""
    deadlines: list[int] = []
    pauses: list[tuple[Any, ...]] = []
    hosts: set[str] = set()
    ids: set[str] = set()
    starting = 0

    def note(request: ResourceRequest, *, expires: bool) -> None:
        ids.add(request.request_id)
        host = request.allocated_host or request.host
        if host is not None:
            hosts.add(host)
        if expires:
            deadlines.append(request.deadline_ms)

    action = group.action
    for pid, processor in group.processors.items():
        phase = processor.phase
        if processor.deadline_ms is not None:
            deadlines.append(processor.deadline_ms)
        if processor.request is not None:
            note(processor.request, expires=phase is Phase.REQUESTING)
        if processor.incarnation is not None:
            hosts.add(processor.incarnation.host)
            ids.add(processor.incarnation.execution_id)
            ids.add(processor.incarnation.request_id)
        if phase is Phase.WAITING:
            if not ownership.awaits_reservation(group, pid):
                standby = processor.role is Role.STANDBY
                since = processor.waiting_since_ms
                order = (processor.attempts, standby, since, len(pid), group.group_id, pid)
                pauses.append((processor.not_before_ms, *order))
        elif phase in _STARTING and not ownership.acts_on(action, pid, Stage.STARTING):
            starting += 1
    for ghost in group.ghosts:
        hosts.add(ghost.incarnation.host)
        ids.add(ghost.incarnation.execution_id)
        if ghost.ended is None and ghost.lease_ends_ms is not None:
            deadlines.append(ghost.lease_ends_ms)
    if action is not None:
        ids.add(action.ask.uuid)
        if action.reservation is not None:
            open_or_held = action.reservation.allocated_host is None or action.stage is Stage.HELD
            note(action.reservation, expires=open_or_held)
        if action.standby_reservation is not None:
            note(
                action.standby_reservation,
                expires=action.standby_reservation.allocated_host is None,
            )
    ids.update(ask.uuid for ask in group.queue)
    ready = ownership.next_ask(group)
    return Summary(
        deadline_ms=min(deadlines, default=None),
        pauses=tuple(pauses),
        ask=None if ready is None else (ready.timestamp_ms, ready.uuid, group.group_id),
        starting=starting,
        acting=action is not None and action.stage not in ownership.FALLBACK,
        hosts=frozenset(hosts),
        ids=frozenset(ids),
    )
