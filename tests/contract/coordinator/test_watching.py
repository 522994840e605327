"""What a coordinator process tells whoever watches it: metrics, and a log that can be replayed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.rig.job import Job
from tests.rig.kill_scenarios import FAILOVER, MOVE, SETTINGS
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.simulation.event_log import replay_log

pytestmark = pytest.mark.contract


def values(job: Job) -> dict[tuple[str, ...], float]:
    """Metric and role (where it has one) → value, as Prometheus reads the page."""
    return {
        (sample.name, *(v for k, v in sample.labels.items() if k == "role")): sample.value
        for family in text_string_to_metric_families(job.metrics())
        for sample in family.samples
    }


def test_metrics_follow_a_failover_and_the_log_replays_to_the_same_states(
    job_of: Callable[..., Job], tmp_path: Path
) -> None:
    """A killed active whose host is full fails over onto its standby's: Samza's counter counts
    it, and the reducer, fed with the recorded events alone, comes to the same state after each.
    """
    log = tmp_path / "events.jsonl"
    began = time.time()
    job = job_of("watched", options=("--record-events", str(log)), settings=SETTINGS)
    before = values(job)
    assert before["samza_dagster_running_containers", "Active"] == 2
    assert before["samza_dagster_needed_containers", "Standby"] == 0
    assert before["samza_dagster_failovers_to_standby_total",] == 0
    at = job.processors()
    FAILOVER.happens(job, at)
    until(
        "it runs on its standby's host",
        lambda: (
            (now := job.processors().get("0"))
            and now["state"] == "running"
            and now["host"] == at["0-0"]["host"]
        ),
        seconds=60,
    )
    job.wait_until_running()
    after = values(job)
    assert after["samza_dagster_failovers_to_standby_total",] == 1
    assert began < after["samza_dagster_failovers_to_standby_created",] < time.time()
    assert after["samza_dagster_hosts_alive",] == 4
    assert after["samza_dagster_running_containers", "Active"] == 2
    assert job.coordinator is not None
    job.coordinator.send_signal(signal.SIGTERM)
    assert job.coordinator.wait(timeout=10 * PACE) == 0
    replayed = replay_log(log)
    assert replayed.differs is None, (replayed, log.read_text().splitlines()[-3:])
    assert replayed.events > 20
    until("the log is whole", lambda: log.read_text().endswith("\n"))


def killed_in_a_move(job: Job, log: Path) -> str:
    """SIGKILL of the leader once its log has the request; the request's UUID."""
    uuid = MOVE.happens(job, job.processors())
    assert uuid is not None
    until("the move is under way", lambda: uuid in log.read_text(), seconds=20, every=0.02)
    job.kill_coordinator()
    return uuid


def test_a_log_replays_past_and_from_the_take_overs_of_killed_leaders(
    job_of: Callable[..., Job], tmp_path: Path
) -> None:
    """Two leaders are killed in a move. The first successor appends to the same file, the next
    has its own; both replay, and what the first restored is what the log's last state says.
    """
    shared, own = tmp_path / "shared.jsonl", tmp_path / "own.jsonl"
    job = job_of("followed", settings=SETTINGS, options=("--record-events", str(shared)))
    for log in (shared, own):
        uuid = killed_in_a_move(job, shared)
        job.start_coordinator("--record-events", str(log))
        with job.client() as client:
            assert client.wait(uuid, timeout_s=60 * PACE).status_code == "SUCCEEDED"
        job.wait_until_running()
    assert job.coordinator is not None
    job.coordinator.send_signal(signal.SIGTERM)
    assert job.coordinator.wait(timeout=10 * PACE) == 0
    both, alone = replay_log(shared), replay_log(own)
    assert (both.differs, both.terms, both.judged) == (None, 2, 1), both
    assert (alone.differs, alone.terms, alone.judged) == (None, 1, 0), alone
    assert uuid in own.read_text()
    for replayed, log in ((both, shared), (alone, own)):
        lines = len(log.read_text().splitlines())
        assert replayed.events + replayed.terms + len(replayed.cut_short) == lines
