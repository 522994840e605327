"""What a leader, a broker or a coordinator that is away does to containers: nothing, for as long as a lease lasts."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from samza_dagster.coordinator.leases import shortest_left_ms
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.placement.state import Limits
from samza_dagster.sandbox.broker import Broker
from tests.contract.coordinator.conftest import restart
from tests.contract.coordinator.test_leadership import log_of
from tests.rig.job import Job, alive
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.mark.longcontract
def test_a_frozen_leader_that_wakes_up_changes_nothing(job_of: Callable[..., Job]) -> None:
    """SIGSTOP: its beats stop and a successor leads within a lease, so that no container ends.
    SIGCONT: the zombie's commit is refused and its process ends.

    Two thirds of a lease pass in its silence, and an agent's last word may be 7.5 s old: six
    seconds are left to take over in, which needs one, and three beside other tests.
    """
    job = job_of("zombie", lease_ms=42_000)
    before = job.processors()
    zombie = job.coordinator
    assert zombie is not None
    job.start_coordinator()
    until("the second waits", lambda: "this coordinator waits" in log_of(job))
    zombie.send_signal(signal.SIGSTOP)
    restart(job, "1", within_s=60)
    settled = job.wait_until_running()
    for processor in ("0", "0-0", "1-0"):
        assert settled[processor]["pid"] == before[processor]["pid"]
    zombie.send_signal(signal.SIGCONT)
    assert zombie.wait(timeout=20 * PACE) == 1
    assert job.wait_until_running() == settled
    starts = [e for e in job.journal() if e["processor"] == "1" and e["what"] == "started"]
    assert len(starts) == 2


@pytest.mark.longcontract
def test_a_leader_that_was_frozen_for_a_while_takes_no_host_for_lost(
    job_of: Callable[..., Job],
) -> None:
    """Longer than the host time-out, and nobody led meanwhile: it was itself that heard nothing."""
    job = job_of("frozen-leader", lease_ms=21_000, host_timeout_ms=2_000, hosts=2, actives=1)
    before = job.processors()
    leader = job.coordinator
    assert leader is not None
    leader.send_signal(signal.SIGSTOP)
    thaws = time.monotonic() + 2 * job.host_timeout_ms / 1000
    until("twice the host time-out", lambda: time.monotonic() > thaws)
    leader.send_signal(signal.SIGCONT)
    restart(job, "0-0", within_s=20)  # by its end every late word has been dealt with
    after = job.wait_until_running()
    assert after["0"]["pid"] == before["0"]["pid"]
    starts = Counter(e["processor"] for e in job.journal() if e["what"] == "started")
    assert starts == {"0": 1, "0-0": 2}


@pytest.mark.longcontract
def test_a_lease_bounds_the_absence_of_a_coordinator(job_of: Callable[..., Job]) -> None:
    """Nobody renews: every container outlives what is left of a lease at least, and none the
    lease. The next coordinator starts each of them once.
    """
    job = job_of("absence", lease_ms=12_000, host_timeout_ms=4_000)
    before = job.processors()
    pids = [container["pid"] for container in before.values()]
    left_ms = shortest_left_ms(Limits(lease_ms=job.lease_ms, host_timeout_ms=job.host_timeout_ms))
    job.kill_coordinator()
    killed = time.monotonic()
    until("the first end", lambda: not all(map(alive, pids)), seconds=20)
    assert time.monotonic() - killed > left_ms / 1000
    until("the last end", lambda: not any(map(alive, pids)), seconds=20)
    assert (
        time.monotonic() - killed < job.lease_ms / 1000 + 4 * PACE
    )  # the wardens' grace, and what the kernel takes
    job.start_coordinator()
    after = job.wait_until_running()
    assert not {c["pid"] for c in after.values()} & set(pids)
    starts = Counter(e["processor"] for e in job.journal() if e["what"] == "started")
    assert starts == dict.fromkeys(after, 2)
    assert not [e for e in job.journal() if e["what"] == "VIOLATION"]


@pytest.mark.longcontract
def test_a_broker_that_goes_away_in_mid_move_delays_it_and_kills_nobody(tmp_path: Path) -> None:
    """SIGKILL of the broker as the request is taken; back on its port, the move ends once."""
    broker = Broker(tmp_path / "broker").start()
    job = Job(tmp_path / "job", broker.bootstrap_servers, "away", input_topic="away-input")
    try:
        ensure_topic(KafkaCluster(broker.bootstrap_servers), "away-input", partitions=4)
        job.start()
        before = job.processors()
        client = job.client()
        group = (before["0"]["host"], before["0-0"]["host"])
        destination = next(host for host in job.host_names if host not in group)
        request = client.place("0", destination)
        broker.close(grace_s=0.0)
        assert all(alive(p["pid"]) for name, p in before.items() if name != "0")
        broker.start()
        answer = client.wait(request.uuid, timeout_s=60 * PACE)
        client.close()
        assert answer.status_code == "SUCCEEDED"
        after = job.wait_until_running()
        assert after["0"]["host"] == destination
        for processor in ("0-0", "1", "1-0"):
            assert after[processor]["pid"] == before[processor]["pid"]
        starts = [e for e in job.journal() if e["processor"] == "0" and e["what"] == "started"]
        assert len(starts) == 2
        assert not [e for e in job.journal() if e["what"] == "VIOLATION"]
        lost = [name for name, h in job.status()["hosts"].items() if h["state"] != "alive"]
        assert lost == []
    finally:
        job.close()
        broker.close()


def test_a_coordinator_without_a_broker_says_so_and_ends(tmp_path: Path) -> None:
    """Exit status 4 and the server's address, within the client's deadline."""
    job = Job(tmp_path / "job", "127.0.0.1:9", "nobody")
    job.start_coordinator()
    assert job.coordinator is not None
    assert job.coordinator.wait(timeout=40 * PACE) == 4
    assert "127.0.0.1:9" in (job.directory / "coordinator.log").read_text()
