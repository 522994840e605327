"""Who leads, who waits, and who takes over."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from samza_dagster.coordinator.candidacy import claim_of_this_process
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.model.naming import transactional_id
from tests.contract.coordinator.conftest import restart
from tests.rig.job import Job
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


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
    restart(job, "0-0", within_s=20)
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
    restart(job, "1-0", within_s=20)
    after = job.wait_until_running()
    for processor in ("0", "1"):
        assert after[processor]["pid"] == before[processor]["pid"]


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
    restart(job, "0-0", within_s=20)
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
