"""The benchmark of a large job on YARN, at the size of a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.yarn_fleet import measure
from tests.rig.simulated_yarn.fleet import Size

pytestmark = pytest.mark.contract


def test_a_small_fleet_is_deployed_and_drained_and_its_time_is_accounted_for(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """`measure` itself refuses a job that isn't whole, or has two of a group on one node."""
    size = Size(actives=10, nodes=4)
    results = measure(bootstrap_servers, tmp_path, size, drained=1)
    deployed, drained = results["deploy"], results["drain"]
    assert deployed["started"] == 20
    assert 1 <= drained["moved"] <= 10
    for row in (deployed, drained):
        assert 0 < row["alone_s"] < row["wall_s"]
        assert row["cpu_s"] > 0
        assert row["py4j_s"] > 0
    # An ask of YARN for each container, and for each agent.
    assert deployed["py4j_s"] > 24 * 0.003
    # A JVM's start is waited for in each of them, and isn't the coordinator's.
    assert deployed["wall_s"] - deployed["alone_s"] > 1.0
    assert drained["wall_s"] - drained["alone_s"] > 1.0
