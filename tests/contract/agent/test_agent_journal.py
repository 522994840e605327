"""Whose records an agent goes by, and what the coordinator is told when they are others."""

from __future__ import annotations

import os
import signal

import pytest

from samza_dagster.agent.examination import WARDEN_MARGIN_S
from samza_dagster.coordinator.limits import LEASE_BOUND
from tests.contract.agent.rig import (
    Rig,
    Scenario,
    Waiting,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    start,
    until,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


def an_agent_with_another_directory_tells_another_journal_while_the_container_lives(
    job: Rig,
) -> None:
    """The same directory keeps its id over a killed agent; another has its own."""
    cluster, seen = job.cluster(lease_s=6.0 * PACE)
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    agent.kill_9()
    agent.restart()
    registered = until("again", lambda: seen.named("on_host_registered")[1:])
    assert [c.execution_id for c in registered[0][1]] == ["e1"]
    first = seen.named("on_host_registered")[0][0]
    assert first.journal
    assert (registered[0][0].journal, registered[0][0].boot_id) == (first.journal, first.boot_id)
    agent.kill_9()
    ends = lease_end_s(agent)
    agent.directory = job.root / "agents" / "elsewhere"
    agent.restart()
    other, containers = until("with others", lambda: seen.named("on_host_registered")[2:])[0]
    assert other.journal not in ("", first.journal)
    assert (other.boot_id, containers) == (first.boot_id, ())
    assert lives(pid), "a journal that lacks it proves nothing"
    until("its lease has ended", lambda: not lives(pid), seconds=15 * PACE)
    assert boottime_s() > ends - 0.1


def a_hung_warden_on_a_host_that_is_cut_off_keeps_its_container_no_longer_than_the_bound(
    job: Rig,
) -> None:
    """SIGSTOP on the warden alone: a successor may be released a lease and its bound later."""
    cluster, seen = job.cluster(lease_s=3.0 * PACE)
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    os.kill(agent.warden_pid("e1"), signal.SIGSTOP)
    cluster.close()
    until("the second killer has acted", lambda: not lives(pid), seconds=15 * PACE)
    late_s = boottime_s() - lease_end_s(agent)
    assert WARDEN_MARGIN_S <= late_s < LEASE_BOUND.least / 1000


SCENARIOS = (
    an_agent_with_another_directory_tells_another_journal_while_the_container_lives,
    a_hung_warden_on_a_host_that_is_cut_off_keeps_its_container_no_longer_than_the_bound,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_an_agent_goes_by_is_told(waiting: Waiting, scenario: Scenario) -> None:
    """Each on a host of its own, all of them at once."""
    waiting[scenario].result()
