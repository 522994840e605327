"""What a simulated cluster takes its time for: drawn as recorded, and on record itself."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

Interval = tuple[float, float]


class Recorded(NamedTuple):
    """How long something took, in seconds."""

    median_s: float
    most_s: float

    def draw(self, chance: Random) -> float:
        """Return a time with this median, at least half of it; few are near the most."""
        half = self.median_s / 2
        if chance.random() < 0.5:
            return half + half * chance.random()
        return self.median_s + (self.most_s - self.median_s) * chance.random() ** 3


class Delays:
    """Carries out calls later, on one thread, and remembers during which times any were pending.

    One that a busy machine carries out late counts until it was due.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._known: list[Interval] = []
        threading.Thread(target=self._run, name="delays", daemon=True).start()

    def later(self, taken: Recorded | float, call: Callable[[], None]) -> float:
        """Call `call` after as long as that takes; return when that is."""
        with self._changed:
            began, number = time.monotonic(), next(self._numbers)
            due = began + self._seconds(taken)
            heapq.heappush(self._due, (due, number, call))
            self._known.append((began, due))
            self._changed.notify()
            return due

    def wait(self, taken: Recorded | float) -> None:
        """Return after as long as that takes."""
        with self._changed:
            began, seconds = time.monotonic(), self._seconds(taken)
            self._known.append((began, began + seconds))
        time.sleep(seconds)

    def pending(self, began: float, ended: float) -> list[Interval]:
        """Return the times between these moments at which anything was pending."""
        with self._changed:
            return union(self._known, began, ended)

    def _seconds(self, taken: Recorded | float) -> float:
        return taken.draw(self._chance) if isinstance(taken, Recorded) else taken

    def _run(self) -> None:
        while True:
            with self._changed:
                while (left := self._left()) is None or left > 0:
                    self._changed.wait(left)
                _, _, call = heapq.heappop(self._due)
            call()

    def _left(self) -> float | None:
        return self._due[0][0] - time.monotonic() if self._due else None


def union(intervals: Iterable[Interval], began: float, ended: float) -> list[Interval]:
    """Return these intervals, within the two moments, as ones that don't touch, in order."""
    found: list[Interval] = []
    for since, until in sorted((max(s, began), min(u, ended)) for s, u in intervals):
        if since >= until:
            continue
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(until, found[-1][1]))
        else:
            found.append((since, until))
    return found


def gaps(intervals: Iterable[Interval], began: float, ended: float) -> list[Interval]:
    """Return the times between the two moments that are in none of these intervals."""
    edges = [began, *(edge for each in union(intervals, began, ended) for edge in each), ended]
    return [
        (since, until)
        for since, until in zip(edges[::2], edges[1::2], strict=True)
        if since < until
    ]
