"""The kill matrix of the main scenarios; `test_kill_matrix.py` tells what is judged.

A scenario of many points is told in parts, each on a job of its own, so that they run side by
side.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through, go_through_in_turn
from tests.rig.kill_points import KilledJob, Scenario
from tests.rig.kill_scenarios import REFUSED, SPIN_UP, STOP_STANDBY, SWAP

pytestmark = pytest.mark.killpoints


@pytest.mark.parametrize(
    ("scenario", "first", "every"),
    [
        pytest.param(REFUSED, 0, 4, id="failover, first"),
        pytest.param(REFUSED, 2, 4, id="failover, third"),
        pytest.param(REFUSED, 1, 2, id="failover, others", marks=pytest.mark.longcontract),
        pytest.param(SWAP, 0, 2, id="move, first"),
        pytest.param(SWAP, 1, 2, id="move, second"),
    ],
)
def test_a_coordinator_killed_at_a_point_of_a_scenario_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob], scenario: Scenario, first: int, every: int
) -> None:
    """A failover whose active's own host refuses it, and a move onto the standby's host."""
    killed = killed_job(f"{scenario.name}-{first}-{every}")
    number, left = go_through(killed, scenario, every=every, first=first)
    assert left == []
    killed.judge()
    print(f"{scenario.name}: {number} kill points")


def test_a_coordinator_killed_at_any_point_of_a_spin_up_or_stop_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """In turn: spun up under a kill, stopped under one; every point of both."""
    killed = killed_job(SPIN_UP.name)
    number, left = go_through_in_turn(killed, SPIN_UP, STOP_STANDBY)
    assert left == []
    killed.judge()
    print(f"{SPIN_UP.name} and {STOP_STANDBY.name}: {number} kill points")
