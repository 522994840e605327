"""SIGKILL of the coordinator at every commit, effect and acknowledgement of what it does.

For each kill point, whoever leads next comes to the one right end: the request succeeds
once and truly, or the active runs in its standby's place; whoever isn't concerned keeps
its process; no processor had two processes and no group two members on a host, by the
kernel's locks; nothing is held for nobody; the audit history is whole.

Here is what isn't in the contract level (`test_killed_at_points.py`) since it waits for time-outs
or tells less, and where the successor is killed, too; `test_kill_matrix_of_a_fence.py` has a job
with the broker fence. `python -m pytest -m killmatrix` is the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through, go_through_twice_killed
from tests.rig.kill_points import KilledJob, Scenario
from tests.rig.kill_scenarios import FAILOVER, HOST_LOST, MOVE, SWAP

pytestmark = pytest.mark.killmatrix


# Each point of a lost host waits for a lease: a third of them in each job, side by side.
PARTS = [(MOVE, 1, 0), (FAILOVER, 1, 0)] + [(HOST_LOST, 3, n) for n in range(3)]


@pytest.mark.parametrize(
    ("scenario", "every", "first"), PARTS, ids=[f"{s.name}-{n + 1}-of-{e}" for s, e, n in PARTS]
)
def test_a_coordinator_killed_at_any_point_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob], scenario: Scenario, every: int, first: int
) -> None:
    """Every point of the scenario, or every third from `first` on."""
    killed = killed_job(f"{scenario.name}-{first}", **scenario.options)
    number, left = go_through(killed, scenario, every=every, first=first)
    assert left == []
    killed.judge()
    print(f"{scenario.name}: {number} kill points")


def test_a_coordinator_and_its_successor_killed_come_to_the_right_end(
    killed_job: Callable[..., KilledJob],
) -> None:
    """Every third point of a move onto the standby's host; the spare dies as it takes over."""
    killed = killed_job(f"{SWAP.name}-twice")
    points = killed.points_of(SWAP)[::3]
    assert go_through_twice_killed(killed, SWAP, points) == []
    killed.judge()
    print(f"{SWAP.name}: {len(points)} kill points, {len(killed.deaths_of_spares)} spares killed")
