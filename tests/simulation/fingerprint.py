"""What a world or a state is, apart from the ids, epochs and times that it came to it with."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, cast

from tests.simulation.world_state import WorldState

Canonical = Hashable

# Fields that no decision depends on, or that others imply.
_IRRELEVANT = frozenset(
    {
        "sequence",
        "evidence",
        "last_end",
        "epoch",
        "next_epoch",
        "next_request",
        "next_uuid",
        "next_refused",
        "certificates",
        "certificate_hash",
        "certificate_at_ms",
        "index",
        "limits",
        "failures",
        "response_ms",
        "at_ms",
        "since_ms",
        "lost_at_ms",
        "message",
        "why",
        "now_ms",
        "uuids",
        "refused",
        "clock",
        "state",
        "last_commit_ms",
        "used_by",
        "ended",
        "memory_mb",
        "cores",
    }
)
# Fields that hold a duration, not a point in time.
_DURATIONS = frozenset({"expires_in_ms", "expiry_ms", "ready_in_ms", "lease_ms"})


@cache
def _names(kind: type) -> tuple[tuple[str, bool], ...]:
    return tuple(
        (f.name, f.name.endswith("_ms") and f.name not in _DURATIONS)
        for f in dataclasses.fields(kind)
        if f.name not in _IRRELEVANT
    )


class _Shape(NamedTuple):
    """A frozen value without its ids and times, and these in order of appearance.

    `value` is kept so that its identity isn't used again while this is remembered.
    """

    value: Any
    prefix: str
    number: int
    ids: tuple[str, ...]
    times: tuple[int, ...]


class _Renaming:
    """Renames ids by order of appearance, and times relative to now."""

    def __init__(self, prefix: str, now_ms: int) -> None:
        self.prefix = prefix
        self.now_ms = now_ms
        self.names: dict[str, int] = {}

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            if isinstance(value, Enum):
                return value.value
            if value.startswith(self.prefix):
                return self.names.setdefault(value, len(self.names))
            return value
        if isinstance(value, tuple | list):
            return tuple([self.of(entry) for entry in cast("list[Any]", value)])
        if isinstance(value, Mapping):
            entries = cast("Mapping[str, Any]", value)
            return tuple([(key, self.of(entries[key])) for key in sorted(entries)])
        shape = _shape(value, self.prefix)
        names, now_ms = self.names, self.now_ms
        # What was due already is due, however long ago.
        return (
            shape.number,
            tuple([names.setdefault(name, len(names)) for name in shape.ids]),
            tuple([at - now_ms if at > now_ms else 0 for at in shape.times]),
        )


_ID, _TIME = "an id", "a time"
_MOST_SHAPES = 200_000
_shapes: dict[int, _Shape] = {}
_numbers: dict[Any, int] = {}


def _shape(value: Any, prefix: str) -> _Shape:
    """The shape of a frozen value; worlds that were forked share most of these."""
    known = _shapes.get(id(value))
    if known is not None and known.value is value and known.prefix == prefix:
        return known
    ids: list[str] = []
    times: list[int] = []
    skeleton = _skeleton(value, False, prefix, ids, times)
    number = _numbers.setdefault(skeleton, len(_numbers))
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    shape = _shapes[id(value)] = _Shape(value, prefix, number, tuple(ids), tuple(times))
    return shape


def _skeleton(value: Any, is_time: bool, prefix: str, ids: list[str], times: list[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if isinstance(value, Enum):
            return value.value
        if value.startswith(prefix):
            ids.append(value)
            return _ID
        return value
    if isinstance(value, int):
        if is_time:
            times.append(value)
            return _TIME
        return value
    if isinstance(value, tuple | list):
        entries = cast("list[Any]", value)
        return tuple([_skeleton(entry, is_time, prefix, ids, times) for entry in entries])
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return tuple(
            [(key, _skeleton(pairs[key], False, prefix, ids, times)) for key in sorted(pairs)]
        )
    if isinstance(value, set | frozenset):
        return tuple(sorted(str(entry) for entry in cast("set[Any]", value)))
    kind = cast("type[Any]", type(value))
    parts: list[Any] = [kind.__name__]
    for name, time in _names(kind):
        parts.append(_skeleton(getattr(value, name), time, prefix, ids, times))
    return tuple(parts)


def canonical(world: WorldState) -> Canonical:
    """Equal for two worlds from which the same can follow."""
    state, leader = world.committed, world.leader
    rename = _Renaming(f"{state.job}-", world.now_ms)
    of = rename.of
    groups = tuple((gid, of(state.groups[gid])) for gid in sorted(state.groups))
    hosts: list[Any] = []
    for name, host in world.hosts.items():
        known = leader.known_hosts.get(name)
        hosts.append(
            (
                host.agent_up,
                host.restarted,
                host.frozen is not None and (host.frozen[1], world.true_ms - host.frozen[0]),
                host.stale,
                host.cut_out,
                host.cut_in,
                host.epoch == leader.epoch,
                of(f"{state.job}-directory-{host.directory}"),
                of(f"{state.job}-boot-{host.boot}"),
                host.lease_left(world.true_ms),
                host.late_grant and host.clock.remaining(world.true_ms, host.late_grant),
                tuple(sorted(host.troubles)),
                tuple(
                    (of(e.execution_id), e.life.value, e.stopping, e.stop_failed, e.doomed)
                    for e in host.journal.values()
                ),
                tuple((of(r), of(h.user)) for r, h in host.ledger.items()),
                tuple((epoch == leader.epoch, of(c)) for epoch, c in host.commands),
                of(host.unacknowledged),
                of(host.reports),
                of(host.late),
                None
                if known is None
                else (
                    known.registered,
                    known.lost,
                    rename.now_ms - known.heard_ms,
                    of(known.agent),
                ),
                of(state.hosts.get(name)),
            )
        )
    for former in world.former_hosts.values():
        hosts.append(
            (
                former.shares_machine_of,
                former.agent_up,
                former.frozen is not None and (former.frozen[1], world.true_ms - former.frozen[0]),
                former.stale,
                former.lease_left(world.true_ms),
                tuple(sorted(former.troubles)),
                tuple(
                    (of(e.execution_id), e.life.value, e.stopping, e.stop_failed, e.doomed)
                    for e in former.journal.values()
                ),
            )
        )
    brokers, old = world.brokers, world.old
    used = frozenset(leader.requests.used_by.values())
    return (
        state.deployment_id,
        groups,
        tuple(hosts),
        leader.standing.value,
        leader.trap,
        leader.heir_trap,
        tuple(
            (of(r), of(p.ask), p.asked_of, max(0, p.deadline_ms - rename.now_ms))
            for r, p in leader.requests.pending.items()
        ),
        tuple((of(r), h) for r, h in leader.requests.held.items() if r not in used),
        of(leader.notices),
        tuple(leader.unread),
        of(leader.unsent),
        None if old is None else (old.standing.value, of(old.unsent)),
        tuple((of(e), epoch == leader.epoch) for e, epoch in brokers.calls),
        tuple(of(e) for e in sorted(brokers.refused) if e in rename.names),
        tuple(sorted(brokers.topic)),
        tuple(sorted(brokers.asked)),
        tuple(sorted(brokers.locality.items())),
        tuple(sorted((r.uuid, r.status) for r in brokers.responses)),
        of(state.lags),
    )
