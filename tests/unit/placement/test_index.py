"""A step costs as many steps as the heap is deep on its right, whatever waits in it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.placement.index import Heap, pop, push

pytestmark = pytest.mark.unit


def right_spine(heap: Heap) -> int:
    """Its length; raises where a heap leans to the right, or isn't in order."""
    if heap is None:
        return 0
    left, right = right_spine(heap.left), right_spine(heap.right)
    assert left >= right
    assert all(below is None or heap.entry <= below.entry for below in (heap.left, heap.right))
    return right + 1


@given(entries=st.lists(st.tuples(st.integers(), st.text(max_size=2))), popped=st.integers(0, 9))
def test_the_smallest_is_on_top_and_no_heap_leans_to_the_right(
    entries: list[tuple[int, str]], popped: int
) -> None:
    """After any pushes and pops."""
    heap: Heap = None
    for entry in entries:
        heap = push(heap, entry)
        right_spine(heap)
    for entry in sorted(entries)[:popped]:
        assert heap is not None
        assert heap.entry == entry
        heap = pop(heap)
        right_spine(heap)


@pytest.mark.parametrize("seed", range(20))
def test_no_heap_of_many_leans_to_the_right(seed: int) -> None:
    """Sixty entries in any order, and half of them taken again."""
    lots = random.Random(seed)
    heap: Heap = None
    for _ in range(60):
        heap = push(heap, (lots.randrange(50),))
        right_spine(heap)
    for _ in range(30):
        heap = pop(heap)
        right_spine(heap)
