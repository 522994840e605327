"""Where things are: which groups wait for a deadline, for their turn, or are on a host.

Everything here is derived from the groups and updated with them, so that a step costs
the same with ten containers as with ten thousand. All of it is persistent: an older
state keeps its own index.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from immutables import Map


class Node(NamedTuple):
    """A leftist heap: the smallest entry is on top, the longer path on the left. Crane (1972)."""

    rank: int
    entry: tuple[Any, ...]
    left: Node | None
    right: Node | None


Heap: TypeAlias = Node | None


def _merge(one: Heap, other: Heap) -> Heap:
    spine: list[Node] = []
    while one is not None and other is not None:
        if other.entry < one.entry:
            one, other = other, one
        spine.append(one)
        one = one.right
    merged = one if one is not None else other
    for node in reversed(spine):
        merged = _join(node.entry, node.left, merged)
    return merged


def _join(entry: tuple[Any, ...], one: Heap, other: Heap) -> Node:
    one_rank = 0 if one is None else one.rank
    other_rank = 0 if other is None else other.rank
    if one_rank >= other_rank:
        return Node(other_rank + 1, entry, one, other)
    return Node(one_rank + 1, entry, other, one)


def push(heap: Heap, entry: tuple[Any, ...]) -> Heap:
    """The heap with one entry more; the smallest is on top."""
    return _merge(heap, Node(1, entry, None, None))


def pop(heap: Heap) -> Heap:
    """The heap without its top."""
    assert heap is not None
    return _merge(heap.left, heap.right)


class Summary(NamedTuple):
    """What the index holds of one group.

    `pauses` are its processors that wait to be started, each with the time from which
    it may; `ask` is the first queued request that could begin; `hosts` all that the
    group touches; `ids` the requests, resource requests and incarnations that are its;
    `members` its processors that are wanted: of each the job has one.
    """

    deadline_ms: int | None = None
    pauses: tuple[tuple[Any, ...], ...] = ()
    ask: tuple[int, str, str] | None = None
    starting: int = 0
    acting: bool = False
    hosts: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    members: tuple[str, ...] = ()


NOTHING = Summary()


class Index(NamedTuple):
    """Heaps may hold entries that are no longer true; whoever takes one checks it."""

    deadlines: Heap = None
    turns: Heap = None
    pauses: Heap = None
    asks: Heap = None
    starting: int = 0
    acting: Map[str, None] = Map[str, None]()
    by_host: Map[str, Map[str, None]] = Map[str, Map[str, None]]()
    by_id: Map[str, str] = Map[str, str]()
    summaries: Map[str, Summary] = Map[str, Summary]()
    uuid_order: Map[int, str] = Map[int, str]()
    lost_hosts: Map[str, None] = Map[str, None]()
    refused_order: Map[int, str] = Map[int, str]()
    by_processor: Map[str, str] = Map[str, str]()


EMPTY = Index()
