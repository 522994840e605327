"""The kill matrix of a standby spun up and stopped; `test_kill_matrix.py` tells what is judged.

In a file of its own, so that a worker of its own has it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through_in_turn
from tests.rig.kill_points import KilledJob
from tests.rig.kill_scenarios import SPIN_UP, STOP_STANDBY

pytestmark = pytest.mark.killpoints


def test_a_coordinator_killed_at_any_point_of_a_spin_up_or_stop_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """In turn: spun up under a kill, stopped under one; every point of both."""
    killed = killed_job(SPIN_UP.name)
    number, left = go_through_in_turn(killed, SPIN_UP, STOP_STANDBY)
    assert left == []
    killed.judge()
    print(f"{SPIN_UP.name} and {STOP_STANDBY.name}: {number} kill points")
