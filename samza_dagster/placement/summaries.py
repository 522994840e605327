"""What the index must know of a group, read off the group alone."""

from __future__ import annotations

from typing import Any

from samza_dagster.placement import ownership
from samza_dagster.placement.index import Summary
from samza_dagster.placement.state import (
    Fallback,
    Group,
    Phase,
    ResourceRequest,
    Role,
    Stage,
    request_of,
)

# Looked up once: each access to a member of an Enum costs 0.1 µs, and nearly every step sums up.
_WAITING, _REQUESTING, _RESERVED = Phase.WAITING, Phase.REQUESTING, Phase.RESERVED
_HELD = Stage.HELD
_PHASES_OF_A_START = (_REQUESTING, _RESERVED, Phase.STARTING)


def summarise(group: Group) -> Summary:
    """Deadlines, turns, hosts and ids of one group."""
    deadlines: list[int] = []
    pauses: list[tuple[Any, ...]] = []
    hosts: list[str] = []
    ids = [ask.uuid for ask in group.queue]
    members: list[str] = []
    starting = 0
    action = group.action
    for pid, processor in group.processors.items():
        phase, request, incarnation = processor.phase, processor.request, processor.incarnation
        if processor.wanted:
            members.append(pid)
        if processor.deadline_ms is not None:
            deadlines.append(processor.deadline_ms)
        if request is not None:
            _note(request, hosts, ids)
            if phase is _REQUESTING:
                deadlines.append(request.deadline_ms)
        if incarnation is not None:
            hosts.append(incarnation.host)
            ids += (incarnation.execution_id, incarnation.request_id)
        if phase is _WAITING:
            if not ownership.awaits_reservation(group, pid):
                standby = processor.role is Role.STANDBY
                since = processor.waiting_since_ms
                order = (processor.attempts, standby, since, len(pid), group.group_id, pid)
                pauses.append((processor.not_before_ms, *order))
        elif phase in _PHASES_OF_A_START and not ownership.starting(group, pid):
            # One that waits for a lease or a fence starts nothing meanwhile: it holds nobody up.
            waits = phase is _RESERVED and ownership.owning_orphan(group, pid) is not None
            starting += not waits
    for orphan in group.orphans:
        hosts.append(orphan.incarnation.host)
        ids.append(orphan.incarnation.execution_id)
        if orphan.ended is None and orphan.lease_ends_ms is not None:
            deadlines.append(orphan.lease_ends_ms)
    if action is not None:
        ids.append(action.ask.uuid)
        request = request_of(action)
        if request is not None:
            _note(request, hosts, ids)
            if request.allocated_host is None or action.stage is _HELD:
                deadlines.append(request.deadline_ms)
    ready = ownership.next_ask(group)
    # By place, since names cost half as much again.
    return Summary(
        min(deadlines) if deadlines else None,
        tuple(pauses),
        None if ready is None else (ready.timestamp_ms, ready.uuid, group.group_id),
        starting,
        action is not None and not isinstance(action, Fallback),
        frozenset(hosts),
        frozenset(ids),
        tuple(members),
    )


def _note(request: ResourceRequest, hosts: list[str], ids: list[str]) -> None:
    ids.append(request.request_id)
    host = request.allocated_host or request.host
    if host is not None:
        hosts.append(host)
