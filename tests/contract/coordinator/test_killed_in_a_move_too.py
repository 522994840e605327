"""The kill matrix of a move onto the standby's host; `test_kill_matrix.py` tells what is judged.

The other points of `test_killed_in_a_move.py`. In files of their own, so that
each has a worker of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import SWAP

pytestmark = pytest.mark.killpoints


def test_a_coordinator_killed_at_the_other_points_of_a_move_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """The standby goes elsewhere, the active follows: the second, fourth, and so on."""
    killed = killed_job(f"{SWAP.name}-too")
    number, left = go_through(killed, SWAP, every=2, first=1)
    assert left == []
    killed.judge()
    print(f"{SWAP.name}: {number} kill points")
