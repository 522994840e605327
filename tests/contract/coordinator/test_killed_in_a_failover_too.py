"""The kill matrix of a failover after an active's death; `test_kill_matrix.py` tells what is judged.

The other points of `test_killed_in_a_failover.py`. In files of their own, so that
each has a worker of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import REFUSED

pytestmark = [pytest.mark.killpoints, pytest.mark.longcontract]


def test_a_coordinator_killed_at_the_other_points_of_a_failover_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """The active's own host refuses it: the second, fourth, and so on."""
    killed = killed_job(f"{REFUSED.name}-too")
    number, left = go_through(killed, REFUSED, every=2, first=1)
    assert left == []
    killed.judge()
    print(f"{REFUSED.name}: {number} kill points")
