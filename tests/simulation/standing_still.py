"""How some histories go on: a standby stands still again and again, in a world that is fair.

It is told just before its pause is over and then, or when it has applied for as long as makes a
stall a first one, to the millisecond. Now and then another coordinator leads, or only the
hosts of its group are left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from samza_dagster.placement.state import Group, Phase, Processor, Role
from tests.simulation import happenings
from tests.simulation.moves import Move
from tests.simulation.world import World

SHARE = 0.1
"""How many histories go on so."""
APPLIES, TAKEN_OVER, ALONE, MENDED = 0.2, 0.1, 0.2, 0.2
_MINUTE_MS = 60_000
_APPLIED_FOR_LONG_MS = 30 * _MINUTE_MS
"""docs/architecture/placement.md: after that a stall is a first one."""
_PAUSES_MS = tuple(minutes * _MINUTE_MS for minutes in (0, 0, 5, 10, 20, 40, 60))
"""docs/architecture/placement.md: how long it runs on after its last of so many restarts."""
_LONGEST = 150
"""So many fair moves bring a group back to where all of it runs, or the history is over."""


def standing_still(world: World, seed: int) -> Iterator[Move]:
    """The moves; each is to be done before the next is asked for. None for most seeds."""
    lots = random.Random(f"stalls {seed}")
    if lots.random() >= SHARE:
        return
    yield from _mend(world)
    name = ""
    for _ in range(lots.choice((3, 5, 9))):
        if lots.random() < TAKEN_OVER:
            yield Move("kill-leader")
        yield from _until_it_runs(world, name)
        running = _running(world, name)
        if not (running and world.led()):
            return
        group, standby = lots.choice(running)
        name = standby.processor_id
        fate = lots.random()
        if fate < ALONE:
            yield from _leave(world, group)
        elif fate < ALONE + MENDED:
            yield from _mend(world)
        yield from _stall(world, standby, lots)


def _stall(world: World, standby: Processor, lots: random.Random) -> Iterator[Move]:
    row, incarnation = standby.stalled_at_ms, standby.incarnation
    assert incarnation is not None
    last_ms = row[-1] if row else world.now_ms
    if row and lots.random() < APPLIES:
        yield from _wait(world, last_ms + _APPLIED_FOR_LONG_MS + lots.choice((1, 60_000)))
        for_ms = world.now_ms - last_ms - _APPLIED_FOR_LONG_MS + lots.choice((0, 1))
        yield Move("stall", (incarnation.execution_id, for_ms))
        return
    for early_ms in (1, 0):
        yield from _wait(world, last_ms + _PAUSES_MS[min(len(row), len(_PAUSES_MS) - 1)] - early_ms)
        yield Move("stall", (incarnation.execution_id,))


def _wait(world: World, until_ms: int) -> Iterator[Move]:
    """Until the clock of a leader that is busy shows it: what others wait for costs no events."""
    ms = world.leader.clock.when(until_ms) - world.true_ms
    if ms > 0:
        yield Move("leap", (ms,))


def _mend(world: World) -> Iterator[Move]:
    for host in world.hosts:
        yield Move("mend", (host,))


def _leave(world: World, group: Group) -> Iterator[Move]:
    """Every host is lost on which nobody of the group is."""
    own = {p.incarnation.host for p in group.processors.values() if p.incarnation is not None}
    for host in sorted(world.hosts.keys() - own):
        yield Move("silence", (host,))


def _until_it_runs(world: World, name: str) -> Iterator[Move]:
    for _ in range(_LONGEST):
        if world.led() and _running(world, name):
            return
        yield next(iter(happenings.due(world)), Move("tick"))


def _running(world: World, name: str) -> list[tuple[Group, Processor]]:
    """Standbys that run in a group in which nothing is under way: that one, or "" for any."""
    groups = world.committed.groups
    return [
        (group, processor)
        for _, group in sorted(groups.items())
        if group.action is None and group.failover is None
        if all(member.phase is Phase.RUNNING for member in group.processors.values())
        for processor in group.processors.values()
        if processor.role is Role.STANDBY and name in ("", processor.processor_id)
    ]
