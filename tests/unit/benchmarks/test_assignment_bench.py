"""What `make bench-assignment` counts, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import assignment as bench
from benchmarks.assignment import Result, Round, Shape, above_the_bound, judged

pytestmark = pytest.mark.unit

GROUP = Shape(3, 3, 1, 3)


def test_moves_restores_and_how_far_loads_are_apart() -> None:
    """Who left can't keep its task; a start where a standby was restores nothing."""
    rounds = [
        Round("first", 0.1, {0: 0, 1: 1, 2: 2}, {0: [0, 1], 1: [1, 2], 2: [2, 0]}),
        Round("leave", 0.3, {0: 2, 1: 1, 2: 1}, {1: [1, 2, 0], 2: [0, 1, 2]}),
        Round("join", 0.2, {0: 2, 1: 0, 2: 1}, {0: [1], 1: [2, 0], 2: [0, 1, 2]}),
    ]
    result = judged(GROUP, "one", rounds)
    assert result.moves == {"leave": 1, "join": 1}
    assert result.restores == 1
    assert (result.actives_apart, result.copies_apart, result.seconds) == (0, 2, 0.3)


def test_ours_is_judged_by_the_same_rounds_as_a_peer() -> None:
    """A processor leaves and one comes; in the end the loads are even."""
    result = judged(GROUP, "samza_dagster", bench.ours(Shape(30, 5, 1, 30)))
    assert (result.actives_apart, result.copies_apart) == (0, 0)
    assert (result.moves["leave"], result.restores) == (0, 0)


def test_moves_are_owed_until_no_processor_has_two_more() -> None:
    """Of those above their share, as many as are left over keep one more."""
    uneven = Round("first", 0.1, dict.fromkeys(range(3), 0) | {3: 1}, {0: [], 1: [], 2: []})
    assert judged(GROUP, "one", [uneven]).owed == 1


@pytest.mark.parametrize(
    ("after", "named"),
    [
        ({0: 1, 1: 1, 2: 2}, []),
        ({0: 2, 1: 1, 2: 2}, ["(1, 5, 0), the best is (0, 5, 0)"]),
        ({0: 1, 1: 2, 2: 2}, ["(0, 5, 1), the best is (0, 5, 0)"]),
        ({0: 1, 1: 1, 2: 1}, ["(1, 9, 1), the best is (0, 5, 0)"]),
    ],
)
def test_an_assignment_that_isnt_the_best_is_named(after: dict[int, int], named: list[str]) -> None:
    """An active starts cold, or the loads are less even than they could be, or more moves than that takes."""
    before = Round("first", 0.1, {0: 0, 1: 1, 2: 2}, {0: [0, 2], 1: [1, 0], 2: [2, 1]})
    then = Round("leave", 0.1, after, {1: [], 2: []})
    found = list(above_the_bound(GROUP, [before, then]))
    assert [each.partition("moves ")[2] for each in found] == named


@pytest.mark.parametrize(
    ("peer", "named"),
    [
        ({"restores": 1, "moves": {"join": 9}, "actives_apart": 2}, ""),
        ({"restores": 1, "moves": {"join": 3}, "actives_apart": 2}, "with those owed, (2, 3)"),
        ({"restores": 2, "moves": {"join": 2}, "actives_apart": 2}, "with those owed, (2, 3)"),
        ({"restores": 2, "moves": {}, "owed": 3, "actives_apart": 4}, ""),
        ({"restores": 2, "moves": {}, "owed": 2, "actives_apart": 4}, "with those owed, (2, 3)"),
        ({"restores": 3, "actives_apart": 1, "moves": {"join": 3}}, "actives_apart 2"),
        ({"failed": "not in 9 s"}, ""),
    ],
)
def test_a_peer_that_does_better_is_named(peer: dict[str, Any], named: str) -> None:
    """Fewer restores for more moves are no better, nor is a move that is left for later; a peer that didn't end
    is none.
    """
    own = Result("s", "samza_dagster", restores=2, moves={"join": 3}, actives_apart=2)
    found = bench.missed([own, Result("s", "peer", **peer)])
    assert [named in each for each in found] == ([True] if named else [])
