"""SIGKILL of the coordinator at every commit, effect and acknowledgement of what it does.

For each kill point, whoever leads next comes to the one right end: the request succeeds
once and truly, or the active runs in its standby's place; whoever isn't concerned keeps
its process; no processor had two processes and no group two members on a host, by the
kernel's locks; nothing is held for nobody; the audit history is whole.

Here is what isn't in the contract level (`test_killed_in_a_*.py`) since it waits for time-outs
or tells less; `python -m pytest -m killmatrix` is the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rig.kill_matrix import go_through
from tests.rig.kill_points import KilledJob, Scenario
from tests.rig.kill_scenarios import FAILOVER, HOST_LOST, MOVE, REFUSED

pytestmark = pytest.mark.killmatrix


@pytest.mark.parametrize(
    "scenario", [MOVE, REFUSED, FAILOVER, HOST_LOST], ids=lambda scenario: scenario.name
)
def test_a_coordinator_killed_at_any_point_comes_to_the_right_end(
    killed_job: Callable[..., KilledJob], scenario: Scenario
) -> None:
    """Every point of the scenario."""
    killed = killed_job(scenario.name, **scenario.options)
    number, left = go_through(killed, scenario)
    assert left == []
    killed.judge()
    print(f"{scenario.name}: {number} kill points")
