"""What a silent host keeps, and what it gets when it comes back."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.contract.agent.rig import (
    boottime_s,
    launch,
    lease_asked_s,
    lease_end_s,
    lives,
    rig,
    start,
    until,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def test_a_lost_host_keeps_its_lease_and_gets_no_longer_one_before_it_is_admitted(
    tmp_path: Path,
) -> None:
    """Lost after the host time-out, its container lives on; back, it lives on only as long as it
    would have, until the coordinator has dealt with its return.
    """
    with rig(tmp_path) as job:
        cluster, seen = job.cluster(lease_s=20.0 * PACE, host_timeout_s=1.0 * PACE)
        agent = job.agent("host-1", 1000, 4, "--fault-domain", "rack-7")
        assert seen.wait("on_host_registered")[0].fault_domain == "rack-7"
        pid = start(cluster, seen, "host-1", launch("e1"))
        seen.wait("on_container_checked_in", "e1")
        seen.admit = lambda _host: None
        agent.process.send_signal(signal.SIGSTOP)
        host, granted_ago_s = seen.wait("on_host_lost")
        assert host == "host-1"
        # Never longer ago than the agent's own grant, or what runs there is replaced too early;
        # by the polls that it didn't read less.
        age_s = boottime_s() - lease_asked_s(agent)
        assert age_s - 1.0 * PACE < granted_ago_s <= age_s
        assert lives(pid)
        promised = lease_end_s(agent)
        agent.process.send_signal(signal.SIGCONT)
        until("it registers again", lambda: len(seen.named("on_host_told")) == 2)
        again = time.monotonic() + 1.5
        until("some polls later", lambda: time.monotonic() > again)
        # The grant's own beginning is up to a poll before its reply.
        assert lease_end_s(agent) <= promised + 0.5 * PACE
        cluster.admit_host("host-1")
        until("a whole lease", lambda: lease_end_s(agent) > promised + 1)
        assert lives(pid)


def test_a_coordinator_that_doesnt_answer_any_more_is_left_for_the_one_that_the_file_names(
    tmp_path: Path,
) -> None:
    """It holds the connection, as a frozen process does: the agent doesn't wait for it."""
    with rig(tmp_path) as job:
        silent, seen = job.cluster(epoch=1)
        job.agent("host-1")
        seen.wait("on_host_told")
        with silent._changed:  # nothing is answered while this is held, for 15 s by itself
            _, newer = job.cluster(epoch=2)
            asked_at = time.monotonic()
            newer.wait("on_host_told", within_s=13)
            # A machine may be slow, but not so long that the silent one was given up by itself.
            assert time.monotonic() - asked_at < min(10.0 * PACE, 14.5)
