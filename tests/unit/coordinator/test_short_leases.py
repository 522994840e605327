"""A lease that a minute without brokers outlasts is said where somebody can still change it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator import diagnosis
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.replicas import KeptTopics

pytestmark = pytest.mark.unit

LEASE = "samza.dagster.lease.ms"
CONFIG = {"job.name": "j", "task.inputs": "kafka.in"}


@pytest.mark.parametrize(
    ("set_to", "option_s", "warned"),
    [(None, None, False), ("101000", None, True), ("102000", None, False), (None, 30.0, True)],
)
def test_a_coordinator_warns_of_a_short_lease_as_it_starts(
    set_to: str | None,
    option_s: float | None,
    warned: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once, whether the config or `--lease` asks for it; the default isn't one."""
    coordinator = Leadership(
        LeaderSettings(
            Connection("a:1", "j"),
            CONFIG if set_to is None else {**CONFIG, LEASE: set_to},
            LaunchTemplate(command=("c",)),
            LocalAgents(tmp_path / "url", "token"),
            lease_s=option_s,
        )
    )
    coordinator.stop()
    coordinator.run()
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [f"{LEASE}=102000" in line for line in told] == [True] * warned


@pytest.mark.parametrize(
    ("set_to", "ok", "seen"),
    [
        ("120000", True, "72.5 s without brokers or coordinator, by a lease of 120 s"),
        ("30000", True, "may end containers"),
        ("1", False, "'1'"),
    ],
)
def test_doctor_tells_what_the_lease_lives_through(
    set_to: str, ok: bool, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one is a choice: told, and no failure. One that no coordinator takes is."""
    monkeypatch.setattr(diagnosis, "partition_counts", lambda *_: {})
    monkeypatch.setattr(diagnosis, "kept_topics", lambda *_: KeptTopics((), {}))
    found = diagnosis.findings({**CONFIG, LEASE: set_to}, KafkaCluster("a:1"), Deployed())
    (lease,) = [each for each in found if "lease" in each.check]
    assert lease.ok is ok
    assert seen in lease.seen
