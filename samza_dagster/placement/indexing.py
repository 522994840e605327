"""Keeps the index true: summarises the groups that a step touched and replaces their entries."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any, TypeVar

from rpds import HashTrieMap

from samza_dagster.placement import ownership
from samza_dagster.placement.index import EMPTY, Ask, Index, Summary, Turn
from samza_dagster.placement.state import (
    Fallback,
    Group,
    Host,
    JobState,
    Phase,
    ResourceRequest,
    Role,
    Stage,
    request_of,
)

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

# Looked up once: an access to an Enum member costs 0.1 µs, and nearly every step summarises.
_WAITING, _REQUESTING, _RESERVED = Phase.WAITING, Phase.REQUESTING, Phase.RESERVED
_HELD = Stage.HELD
_PHASES_OF_A_START = (_REQUESTING, _RESERVED, Phase.STARTING)
_NOTHING = Summary()


def rebuilt(state: JobState) -> JobState:
    """Return the state with its index, for groups, hosts and uuids that were read back."""
    index = follow(EMPTY, state.groups)
    for host in state.hosts.values():
        index = with_host(index, host)
    return state.evolve(
        index=index._replace(
            uuid_order=HashTrieMap({place: uuid for uuid, place in state.uuids.items()}),
            refused_order=HashTrieMap({place: uuid for uuid, place in state.refused.items()}),
        )
    )


def with_host(index: Index, host: Host) -> Index:
    """Return the index with this host's loss and registration."""
    name, lost = host.host, index.lost_hosts
    awaited_ms = host.silent_since_ms if host.alive and not host.registered else None
    return index._replace(
        lost_hosts=lost - {name} if host.alive else lost | {name},
        unregistered=_put(index.unregistered, name, awaited_ms),
    )


def follow(index: Index, touched: Mapping[str, Group | None]) -> Index:
    """Return the index for these groups as of now; None: the group is gone."""
    summaries, deadlines = index.summaries, index.deadlines
    by_id, by_processor, by_host = index.by_id, index.by_processor, index.by_host
    starting, acting = index.starting, index.acting
    turns_gone: list[Turn] = []
    turns_come: list[Turn] = []
    asks_gone: list[Ask] = []
    asks_come: list[Ask] = []
    for group_id, group in touched.items():
        old = summaries.get(group_id, _NOTHING)
        new = _NOTHING if group is None else summarise(group)
        if new == old:
            continue
        summaries = _put(summaries, group_id, None if new == _NOTHING else new)
        by_id = _moved(by_id, group_id, old.ids, new.ids)
        by_processor = _moved(by_processor, group_id, old.members, new.members)
        for host in old.hosts ^ new.hosts:
            there = by_host.get(host, frozenset[str]()) ^ {group_id}
            by_host = _put(by_host, host, there or None)
        deadlines = _put(deadlines, group_id, new.deadline_ms)
        starting += new.starting - old.starting
        if new.acting != old.acting:
            acting = acting ^ {group_id}
        if new.turns != old.turns:
            turns_gone += old.turns
            turns_come += new.turns
        if new.ask != old.ask:
            asks_gone += (old.ask,) if old.ask else ()
            asks_come += (new.ask,) if new.ask else ()
    return index._replace(
        summaries=summaries,
        by_id=by_id,
        by_processor=by_processor,
        by_host=by_host,
        deadlines=deadlines,
        turns=_exchanged(index.turns, turns_gone, turns_come),
        asks=_exchanged(index.asks, asks_gone, asks_come),
        starting=starting,
        acting=acting,
    )


def _put(entries: HashTrieMap[str, V], name: str, value: V | None) -> HashTrieMap[str, V]:
    """Return the entries with this one, or without it for None."""
    if value is None:
        return entries.remove(name) if name in entries else entries
    return entries if entries.get(name) == value else entries.insert(name, value)


def _moved(
    owners: HashTrieMap[str, str], group_id: str, old: frozenset[str], new: frozenset[str]
) -> HashTrieMap[str, str]:
    """Return name → group after a change of this group's names; another group may own one now."""
    if old == new:
        return owners
    for name in old - new:
        if owners[name] == group_id:
            owners = owners.remove(name)
    return owners.update(dict.fromkeys(new - old, group_id))


def _exchanged(entries: tuple[K, ...], gone: list[K], come: list[K]) -> tuple[K, ...]:
    """Return the sorted entries without `gone` and with `come`."""
    if not gone and not come:
        return entries
    kept = list(entries)
    for entry in gone:
        del kept[bisect_left(kept, entry)]
    for entry in come:
        insort(kept, entry)
    return tuple(kept)


def summarise(group: Group) -> Summary:
    """Return the index entry of a group."""
    deadlines: list[int] = []
    turns: list[Turn] = []
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
            if not ownership.is_awaiting_reservation(group, pid):
                standby = processor.role is Role.STANDBY
                since = processor.waiting_since_ms
                due_ms = processor.not_before_ms
                turns.append(
                    Turn(processor.attempts, standby, since, len(pid), group.group_id, pid, due_ms)
                )
        elif phase in _PHASES_OF_A_START and not ownership.starting_action(group, pid):
            # A processor that waits for a lease or a fence starts nothing, so it delays no other.
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
    # Positional, because names cost half as much again.
    return Summary(
        min(deadlines) if deadlines else None,
        tuple(turns),
        None if ready is None else Ask(ready.timestamp_ms, ready.uuid, group.group_id),
        starting,
        action is not None and not isinstance(action, Fallback),
        frozenset(hosts),
        frozenset(ids),
        frozenset(members),
    )


def _note(request: ResourceRequest, hosts: list[str], ids: list[str]) -> None:
    ids.append(request.request_id)
    host = request.allocated_host or request.host
    if host is not None:
        hosts.append(host)
