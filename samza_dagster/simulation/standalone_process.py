"""One processor of a virtual group: its process, its clock and its containers, which take a while to end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from samza_dagster.model import ContainerModel, TaskMode
from samza_dagster.standalone import commands
from samza_dagster.standalone import processor as rules
from samza_dagster.standalone.group import BarrierState, GroupView
from samza_dagster.standalone.processor import ProcessorState

_HANGING = 0.3
_STOPS_WITHIN_MS = 900
"""Less than `stop_ms` by what the clocks may differ over a session."""
_AT_WORK_WITHIN_MS = 2_000
_WARM_WITHIN_MS = 4_000
_NEVER_MS = 10**12


@dataclass
class VirtualProcess:
    """`run` are its containers by id; when each of them will have ended, be at work or ready to start, in the world's time.

    `hangs`: a container may start that is never at work. `is_leaving`: it ends its work, then its node. `was_ended`: one
    has ended that it hadn't told to, and others may run on. `left` is what it was in the middle of when it was paused.
    """

    state: ProcessorState
    rate: float
    offset_ms: int
    run: dict[str, ContainerModel] = field(default_factory=dict[str, ContainerModel])
    ends_ms: dict[str, int] = field(default_factory=dict[str, int])
    at_work_ms: dict[str, int] = field(default_factory=dict[str, int])
    warm_ms: dict[str, int] = field(default_factory=dict[str, int])
    hangs: bool = False
    is_leaving: bool = False
    was_ended: bool = False
    lease_ms: int = 0
    paused_until_ms: int = 0
    cut_off_until_ms: int = 0
    reading: tuple[int, int, GroupView] | None = None
    left: tuple[ProcessorState, tuple[commands.Command, ...]] | None = None
    seen: GroupView = field(default_factory=GroupView)

    @property
    def is_samzas(self) -> bool:
        """One of Samza's own, which stops later than ours."""
        return self.state.settings.stop_ms < 0

    def clock(self, now_ms: int) -> int:
        """What it takes for the time."""
        return int(now_ms * self.rate) + self.offset_ms

    def stops_by_itself_ms(self) -> int:
        """When it begins to stop its work without ZooKeeper, in the world's time."""
        return math.ceil((rules.silent_from(self.state) - self.offset_ms) / self.rate)

    def end_what_is_due(self, now_ms: int, *, by_lease: bool) -> None:
        """Whatever the process does meanwhile; `by_lease`: its wardens end what outlives the lease."""
        if by_lease and now_ms >= self.lease_ms:
            self.run.clear()
        for ended in [each for each, ms in self.ends_ms.items() if now_ms >= ms]:
            self.run.pop(ended, None)

    def start(self, containers: tuple[ContainerModel, ...], now_ms: int, random: Random) -> str:
        """Starts them; what is wrong with that, or nothing."""
        for each in containers:
            if each.processor_id in self.run:
                return each.processor_id
            self.run[each.processor_id] = each
            is_hung = self.hangs and not self.is_samzas and random.random() < _HANGING
            within_ms = _NEVER_MS if is_hung else random.randrange(_AT_WORK_WITHIN_MS)
            self.at_work_ms[each.processor_id] = now_ms + within_ms
        return ""

    def stop(self, containers: frozenset[str], now_ms: int, random: Random) -> None:
        """Tells them to end."""
        for each in sorted(containers):
            self.ends_ms[each] = now_ms + random.randrange(_STOPS_WITHIN_MS)

    def expect(self, containers: tuple[ContainerModel, ...], now_ms: int, random: Random) -> None:
        """Gets ready for their start."""
        self.warm_ms = {
            each.processor_id: now_ms + random.randrange(_WARM_WITHIN_MS) for each in containers
        }

    def tell_of_containers(self, now_ms: int) -> None:
        """Its rules hear what has ended and what is at work."""
        state = self.state
        ended = {each.processor_id for each in state.work.running} - self.run.keys()
        if ended:
            self.was_ended |= not ended <= self.ends_ms.keys()
            state = rules.stopped(state, frozenset(ended))
        self.was_ended &= bool(self.run)
        for each in [each for each, ms in self.at_work_ms.items() if now_ms >= ms]:
            state = rules.at_work(state, each, self.clock(now_ms))
            del self.at_work_ms[each]
        for each in [each for each, ms in self.warm_ms.items() if now_ms >= ms]:
            state = rules.is_there(state, each, self.clock(now_ms))
            del self.warm_ms[each]
        for each in ended:
            self.ends_ms.pop(each, None)
            self.at_work_ms.pop(each, None)
        self.state = state

    def hung(self, now_ms: int) -> list[str]:
        """Its containers that are never at work."""
        return [
            each for each in self.run if self.at_work_ms.get(each, 0) > now_ms + _AT_WORK_WITHIN_MS
        ]

    def active_containers(self) -> Iterator[ContainerModel]:
        """Those that weren't told to end."""
        for own, each in self.run.items():
            if own not in self.ends_ms and each.mode is TaskMode.ACTIVE:
                yield each

    def interrupted(self, ending: frozenset[str], now_ms: int) -> list[str]:
        """Containers that a version ends before it is agreed on though it leaves all of their active tasks here.

        Unless it has too many of them, or another one has ended by itself, or ZooKeeper was asked too long ago.
        """
        if self.stops_by_itself_ms() <= now_ms:
            return []
        barrier, given = self.seen.barrier, self.seen.work_of(self.state.processor_id)
        actives = [each for each in self.run.values() if each.mode is TaskMode.ACTIVE]
        is_new = barrier is not None and barrier.state is BarrierState.NEW
        here = {name for each in actives for name in each.tasks}
        is_starting = any(
            each.mode is TaskMode.ACTIVE and not each.tasks.keys() & here
            for each in self.state.work.wanted
        )
        too_many = len(actives) + is_starting > self.state.settings.containers
        if not is_new or given is None or self.state.sequence is None or too_many or self.was_ended:
            return []
        staying = [
            each.processor_id for each in actives if each.tasks.items() <= given.tasks.items()
        ]
        return sorted(ending & set(staying))
