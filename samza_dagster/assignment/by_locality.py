"""Our own grouper: tasks stay with their state as long as the loads are even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType

from samza_dagster.assignment.contract import TaskLocality, containers_of, in_order, task_name
from samza_dagster.assignment.spread import Copy, Spread
from samza_dagster.model import ContainerModel, TaskMode, TaskModel
from samza_dagster.model.naming import ANY_HOST, active_task_of

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
NOBODY: Mapping[str, str] = MappingProxyType({})


def by_locality(
    tasks: Sequence[TaskModel],
    task_locality: Mapping[str, TaskLocality],
    processor_locality: Mapping[str, str],
    *,
    weights: Mapping[str, float] = NO_WEIGHTS,
    actives_only: Set[str] = frozenset(),
    placed: Mapping[str, str] = NOBODY,
) -> dict[str, ContainerModel]:
    """Group the actives, then the standbys around them, each by these aims in this order.

    - Legality: two copies of a task are never at one location. A standby for which no location
      is left has no container.
    - A task that is pinned to a location with processors is at one of them; a standby only where
      its active isn't. No active leaves its location for the one to which its standby is pinned.
    - Fewest tasks started without their standby: an active that is to have standbys starts where
      a copy of it was, as long as one is left. So a processor that joins gets standbys first, and
      actives once these are there.
    - The loads are as even as that allows: actives among themselves, then all copies together.
    - Fewest moves from the previous processor, nearly so for standbys where a task has two or more.
      A copy that moves stays at its location where possible, or goes to a processor that had it
      formerly.

    `weights` is task name → load of the task, 1 unless it is given; a standby's is its active's.
    Processors in `actives_only` get no standbys, so an active may start there without one. `placed`
    are actives that another grouper has placed, by task name: they are there.
    """
    group = _Group(task_locality, processor_locality, weights, actives_only, placed)
    by_mode: dict[TaskMode, list[TaskModel]] = {mode: [] for mode in TaskMode}
    for task in sorted(tasks, key=task_name):
        by_mode[task.task_mode].append(task)
    standbys: dict[str, list[str]] = {}
    for task in by_mode[TaskMode.STANDBY]:
        standbys.setdefault(active_task_of(task.task_name), []).append(task.task_name)
    actives = [
        group.active(task.task_name, standbys.get(task.task_name, ()))
        for task in by_mode[TaskMode.ACTIVE]
    ]
    spread = Spread(group.locations, [0.0] * len(group.processors))
    spread.spread(actives)
    found = {copy.name: copy.at for copy in actives}
    if standbys:
        copies = [group.standbys(each, standbys.get(each.name, ())) for each in actives]
        Spread(group.of_standbys, spread.loads).spread(group.apart(actives, copies))
        found |= {copy.name: copy.at for of_one in copies for copy in of_one}
    grouped: dict[str, list[TaskModel]] = {each: [] for each in group.processors}
    for task in tasks:
        if task.task_name in found:
            grouped[group.processors[found[task.task_name]]].append(task)
    return containers_of(grouped, processor_locality)


_NOWHERE = -1
"""The location, for standbys, of the processors that may have none; taken for each of them."""


class _Group:
    """The processors and locations by number, and the copies that look for one of them.

    A processor at an unknown location counts as one at a location of its own.
    """

    def __init__(
        self,
        task_locality: Mapping[str, TaskLocality],
        processor_locality: Mapping[str, str],
        weights: Mapping[str, float],
        actives_only: Set[str],
        placed: Mapping[str, str],
    ) -> None:
        self._placed = placed
        self.processors = in_order(processor_locality)
        self._task_locality = task_locality
        self._weights = weights
        self._number = {each: number for number, each in enumerate(self.processors)}
        self._location: dict[str, int] = {}
        self.locations: list[int] = []
        self._members: list[list[int]] = []
        for number, processor in enumerate(self.processors):
            named = processor_locality[processor]
            location = len(self._members)
            if named != ANY_HOST:
                location = self._location.setdefault(named, location)
            if location == len(self._members):
                self._members.append([])
            self._members[location].append(number)
            self.locations.append(location)
        self._actives_only = {n for n, each in enumerate(self.processors) if each in actives_only}
        self.of_standbys = [
            _NOWHERE if number in self._actives_only else location
            for number, location in enumerate(self.locations)
        ]
        self._standby_locations = set(self.of_standbys) - {_NOWHERE}

    def active(self, name: str, standbys: Sequence[str]) -> Copy:
        """Place an active; with standbys to come, it starts where a copy of it was, if one is left."""
        weight = self._weights.get(name, 1)
        if name in self._placed:
            there = [self._number[self._placed[name]]]
            return Copy(name, weight, there, allowed=there)
        pin = self._pin(name)
        homes, near = self._last(name)
        if homes and self._stays(name):
            return Copy(name, weight, homes, near, allowed=homes)
        if pin is not None:
            return self._held(Copy(name, weight, homes), pin)
        # The state of a standby without a processor is as old as that of a former processor.
        had = [each for each in standbys if self._is_had(each)] if self._is_had(name) else standbys
        warm = {self._last(each)[1] for each in had} or {near for _ in standbys}
        allowed = None
        if warm:
            known = {place for place in (near, *warm) if place is not None}
            claimed = {self._pin(each) for each in standbys} - {near}
            places = sorted(known - claimed or known)
            allowed = [each for place in places for each in self._members[place]] or None
            if allowed is not None:
                also = {each for each in self._actives_only if self.locations[each] not in claimed}
                allowed = sorted({*allowed, *also})
        return Copy(name, weight, homes, near, allowed, self._former(name))

    def standbys(self, active: Copy, names: Sequence[str]) -> list[Copy]:
        """Return as many standbys as there are locations for them. A copy that can stays, or takes the place that
        the active has left: the state is there too.
        """
        places = {self.locations[active.at]}
        pinned: dict[str, int] = {}
        for name in names:
            pin = self._pin(name)
            if pin is not None and pin in self._standby_locations - places:
                pinned[name] = pin
                places.add(pin)
        last: dict[str, tuple[Sequence[int], int | None]] = {}
        for name in (active.name, *names):
            homes, near = self._last(name)
            if name in pinned or near is None or near in places:
                continue
            if self._actives_only.isdisjoint(homes):
                last[name] = (homes, near)
                if name != active.name:
                    places.add(near)
        left_behind, near_it = last.pop(active.name, ((), None))
        here = self.locations[active.at]
        left = len(self._standby_locations) - (here in self._standby_locations)
        kept = sorted(names, key=lambda each: (each not in pinned, each not in last))[:left]
        heirs = [name for name in kept if name not in pinned and name not in last] or kept
        taken = [here, _NOWHERE]
        copies: list[Copy] = []
        for name in kept:
            if name in pinned:
                copy = Copy(name, active.weight, self._last(name)[0], taken=taken)
                held = self._held(copy, pinned[name], but=self._actives_only)
                if held.homes and self._stays(name):
                    held = replace(held, allowed=held.homes)
                copies.append(held)
                continue
            homes, near = last.get(name, ((), near_it))
            allowed = homes if homes and self._stays(name) else None
            if name in heirs:
                homes = (*homes, *left_behind)
            copies.append(
                Copy(name, active.weight, homes, near, allowed, self._former(name), taken)
            )
        return copies

    def apart(self, actives: Sequence[Copy], standbys: Sequence[Sequence[Copy]]) -> list[Copy]:
        """Return the standbys in an order that spreads those of one processor over many others.

        Then many others share the work after its death: the first task of each processor has its
        standby on the next one, the second on the one after that, and so on.
        """
        others = max(1, len(self.processors) - 1)
        ranks = Counter[int]()
        ordered: list[tuple[int, int, Copy]] = []
        for active, copies in zip(actives, standbys, strict=True):
            for replica, copy in enumerate(copies):
                step = 1 + (ranks[active.at] + replica) % others
                target = (active.at + step) % len(self.processors)
                ordered.append((ranks[active.at], target, copy))
            ranks[active.at] += 1
        return [copy for _, _, copy in sorted(ordered, key=lambda each: each[:2])]

    def _is_had(self, name: str) -> bool:
        """Return whether a processor has it by the newest assignment."""
        known = self._task_locality.get(name)
        return known is not None and known.processor_id != ""

    def _stays(self, name: str) -> bool:
        known = self._task_locality.get(name)
        return known is not None and known.stays

    def _former(self, name: str) -> list[int]:
        """Return the present processors that had it formerly, newest first."""
        known = self._task_locality.get(name)
        former = () if known is None else known.former
        return [self._number[each] for each in former if each in self._number]

    def _pin(self, name: str) -> int | None:
        """Return the location to which a task is pinned, if that has processors."""
        known = self._task_locality.get(name)
        return None if known is None else self._location.get(known.pinned_to)

    def _held(self, copy: Copy, location: int, but: Set[int] = frozenset()) -> Copy:
        """Keep the copy at a location: where it was, else the processor there with the fewest tasks."""
        allowed = [each for each in self._members[location] if each not in but]
        homes = [home for home in copy.homes if home in allowed]
        return replace(copy, homes=homes, near=location, allowed=allowed)

    def _last(self, name: str) -> tuple[Sequence[int], int | None]:
        """Return the previous processor if it is there with the state, and the previous location if in use."""
        known = self._task_locality.get(name)
        if known is None:
            return (), None
        home = self._number.get(known.processor_id)
        if home is None:
            return (), self._location.get(known.location_id)
        if (
            known.location_id != ANY_HOST
            and self._location.get(known.location_id) != self.locations[home]
        ):
            return (), self._location.get(known.location_id)
        return (home,), self.locations[home]
