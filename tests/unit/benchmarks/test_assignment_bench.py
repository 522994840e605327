"""What `make bench-assignment` counts, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import assignment as bench
from benchmarks.assignment import Result, Round, Shape, above_the_bound

pytestmark = pytest.mark.unit

GROUP = Shape(3, 3, 1, 3)


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
