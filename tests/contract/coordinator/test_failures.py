"""Processes die, the coordinator lives: everything runs again, each within its seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.rig.job import Job, kill
from tests.rig.kill_points import KilledJob

pytestmark = pytest.mark.contract

LEASE_S, HOST_TIMEOUT_S, BOUND_S = 12, 5, 1
RESTART_WITHIN_S = 10
"""Reserve, start and check in take less than a second on an idle machine."""


@pytest.fixture(scope="module")
def job(job_of: Callable[..., Job]) -> Job:
    return job_of("failing", lease_ms=LEASE_S * 1000, host_timeout_ms=HOST_TIMEOUT_S * 1000)


@pytest.mark.parametrize("killed", [("0",), ("0-0",), ("0", "0-0")], ids="+".join)
def test_killed_containers_run_again_on_their_hosts(job: Job, killed: tuple[str, ...]) -> None:
    """An active, a standby, both of a group: their hosts have room, so nobody else is touched."""
    settled = KilledJob(job)
    before = settled.settle()
    kill(*(before[name]["pid"] for name in killed))
    after = settled.settle(seconds=RESTART_WITHIN_S)
    for name, found in after.items():
        assert found["host"] == before[name]["host"]
        assert (found["pid"] != before[name]["pid"]) == (name in killed)


def test_what_ran_on_a_lost_host_runs_elsewhere_once_its_leases_are_over(job: Job) -> None:
    """All processes of the active's host are killed at once. Nobody can say that they are dead:
    its active takes its standby's place when no lease of it can be left, and not before.
    """
    settled = KilledJob(job)
    before = settled.settle()
    lost = before["0"]["host"]
    job.kill_host(lost)
    killed_at = time.time()
    after = settled.settle(seconds=HOST_TIMEOUT_S + LEASE_S + BOUND_S + RESTART_WITHIN_S)
    assert after["0"]["host"] == before["0-0"]["host"]
    assert lost not in {found["host"] for found in after.values()}
    started = next(
        line["at"]
        for line in job.journal()
        if (line["what"], line["execution"]) == ("started", after["0"]["execution_id"])
    )
    # Its last lease was granted at most a long poll, a quarter of the host's time-out, earlier.
    assert started - killed_at > LEASE_S - HOST_TIMEOUT_S / 4 - 1
    for name, found in before.items():
        active = before[name.partition("-")[0]]
        if lost not in (found["host"], active["host"]):  # nor gives way to its active
            assert after[name]["pid"] == found["pid"]
    job.start_agent(lost)
    settled.settle(seconds=RESTART_WITHIN_S)


def test_nobody_ever_had_two_processes_and_all_of_it_is_on_record(job: Job) -> None:
    """The kernel's locks and the audit history, over everything above."""
    assert not [line for line in job.journal() if line["what"] == "VIOLATION"]
    KilledJob(job).judge()
