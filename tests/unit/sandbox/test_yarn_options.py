"""What a sandbox under Samza's own Application Master is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import Refused
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.ports import free_ports
from samza_dagster.sandbox.yarn.cluster import YarnCluster
from samza_dagster.sandbox.yarn.job import YarnJob

pytestmark = pytest.mark.unit


def test_a_host_that_doesnt_run_cant_be_lost(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="host-9"):
        Sandbox("some", root=tmp_path).yarn.lose("host-9")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({}, {}),
        (
            {"resource_manager": "http://here:1", "application": "application_1_0001"},
            {"yarn_resource_manager": "http://here:1"},
        ),
        ({"resource_manager": "http://here:1"}, {}),
        ({"zookeeper": "here:2"}, {"deployment": "standalone", "zookeeper": "here:2"}),
    ],
)
def test_its_dagster_asks_its_own_resource_manager_or_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], told: dict[str, str]
) -> None:
    """One whose coordinator is ours has neither."""
    box = Sandbox("some", root=tmp_path)
    facts: dict[str, Any] = {
        **box.status(),
        "bootstrap_servers": "127.0.0.1:9092",
        "hosts": {"host-1": {}},
        **parts,
    }
    monkeypatch.setattr(box, "status", lambda: facts)
    box.dagster(free_ports(1)[0])
    component = json.loads((box.dagster_home / "samza_job.yaml").read_text())
    kinds = ("yarn_resource_manager", "deployment", "zookeeper")
    assert {k: v for k, v in component["attributes"].items() if k in kinds} == told


def test_settings_stand_above_what_the_sandbox_sets_itself(tmp_path: Path) -> None:
    """Its own, as the reports once a minute, stand above those of the demo's job."""
    cluster = YarnCluster(tmp_path, ["host-1"], servers="here:1")
    config = demo_job.job_config("here:1")
    count, interval = "cluster-manager.container.retry.count", "metrics.reporter.snapshot.interval"
    assert YarnJob(cluster, config, {}).config[count] == "8"
    job = YarnJob(cluster, config, {count: "60"})
    assert (job.config[count], job.config[interval]) == ("60", "60")
