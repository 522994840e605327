"""Which of two assignments is spread better."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samza_dagster.assignment.comparison import uneven
from samza_dagster.model import ContainerModel, JobModel
from tests.unit.assignment.groups import tasks

pytestmark = pytest.mark.unit

Loads = list[tuple[int, int]]
"""How many actives and how many standbys each processor has."""
loads = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=6)


def _uneven(loads: Loads) -> tuple[int, ...]:
    copies = tasks(60, 1)
    some = {True: iter(copies[::2]), False: iter(copies[1::2])}
    containers = {
        f"p{number}": ContainerModel(
            processor_id=f"p{number}",
            tasks={
                task.task_name: task
                for is_active, count in zip((True, False), of_one, strict=True)
                for task in [next(some[is_active]) for _ in range(count)]
            },
        )
        for number, of_one in enumerate(loads)
    }
    return uneven(JobModel(config={}, containers=containers))


@given(loads)
@example([(2, 0), (0, 2), (2, 0)])
def test_who_has_two_more_than_another_gives_one_away(loads: Loads) -> None:
    """An active for actives, a standby for copies of both kinds: whoever else has more or as many, it gets better.

    So a processor that joined, and has standbys by now, gets its first active though two others have two each.
    """
    first, second, *others = loads
    (actives, standbys), (fewer, same) = first, second
    moved: Loads = []
    if actives >= fewer + 2:
        moved = [(actives - 1, standbys), (fewer + 1, same)]
    elif standbys and actives + standbys >= fewer + same + 2:
        moved = [(actives, standbys - 1), (fewer, same + 1)]
    if moved:
        assert _uneven([*moved, *others]) < _uneven(loads)


@given(loads)
def test_a_standby_that_has_a_place_is_worth_any_unevenness(loads: Loads) -> None:
    """It is warm there."""
    (actives, standbys), *others = loads
    assert _uneven([(actives, standbys + 1), *others]) < _uneven(loads)
