"""The kill matrix of a failover after an active's death; `test_kill_matrix.py` tells what is judged.

A spread of its points, since there are many; `make killmatrix` has them all. In a file of its
own, so that a worker of its own has it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import REFUSED

pytestmark = pytest.mark.killpoints


def test_a_coordinator_killed_at_some_points_of_a_failover_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """The active's own host refuses it: every eighth point."""
    killed = killed_job(REFUSED.name)
    number, left = go_through(killed, REFUSED, every=8)
    assert left == []
    killed.judge()
    print(f"{REFUSED.name}: {number} kill points")
