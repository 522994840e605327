"""A whole host dies with its real containers, at once and without a word.

Nobody saw them die: the brokers shut them out once the host counts as lost, and no lease
is waited for.
"""

from __future__ import annotations

import time

import pytest

from samza_dagster.sandbox.judge import Judge
from tests.integration.killmatrix.conftest import SILENCE_S
from tests.rig.history import followers
from tests.rig.kill_points import KilledJob
from tests.rig.replacement import outputs_are_whole, replaced
from tests.rig.sandbox_job import SandboxJob

pytestmark = pytest.mark.realkillmatrix

HOST_LOST_S = SILENCE_S + 60
"""Until the host counts as lost; then fence, stop of the standby and start."""


def test_all_that_ran_on_a_dead_host_works_elsewhere_and_loses_nothing(
    killed: KilledJob, judge: Judge
) -> None:
    """SIGKILL of agent, wardens and containers: its actives go on in their standbys' places."""
    job = killed.job
    assert isinstance(job, SandboxJob)
    before = killed.settle()
    host = before["0"]["host"]
    lost = {name for name, found in before.items() if found["host"] == host}
    # A standby gives its place to its active, and goes elsewhere.
    moved = lost | {f"{name}-0" for name in lost if name.isdigit()}
    at = job.kill_host(host)
    after = replaced(job, before, moved, HOST_LOST_S)
    for name in lost:
        assert after[name]["host"] != host
        if name.isdigit():
            assert after[name]["host"] == before[f"{name}-0"]["host"]
            found = followers(job.connection, before[name]["execution_id"])
            assert {how for _, how in found.values()} == {"fenced"}
    print(f"\n{host} with {lost} is replaced after {time.time() - at:.1f} s")
    outputs_are_whole(judge, "a dead host", {n for n in lost if n.isdigit()}, at)
    job.start_agent(host)
    again = killed.settle()
    assert {n: p["pid"] for n, p in again.items()} == {n: p["pid"] for n, p in after.items()}
    killed.judge()
