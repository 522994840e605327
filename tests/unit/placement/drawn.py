"""Groups drawn by lot: anything that a group may hold at once, also what histories seldom do."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rpds import HashTrieMap

from samza_dagster.model import naming
from samza_dagster.model.own_requests import LONGEST_EXPIRY_MS, RequestKind
from samza_dagster.placement.state import (
    Action,
    End,
    Ended,
    Failover,
    Fallback,
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Limits,
    Move,
    Orphan,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Restart,
    Role,
    SpinUp,
    StandbyPlace,
    Start,
    StopStandby,
    Swap,
)

HOSTS = tuple(f"host-{number}" for number in range(1, 9))
ACTIVE, STANDBYS, NEW = "0", ("0-0", "0-1"), "0-2"
DESTINATIONS = (*sorted(naming.DESTINATION_WORDS), *HOSTS, "host-77")
_HAS_PROCESS = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
_KINDS = (
    RequestKind.PLACE,
    RequestKind.FAIL_OVER,
    RequestKind.START_STANDBY,
    RequestKind.STOP_STANDBY,
)


def states(count: int) -> Iterator[tuple[JobState, Group]]:
    """So many jobs of one group; the same ones each time."""
    for seed in range(count):
        lots = Random(seed)
        group = _group(lots)
        yield _state(lots, group), group


def _state(lots: Random, group: Group) -> JobState:
    hosts = {
        name: Host(name, alive=lots.random() < 0.8, fault_domain=lots.choice(("", "a", "b", "c")))
        for name in HOSTS[: lots.randint(4, 8)]
    }
    lags = {
        pid: Lag(
            pid,
            lots.choice((None, 0, 1, 2)),
            lots.choice((None, 0, 5)),
            lots.randint(0, 9),
            lots.choice((3, 60_000)),
        )
        for pid in STANDBYS
        if lots.random() < 0.7
    }
    return JobState(
        "demo",
        groups=HashTrieMap({group.group_id: group}),
        hosts=HashTrieMap(hosts),
        lags=HashTrieMap(lags),
        limits=Limits(host_affinity=lots.random() < 0.7, max_standbys=lots.randint(1, 3)),
        now_ms=10,
    )


def _group(lots: Random) -> Group:
    members = (ACTIVE, *STANDBYS[: lots.randint(0, 2)])
    free = lots.sample(HOSTS, len(HOSTS))  # no two of a group are on one
    return Group(
        ACTIVE,
        {pid: _processor(lots, pid, free) for pid in members},
        action=_action(lots, members, free) if lots.random() < 0.5 else None,
        queue=tuple(_ask(lots, members) for _ in range(lots.randint(0, 3))),
        failover=_failover(lots, members) if lots.random() < 0.2 else None,
        orphans=tuple(_orphan(lots, members, n, free) for n in range(lots.choice((0, 0, 1, 2)))),
    )


def _processor(lots: Random, processor_id: str, free: list[str]) -> Processor:
    phase = lots.choice((*Phase, Phase.RUNNING, Phase.RUNNING))
    asked = {Phase.REQUESTING: False, Phase.RESERVED: True}.get(phase)
    return Processor(
        processor_id,
        Role.ACTIVE if processor_id == ACTIVE else Role.STANDBY,
        phase,
        incarnation=_incarnation(processor_id, free) if phase in _HAS_PROCESS else None,
        request=None if asked is None else _request(lots, free, held=asked),
        last_seen_host=lots.choice((None, *HOSTS)),
        avoid_hosts=tuple(lots.sample(HOSTS, lots.choice((0, 0, 1, 2)))),
        failed_at_ms=(5,) if lots.random() < 0.6 else (),
        wanted=lots.random() < 0.9,
    )


def _incarnation(processor_id: str, free: list[str], epoch: int = 9) -> Incarnation:
    return Incarnation(epoch, f"{processor_id}_{epoch}", free.pop(), "r")


def _request(lots: Random, free: list[str], *, held: bool) -> ResourceRequest:
    host = free.pop() if held or lots.random() < 0.5 else None
    named = host if lots.random() < 0.5 else None
    return ResourceRequest("r", named if held else host, (), 99, host if held else None)


def _orphan(lots: Random, members: tuple[str, ...], number: int, free: list[str]) -> Orphan:
    processor_id = lots.choice((*members, NEW))
    ended = lots.choice((None, Ended.LEASE, Ended.FENCED))
    incarnation = _incarnation(processor_id, free, epoch=number + 1)
    end = None if ended is None else End(incarnation.execution_id, number + 1, "", ended, 3)
    elsewhere = lots.random() < 0.3
    return Orphan(processor_id, incarnation, 2, 3, True, False, ended, end, elsewhere)


def _ask(lots: Random, members: tuple[str, ...]) -> PlacementAsk:
    """Whatever a client may ask for."""
    return PlacementAsk(
        f"u{lots.randint(0, 999)}",
        "run",
        lots.choice((*members, NEW)),
        lots.choice(DESTINATIONS),
        0,
        expiry_ms=lots.choice((None, 5, LONGEST_EXPIRY_MS, LONGEST_EXPIRY_MS + 1)),
        kind=lots.choice(_KINDS),
        hold=lots.random() < 0.3,
    )


def _action(lots: Random, members: tuple[str, ...], free: list[str]) -> Action:
    kind = lots.choice(_KINDS)
    about = members if kind is RequestKind.PLACE else (ACTIVE,)
    if kind is RequestKind.STOP_STANDBY:
        about = (*members[1:], NEW)
    ask = PlacementAsk("u", "run", lots.choice(about), lots.choice(DESTINATIONS), 0, kind=kind)
    source = lots.choice(HOSTS)
    held = lots.random() < 0.6
    if kind is RequestKind.START_STANDBY:
        return SpinUp(ask, NEW, None if held else _request(lots, free, held=False))
    if kind is RequestKind.STOP_STANDBY:
        return StopStandby(ask, source, stopping_already=held)
    place = None
    if len(members) > 1 and ask.processor_id == ACTIVE and lots.random() < 0.5:
        place = StandbyPlace(lots.choice(members[1:]), lots.choice(HOSTS))
    match lots.choice((Swap, Move, Move, Move, Restart, Start, Start, Fallback)):
        case kind if kind is Swap and place is not None:
            reserves = lots.random() < 0.6
            request = _request(lots, free, held=held) if reserves else None
            return Swap(ask, source, place, request)
        case kind if kind is Restart:
            return Restart(ask, source, stopped=(ask.processor_id,))
        case kind if kind is Start:
            return Start(ask, source, place)
        case kind if kind is Fallback:
            return Fallback(ask, source, to_source=held)
        case _:
            stopped = (ask.processor_id,) if held and lots.random() < 0.5 else ()
            return Move(ask, source, _request(lots, free, held=held), place, stopped=stopped)


def _failover(lots: Random, members: tuple[str, ...]) -> Failover | None:
    if len(members) == 1:
        return None
    return Failover(ACTIVE, lots.choice(members[1:]), lots.choice(HOSTS), 1, "")
