"""Who leads, who waits, and who takes over."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from samza_dagster.coordinator.candidacy import claim_of_this_process
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.model.naming import transactional_id
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def leader_of(job: Job) -> Mapping[str, Any]:
    """The `leader` record of the state topic."""
    reader = StateReader(job.bootstrap_servers, job.connection.state_topic)
    try:
        value = reader.snapshot().records["leader"].value
    finally:
        reader.close()
    assert value is not None
    return value


def log_of(job: Job) -> str:
    return (job.directory / "coordinator.log").read_text()


def test_a_second_coordinator_waits_until_the_first_is_gone(job_of: Callable[..., Job]) -> None:
    """It disturbs nobody while it waits, and leads within seconds of the first one's death."""
    job = job_of("two-leaders")
    before = job.processors()
    first = job.coordinator
    assert first is not None
    job.start_coordinator()
    until("the second waits", lambda: "this coordinator waits" in log_of(job))
    client = job.client()
    try:
        request = client.place("0-0", "LAST_SEEN")
        assert client.wait(request.uuid, timeout_s=20 * PACE).status_code == "SUCCEEDED"
        status = job.status()
        assert status is not None
        assert status["leader_epoch"] == 1
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=10 * PACE)
        until(
            "the second leads",
            lambda: (now := job.status()) is not None and now["leader_epoch"] == 2,
            seconds=20,
        )
        request = client.place("1-0", "LAST_SEEN")
        assert client.wait(request.uuid, timeout_s=20 * PACE).status_code == "SUCCEEDED"
    finally:
        client.close()
    after = job.wait_until_running()
    for processor in ("0", "1"):
        assert after[processor]["pid"] == before[processor]["pid"]


@pytest.mark.longcontract
def test_of_several_that_wait_one_leads_and_the_others_wait_on(job_of: Callable[..., Job]) -> None:
    """The leader is killed, and its successor, too: each time one leads, in the next epoch, and
    no coordinator ends that wasn't killed. Containers keep their process ids.
    """
    job = job_of("three-leaders")
    before = job.processors()
    for waiting in (1, 2):
        job.start_coordinator()
        until("it waits", lambda n=waiting: log_of(job).count("this coordinator waits") == n)
    left = list(job.coordinators)
    for epoch in (2, 3):
        leader = next(c for c in left if c.pid == leader_of(job)["process"]["pid"])
        leader.kill()
        leader.wait(timeout=10 * PACE)
        left.remove(leader)
        until(
            "one of the others leads",
            lambda n=epoch: (now := job.status()) is not None and now["leader_epoch"] == n,
            seconds=20,
        )
        after = job.wait_until_running(seconds=20)
        assert {p: c["pid"] for p, c in after.items()} == {p: c["pid"] for p, c in before.items()}
        assert [c.poll() for c in left] == [None] * len(left)
        assert leader_of(job)["process"]["pid"] in [c.pid for c in left]
    assert log_of(job).count("leading ") == 3


def test_one_that_is_fenced_before_it_led_goes_back_to_waiting(job_of: Callable[..., Job]) -> None:
    """A rival takes over behind its mark, and dies: the same process leads in the next epoch."""
    job = job_of("rival", hosts=1, actives=1, standbys=0)
    first = job.coordinator
    assert first is not None
    second = job.start_coordinator()
    until("it waits", lambda: "this coordinator waits" in log_of(job))
    rival = StateWriter(
        job.bootstrap_servers, job.connection.state_topic, transactional_id(job.name, "1")
    )
    reader = StateReader(job.bootstrap_servers, job.connection.state_topic)
    try:
        first.kill()
        first.wait(timeout=10 * PACE)

        def marked() -> bool:
            mark = reader.snapshot().records["take-over"].value
            return mark is not None and mark["process"]["pid"] == second.pid

        until("its mark", marked)
        claim = claim_of_this_process()
        rival.take_over(claim={**claim, "process": {**claim["process"], "pid": 2**22 + 1}})
    finally:
        rival.close()
        reader.close()
    until("it was fenced", lambda: "another coordinator was first" in log_of(job))
    until(
        "it leads",
        lambda: (status := job.status()) is not None and status["leader_epoch"] == 2,
        seconds=15,
    )
    assert second.poll() is None
    assert job.coordinators == [second]


def test_a_coordinator_that_is_told_so_ends_the_one_that_leads(job_of: Callable[..., Job]) -> None:
    """`--take-over now`: the broker fences the older at its next commit; containers run on."""
    job = job_of("taken-over")
    before = job.processors()
    older = job.coordinator
    assert older is not None
    job.start_coordinator("--take-over", "now")
    until(
        "the newer leads",
        lambda: (status := job.status()) is not None and status["leader_epoch"] == 2,
    )
    client = job.client()
    try:
        request = client.place("0-0", "LAST_SEEN")
        assert client.wait(request.uuid, timeout_s=20 * PACE).status_code == "SUCCEEDED"
    finally:
        client.close()
    assert older.wait(timeout=20 * PACE) == 1
    after = job.wait_until_running()
    for processor in ("0", "1", "1-0"):
        assert after[processor]["pid"] == before[processor]["pid"]


def test_an_orderly_end_hands_over_at_once(job_of: Callable[..., Job]) -> None:
    """SIGTERM: the leader says that it has ended, and whoever waits leads."""
    job = job_of("handed-over")
    before = job.processors()
    first = job.coordinator
    assert first is not None
    job.start_coordinator()
    until("the second waits", lambda: "this coordinator waits" in log_of(job))
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=10 * PACE) == 0
    after = job.wait_until_running(seconds=20)
    assert {p: c["pid"] for p, c in after.items()} == {p: c["pid"] for p, c in before.items()}


@pytest.mark.longcontract
@pytest.mark.parametrize("skew_s", [-150, 150])
def test_a_wrong_clock_neither_hastens_nor_delays_a_take_over(
    job_of: Callable[..., Job], skew_s: int
) -> None:
    """The leader is frozen; whoever waits counts its silence by an elapsed clock, from its own start."""
    job = job_of(f"clock-{skew_s}", hosts=1, actives=1, standbys=0, lease_ms=9_000)
    first = job.coordinator
    assert first is not None
    before = leader_of(job)
    patience_s = 2 * before["beat_every_ms"] / 1000
    job.coordinator_module = "tests.rig.skewed_coordinator"
    job.environment = {"SAMZA_DAGSTER_SKEW_S": str(skew_s)}
    first.send_signal(signal.SIGSTOP)
    try:
        job.start_coordinator()
        until("the second waits", lambda: "this coordinator waits" in log_of(job))
        waits_at_s = time.monotonic()
        taken_over = "taking over: the leader of epoch 1 has been silent"
        until("it takes over", lambda: taken_over in log_of(job), seconds=4 * patience_s)
        waited_s = time.monotonic() - waits_at_s
        assert patience_s - 0.5 <= waited_s <= patience_s + 1 + 2 * PACE
        until("it leads", lambda: (now := job.status()) is not None and now["leader_epoch"] == 2)
    finally:
        first.send_signal(signal.SIGCONT)
    # The job's own time never goes back, which its history and every pause are counted by.
    assert leader_of(job)["beat_ms"] >= before["beat_ms"]
    assert first.wait(timeout=20 * PACE) == 1
