"""Copies of tasks spread over processors: evenest first, then fewest moves.

A copy begins where it costs least: on its previous processor, else at the same location, else
anywhere. Then the most loaded processor gives copies away, along the path that moves the fewest,
for as long as that makes the loads evener. A path of several processors is needed where a copy
may not go everywhere: one copy makes room for another.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf, nextafter

Path = list[tuple["Copy", int]]
"""Which copy goes to which processor."""


@dataclass(slots=True, eq=False)
class Copy:
    """An active or a standby task that looks for a processor; processors and locations by number."""

    name: str
    weight: float = 1
    home: int | None = None
    """The previous processor, when it is there and legal."""
    near: int | None = None
    """The previous location."""
    allowed: Sequence[int] | None = None
    """The only processors it may go to; None is all."""
    taken: list[int] = field(default_factory=list[int])
    """Locations of all copies of the task, its own too: no two may share one. One list for all."""
    at: int = -1


class Spread:
    """The loads of the processors and what each has.

    `locations` is processor → location. Both are numbers; equal input gives equal output.
    """

    def __init__(self, locations: Sequence[int], loads: Iterable[float]) -> None:
        self.locations = locations
        self.loads = list(loads)
        self._on: list[list[Copy]] = [[] for _ in locations]
        self._within: dict[int, list[tuple[float, int]]] = {}
        for processor, location in enumerate(locations):
            self._within.setdefault(location, []).append((self.loads[processor], processor))
        for heap in self._within.values():
            heapq.heapify(heap)
        self._across = [(heap[0][0], location) for location, heap in self._within.items()]
        heapq.heapify(self._across)
        self._settled: set[int] = set()

    def spread(self, copies: Sequence[Copy]) -> None:
        """Gives every copy a processor (`Copy.at`)."""
        for copy in copies:
            if copy.home is not None:
                self._put(copy, copy.home)
        homeless = [copy for copy in copies if copy.home is None]
        # Those at their previous location come first, so that they are the last to leave it.
        for copy in homeless:
            if copy.near in self._within and self._free(copy, copy.near):
                self._put(copy, self._first_at(copy.near, copy))
        for copy in homeless:
            if copy.at < 0:
                self._put(copy, self._lightest_for(copy))
        self._level()
        self._go_home(copies)

    def _free(self, copy: Copy, location: int) -> bool:
        return location not in copy.taken and (
            copy.allowed is None or any(self.locations[each] == location for each in copy.allowed)
        )

    def _first_at(self, location: int, copy: Copy) -> int:
        if copy.allowed is None:
            return self._top(location)[1]
        return min(
            (each for each in copy.allowed if self.locations[each] == location),
            key=lambda each: (self.loads[each], each),
        )

    def _lightest_for(self, copy: Copy) -> int:
        if copy.allowed is not None:
            return min(copy.allowed, key=lambda each: (self.loads[each], each))
        found = self._lightest(copy.taken)
        assert found is not None, "a copy is only asked for where a location is left"
        return found

    def _level(self) -> None:
        """The heaviest first, and of those that are as heavy the one that moves the fewest from home."""
        heaviest = [(-load, 0, processor) for processor, load in enumerate(self.loads)]
        heapq.heapify(heaviest)
        while heaviest:
            load, expected, processor = heapq.heappop(heaviest)
            if -load != self.loads[processor] or processor in self._settled:
                continue
            path = self._step_from(processor) or self._path(
                processor, self.loads[processor], self._settled
            )
            moves = sum(copy.home == copy.at for copy, _ in path)
            if moves > expected:
                heapq.heappush(heaviest, (load, moves, processor))
                continue
            for copy, target in path:
                self._move(copy, target)
            if path:
                for each in (processor, path[-1][1]):
                    heapq.heappush(heaviest, (-self.loads[each], 0, each))

    def _step_from(self, processor: int) -> Path:
        """A single copy that makes it evener; those that have moved anyway before those at home."""
        limit = self.loads[processor]
        for copy in reversed(self._on[processor]):
            for target in self._steps(copy, processor):
                if self.loads[target] + copy.weight < limit:
                    return [(copy, target)]
        return []

    def _steps(self, copy: Copy, processor: int) -> Iterable[int]:
        """The lightest that it may go to: at its location, then elsewhere."""
        if copy.allowed is not None:
            yield min(copy.allowed, key=lambda each: (self.loads[each], each))
            return
        yield self._top(self.locations[processor])[1]
        elsewhere = self._lightest(copy.taken)
        if elsewhere is not None:
            yield elsewhere

    def _path(
        self, start: int, limit: float, closed: set[int], *, coming: Copy | None = None
    ) -> Path:
        """The path to a processor that stays below the limit which moves the fewest from home; or [].

        With a copy that is `coming` to its start: the path by which those that aren't at home make
        room, on to where it comes from at the latest.

        What a search without success has reached is `closed` to later ones of the same or a lower
        limit. So all of these together look at each copy once.
        """
        came: dict[int, tuple[int, Copy]] = {}
        done: set[int] = set()
        missing: dict[int, set[int]] = {}  # moves → processors that no arc of as few has reached
        order = count()
        best = {start: 0}
        queue = [(0, next(order), start)]
        while queue:
            moves, _, here = heapq.heappop(queue)
            if here in done:
                continue
            done.add(here)
            arrived = came[here][1] if here != start else coming
            more = arrived.weight if arrived else 0
            if self.loads[here] + more < limit or (coming and here == coming.at):
                return self._walked(came, start, here, coming)
            for copy in reversed(self._on[here]):
                cost = moves + (copy.home == here)
                if (arrived and copy.weight != more) or (coming and cost):
                    continue  # loads between the two ends stay as they are
                if cost not in missing:
                    missing[cost] = {
                        each
                        for each in range(len(self.loads))
                        if each not in closed and best.get(each, cost + 1) > cost
                    }
                open_to = missing[cost]
                for target in self._may_go(copy, here, open_to):
                    open_to.discard(target)
                    if target not in done and cost < best.get(target, cost + 1):
                        best[target] = cost
                        came[target] = (here, copy)
                        heapq.heappush(queue, (cost, next(order), target))
        closed |= done
        return []

    def _may_go(self, copy: Copy, here: int, among: set[int]) -> list[int]:
        if copy.allowed is not None:
            return [each for each in copy.allowed if each in among]
        own = self.locations[here]
        return sorted(
            each
            for each in among
            if self.locations[each] == own or self.locations[each] not in copy.taken
        )

    def _walked(
        self, came: Mapping[int, tuple[int, Copy]], start: int, end: int, coming: Copy | None
    ) -> Path:
        """The path back from its end; [] when two copies of a task would go to one location."""
        path: Path = []
        while end != start:
            before, copy = came[end]
            path.append((copy, end))
            end = before
        if coming:
            path.append((coming, start))
        entered = {(id(copy.taken), self.locations[target]) for copy, target in path}
        return path[::-1] if len(entered) == len(path) else []

    def _go_home(self, copies: Sequence[Copy]) -> None:
        """Back to where they were, those that may without making loads less even."""
        closed: set[int] = set()
        for copy in sorted(copies, key=lambda each: -self.loads[each.at]):
            home = copy.home
            if home is None or home == copy.at or home in closed:
                continue
            if not self._may_go(copy, copy.at, {home}):
                continue
            limit = nextafter(self.loads[copy.at], inf)
            path = self._path(home, limit, closed, coming=copy)
            for each, target in path:
                self._move(each, target)
            if path:
                closed.clear()

    def _move(self, copy: Copy, target: int) -> None:
        left = copy.at
        self._on[left].remove(copy)
        copy.taken.remove(self.locations[left])
        self._weigh(left, -copy.weight)
        self._put(copy, target)

    def _put(self, copy: Copy, target: int) -> None:
        copy.at = target
        copy.taken.append(self.locations[target])
        self._on[target].append(copy)
        self._weigh(target, copy.weight)

    def _weigh(self, processor: int, weight: float) -> None:
        self.loads[processor] += weight
        location = self.locations[processor]
        heapq.heappush(self._within[location], (self.loads[processor], processor))
        if weight < 0:  # of each location, `_across` has an entry that is at most its lightest load
            heapq.heappush(self._across, (self.loads[processor], location))

    def _top(self, location: int) -> tuple[float, int]:
        heap = self._within[location]
        while heap[0][0] != self.loads[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0]

    def _lightest(self, taken: Collection[int]) -> int | None:
        """The least loaded processor at a location that isn't taken."""
        aside: list[tuple[float, int]] = []
        found = None
        while self._across and found is None:
            load, location = self._across[0]
            lightest, processor = self._top(location)
            if load < lightest:
                heapq.heapreplace(self._across, (lightest, location))
            elif load > lightest:
                heapq.heappop(self._across)
            elif location in taken:
                aside.append(heapq.heappop(self._across))
            else:
                found = processor
        for entry in aside:
            heapq.heappush(self._across, entry)
        return found
