"""Where things are: which groups wait for a deadline, for their turn, or are on a host.

Everything here is derived from the groups and updated with them, so that a step costs
the same with ten containers as with ten thousand. All of it is persistent: an older
state keeps its own index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from immutables import Map

# A leftist heap as nested tuples: (rank, entry, left, right). Crane (1972).
Heap: TypeAlias = "tuple[int, tuple[Any, ...], Heap, Heap] | None"


def _merge(one: Heap, other: Heap) -> Heap:
    spine: list[tuple[int, tuple[Any, ...], Heap, Heap]] = []
    while one is not None and other is not None:
        if other[1] < one[1]:
            one, other = other, one
        spine.append(one)
        one = one[3]
    merged = one if one is not None else other
    for _, entry, left, _ in reversed(spine):
        if left is None:
            merged = (1, entry, merged, None)
        elif merged is None or left[0] >= merged[0]:
            merged = ((merged[0] if merged else 0) + 1, entry, left, merged)
        else:
            merged = (left[0] + 1, entry, merged, left)
    return merged


def push(heap: Heap, entry: tuple[Any, ...]) -> Heap:
    """The heap with one entry more; the smallest is on top."""
    return _merge(heap, (1, entry, None, None))


def pop(heap: Heap) -> Heap:
    """The heap without its top."""
    assert heap is not None
    return _merge(heap[2], heap[3])


@dataclass(frozen=True, slots=True)
class Summary:
    """What the index holds of one group.

    `turns` and `pauses` are its processors that wait to be started, now or later;
    `ask` the first queued request that could begin; `hosts` all that it touches.
    """

    deadline_ms: int | None = None
    turns: tuple[tuple[Any, ...], ...] = ()
    pauses: tuple[tuple[Any, ...], ...] = ()
    ask: tuple[int, str, str] | None = None
    starting: int = 0
    acting: bool = False
    hosts: frozenset[str] = frozenset()
    uuids: frozenset[str] = frozenset()


NOTHING = Summary()


@dataclass(frozen=True, slots=True)
class Index:
    """Heaps may hold entries that are no longer true; whoever takes one checks it."""

    deadlines: Heap = None
    turns: Heap = None
    pauses: Heap = None
    asks: Heap = None
    starting: int = 0
    acting: Map[str, None] = field(default_factory=Map[str, None])
    by_host: Map[str, Map[str, None]] = field(default_factory=Map[str, Map[str, None]])
    by_uuid: Map[str, str] = field(default_factory=Map[str, str])
    summaries: Map[str, Summary] = field(default_factory=Map[str, Summary])
