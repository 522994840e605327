"""SIGKILL of the coordinator at every commit, effect and acknowledgement, over real containers.

The scenarios of the stubs' kill matrix that concern whoever operates a job: a move onto the
standby's host, a failover, a standby spun up and stopped again. Samza's own containers with
their RocksDB state stand under a steady load. For each point the one right end, by the
agents' records, the kernel, an outsider's reading of the responses, the audit history; after
each scenario the demo's judge finds every output. `make killmatrix-real` runs it.
"""

from __future__ import annotations

import pytest

from samza_dagster.sandbox.judge import Judge
from tests.rig.kill_matrix import go_through, go_through_in_turn
from tests.rig.kill_points import KilledJob, Scenario
from tests.rig.kill_scenarios import FAILOVER, SPIN_UP, STOP_STANDBY, SWAP
from tests.share import Share

pytestmark = pytest.mark.realkillmatrix


def judged(killed: KilledJob, judge: Judge) -> None:
    """Responses, history, outputs: all of it as outsiders read it."""
    killed.judge()
    verdict = judge.judge(deadline_s=90)
    assert verdict.is_good, verdict
    print(verdict)


@pytest.mark.parametrize("scenario", [SWAP, FAILOVER], ids=lambda scenario: scenario.name)
def test_a_coordinator_killed_anywhere_comes_to_the_right_end_with_real_containers(
    killed: KilledJob, judge: Judge, scenario: Scenario
) -> None:
    """Every point of the share, one after the other on one sandbox."""
    share = Share.told()
    number, left = go_through(killed, scenario, every=share.of, first=share.number - 1)
    assert left == []
    judged(killed, judge)
    print(f"{scenario.name}: {number} kill points")


def test_a_coordinator_killed_anywhere_in_a_spin_up_and_the_stop_comes_to_the_right_end(
    killed: KilledJob, judge: Judge
) -> None:
    """In turn: a standby is spun up under a kill, and stopped under one."""
    number, left = go_through_in_turn(killed, SPIN_UP, STOP_STANDBY, Share.told())
    assert left == []
    judged(killed, judge)
    print(f"{SPIN_UP.name} and {STOP_STANDBY.name}: {number} kill points")
