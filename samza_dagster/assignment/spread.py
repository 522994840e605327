"""Copies of tasks spread over processors: evenest first, then fewest moves.

A copy begins where it costs least: on its previous processor, else at the same location, else
anywhere. Then the most loaded processor gives copies away for as long as that makes the loads
evener. A path of several processors is needed where a copy may not go everywhere: one copy makes
room for another. At the end copies change places for as long as that takes fewer of them from home.

With copies of one weight this is a min-cost flow. Where no path makes it evener and no exchange
saves a move, the flow has no negative cycle, so there is none better. Two standbys of one task that
would go to one location are not seen by a flow: with these it is nearly the best.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

Path = list[tuple["Copy", int]]
"""Which copy goes to which processor."""


@dataclass(slots=True, eq=False)
class Copy:
    """An active or a standby task that looks for a processor.

    Processors and locations by number.
    """

    name: str
    weight: float = 1
    homes: Sequence[int] = ()
    """Where its state is: the previous processor, when it is there and legal; the preferred one first."""
    near: int | None = None
    """The previous location."""
    allowed: Sequence[int] | None = None
    """The only processors it may go to; None is all."""
    former: Sequence[int] = ()
    """Where it was before that; the preferred one first, if it moves anyway."""
    taken: list[int] = field(default_factory=list[int])
    """Locations of all copies of the task, its own too: no two may share one. One list for all."""
    at: int = -1

    @property
    def strayed(self) -> bool:
        """Return whether it has a home and is elsewhere."""
        return bool(self.homes) and self.at not in self.homes


class Spread:
    """The loads of the processors and what each has.

    `locations` is processor → location. Both are numbers; equal input gives equal output.
    """

    def __init__(self, locations: Sequence[int], loads: Iterable[float]) -> None:
        self.locations = locations
        self.loads = list(loads)
        self.on: list[list[Copy]] = [[] for _ in locations]
        """Processor → the copies that it has."""
        self._within: dict[int, list[tuple[float, int]]] = {}
        for processor, location in enumerate(locations):
            self._within.setdefault(location, []).append((self.loads[processor], processor))
        for heap in self._within.values():
            heapq.heapify(heap)
        self._across = [(heap[0][0], location) for location, heap in self._within.items()]
        heapq.heapify(self._across)
        self._settled: set[int] = set()

    def spread(self, copies: Sequence[Copy]) -> None:
        """Give every copy a processor (`Copy.at`)."""
        for copy in copies:
            for home in copy.homes:
                if copy.at < 0 and self._free(copy, self.locations[home]):
                    self._put(copy, home)
        homeless = [copy for copy in copies if copy.at < 0]
        # Those at their previous location come first, so that they are the last to leave it.
        for copy in homeless:
            if copy.near in self._within and self._free(copy, copy.near):
                self._put(copy, self._first_at(copy.near, copy))
        for copy in homeless:
            if copy.at < 0:
                self._put(copy, self._lightest_for(copy))
        self._level()
        self._exchange(copies)
        self._return(copies)

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
        """Even the loads out: the heaviest processor gives away first."""
        heaviest = [(-load, processor) for processor, load in enumerate(self.loads)]
        heapq.heapify(heaviest)
        while heaviest:
            load, processor = heapq.heappop(heaviest)
            if -load != self.loads[processor] or processor in self._settled:
                continue
            path = self._step_from(processor) or self._path_from(processor)
            for copy, target in path:
                self._move(copy, target)
            if path:
                for each in (processor, path[-1][1]):
                    heapq.heappush(heaviest, (-self.loads[each], each))

    def _step_from(self, processor: int) -> Path:
        """Return a single copy's step that evens the loads.

        Moved copies come before those at home.
        """
        limit = self.loads[processor]
        for copy in reversed(self.on[processor]):
            for target in self._steps(copy, processor):
                if self.loads[target] + copy.weight < limit:
                    return [(copy, target)]
        return []

    def _steps(self, copy: Copy, processor: int) -> Iterable[int]:
        """Yield the lightest processors that it may go to: at its location, then elsewhere."""
        if copy.allowed is not None:
            yield min(copy.allowed, key=lambda each: (self.loads[each], each))
            return
        yield self._top(self.locations[processor])[1]
        elsewhere = self._lightest(copy.taken)
        if elsewhere is not None:
            yield elsewhere

    def _path_from(self, start: int) -> Path:
        """Return the shortest path to a processor that stays lighter than the start is; or [].

        A processor that a failed search has reached is settled: no later search enters it. So all
        searches together look at each copy once.
        """
        came: dict[int, tuple[int, Copy]] = {}
        queue = deque([start])
        missing = set(range(len(self.loads))) - self._settled - {start}
        while queue:
            here = queue.popleft()
            arrived = came[here][1] if here != start else None
            if arrived and self.loads[here] + arrived.weight < self.loads[start]:
                path = _walked(came, start, here)
                return path if self._keeps_apart(path) else []
            for copy in reversed(self.on[here]):
                if arrived and copy.weight != arrived.weight:
                    continue  # loads between the two ends stay as they are
                for target in self.may_go(copy, here, missing):
                    missing.discard(target)
                    came[target] = (here, copy)
                    queue.append(target)
        self._settled |= {start, *came}
        return []

    def may_go(self, copy: Copy, here: int, among: set[int]) -> list[int]:
        """Return the processors among these to which a copy may go from here."""
        if copy.allowed is not None:
            return [each for each in copy.allowed if each in among]
        own = self.locations[here]
        return sorted(
            each
            for each in among
            if self.locations[each] == own or self.locations[each] not in copy.taken
        )

    def _keeps_apart(self, path: Path) -> bool:
        """Return whether no two copies of a task go to one location."""
        entered = {(id(copy.taken), self.locations[target]) for copy, target in path}
        return len(entered) == len(path)

    def _exchange(self, copies: Sequence[Copy]) -> None:
        """Exchange copies, without making loads less even, until no exchange saves a move."""
        stuck: set[str] = set()
        for weight in sorted({copy.weight for copy in copies if copy.strayed}):
            while path := _Exchange(self, weight, stuck).found(
                copy for copy in copies if copy.weight == weight
            ):
                if not self._keeps_apart(path):
                    stuck |= {copy.name for copy, _ in path if copy.strayed}
                    continue
                for copy, target in path:
                    self._move(copy, target)

    def _return(self, copies: Sequence[Copy]) -> None:
        """Exchange copies so that more are at former processors, with as few moves and as even loads."""
        for copy in copies:
            for target in copy.former:
                if target == copy.at:
                    break
                if path := self._returned(copy, target):
                    for each, to in path:
                        self._move(each, to)
                    break

    def _returned(self, copy: Copy, target: int) -> Path:
        """Return the path of a copy to this processor and of one from there to where it was.

        Return [] if there is none.
        """
        here, is_home = copy.at, copy.at in copy.homes
        if not self.may_go(copy, here, {target}):
            return []
        for other in self.on[target]:
            if other.weight != copy.weight or target in (*other.homes, *other.former):
                continue
            for to in (*other.homes, here):
                saves = to in other.homes
                is_even = to == here or self.loads[to] + copy.weight == self.loads[here]
                if saves >= is_home and is_even and self.may_go(other, target, {to}):
                    path = [(copy, target), (other, to)]
                    if self._keeps_apart(path):
                        return path
        return []

    def _move(self, copy: Copy, target: int) -> None:
        left = copy.at
        self.on[left].remove(copy)
        copy.taken.remove(self.locations[left])
        self._weigh(left, -copy.weight)
        self._put(copy, target)

    def _put(self, copy: Copy, target: int) -> None:
        copy.at = target
        copy.taken.append(self.locations[target])
        self.on[target].append(copy)
        self._weigh(target, copy.weight)

    def _weigh(self, processor: int, weight: float) -> None:
        self.loads[processor] += weight
        location = self.locations[processor]
        heapq.heappush(self._within[location], (self.loads[processor], processor))
        if weight < 0:  # `_across` has an entry for each location, at most its lightest load
            heapq.heappush(self._across, (self.loads[processor], location))

    def _top(self, location: int) -> tuple[float, int]:
        heap = self._within[location]
        while heap[0][0] != self.loads[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0]

    def _lightest(self, taken: Collection[int]) -> int | None:
        """Return the least loaded processor at a location that isn't taken."""
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


def _walked(came: Mapping[int, tuple[int, Copy | None]], start: int, end: int) -> Path:
    """Return the copies on a search's way from its start to its end, first to last."""
    path: Path = []
    while end != start or not path:
        before, copy = came[end]
        if copy:
            path.append((copy, end))
        end = before
    return path[::-1]


class _Exchange:
    """A search for copies that change places so that more of them come home than leave it.

    It is for a cycle of processors with a negative cost, as Bellman and Ford have it. An arc is a
    copy that goes from one processor to another, and costs the moves that it adds. An arc without
    a copy is for two loads that change places: one processor gets one more, a heavier one less.
    """

    def __init__(self, spread: Spread, weight: float, stuck: Collection[str]) -> None:
        self._spread = spread
        self._weight = weight
        self._stuck = stuck
        self._moves: dict[int, int] = {}  # 0 where it isn't reached: a cycle may begin anywhere
        self._came: dict[int, tuple[int, Copy | None]] = {}
        self._queue: deque[tuple[int, int]] = deque()
        self._missing: dict[int, set[int]] = {}  # moves → processors not reached with as few
        self._lightest: dict[int, float] = {}  # moves → the lightest that is reached with as many

    def found(self, copies: Iterable[Copy]) -> Path:
        """Return where these copies go; [] when no exchange saves a move."""
        for copy in copies:
            if copy.strayed and (path := self._home(copy, 0)):
                return path
        while self._queue:
            moves, here = self._queue.popleft()
            if moves == self._moves[here] and (path := self._from(here, moves)):
                return path
        return []

    def _from(self, here: int, moves: int) -> Path:
        load = self._spread.loads[here]
        if load < self._lightest.get(moves, inf):
            self._lightest[moves] = load
            for other, its in enumerate(self._spread.loads):
                if its >= load + self._weight and (path := self._reach(here, None, other, moves)):
                    return path
        for copy in self._spread.on[here]:
            if copy.weight == self._weight and (
                path := self._home(copy, moves) or self._anywhere(copy, moves)
            ):
                return path
        return []

    def _home(self, copy: Copy, moves: int) -> Path:
        if copy.name not in self._stuck:
            moves -= copy.strayed
            for home in self._spread.may_go(copy, copy.at, set(copy.homes) - {copy.at}):
                if path := self._reach(copy.at, copy, home, moves):
                    return path
        return []

    def _anywhere(self, copy: Copy, moves: int) -> Path:
        moves += copy.at in copy.homes
        if moves not in self._missing:
            everywhere = range(len(self._spread.loads))
            self._missing[moves] = {e for e in everywhere if self._moves.get(e, 0) > moves}
        missing = self._missing[moves]
        for target in self._spread.may_go(copy, copy.at, missing):
            missing.discard(target)
            if path := self._reach(copy.at, copy, target, moves):
                return path
        return []

    def _reach(self, here: int, copy: Copy | None, target: int, moves: int) -> Path:
        """Note the way to the target with the fewest moves.

        Return the cycle that it closes, or [].
        """
        if moves >= self._moves.get(target, 0):
            return []
        self._moves[target] = moves
        self._came[target] = (here, copy)
        self._queue.append((moves, target))
        while here != target and here in self._came:
            here = self._came[here][0]
        return _walked(self._came, target, target) if here == target else []
