"""Every process of a host is killed, and frozen for less and for more than its lease, as it works.

One host per row, all of them side by side in one job. The kernel tells who lives, and each
container's own record, by CLOCK_BOOTTIME, what it did when.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from samza_dagster.cluster import LocalCluster
from tests.contract.agent.rig import (
    Agent,
    Recorder,
    Rig,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    rig,
    start,
    until,
)
from tests.rig.pace import PACE, workers

pytestmark = pytest.mark.contract

LEASE_S = 3.0 * PACE
AT_ONCE_S = 1.0
"""From a thaw to the death of what should be dead; a loaded machine is slow to run anybody."""
NO_STATUS = None  # nobody was there to read it


class Host(NamedTuple):
    """A host with one container that works."""

    name: str
    cluster: LocalCluster
    seen: Recorder
    agent: Agent
    pid: int

    @property
    def container(self) -> str:
        """Its execution id, which only this host has."""
        return f"e-{self.name}"

    def pids(self, whom: str) -> list[int]:
        """Keepers before what they keep: killed in this order, nobody reads a status."""
        every = {
            "agent": self.agent.process.pid,
            "warden": self.agent.warden_pid(self.container),
            "container": self.pid,
        }
        return [pid for name, pid in every.items() if name in whom or whom == "host"]

    def send(self, number: signal.Signals, pids: Iterable[int]) -> None:
        for pid in pids:
            os.kill(pid, number)

    def thaw(self, pids: Iterable[int]) -> None:
        """A keeper that thaws may have killed what it keeps before its own turn comes."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def worked(self) -> list[float]:
        """When it worked, by CLOCK_BOOTTIME."""
        worked = self.agent.incarnation(self.container) / "work" / "worked"
        return [float(line) for line in worked.read_text().splitlines() if line]

    def stopped(self) -> list[tuple[object, ...]]:
        return self.seen.named("on_container_stopped", self.container)

    def works_again(self) -> None:
        """It gets a lease and runs what it is given."""
        until("it has a lease again", lambda: lease_end_s(self.agent) > boottime_s() + LEASE_S / 3)
        name = f"again-{self.name}"
        start(self.cluster, self.seen, self.name, launch(name, processor_id=name))
        self.seen.wait("on_container_checked_in", name)


def killed(host: Host, whom: str, status: int | None) -> None:
    host.send(signal.SIGKILL, host.pids(whom))
    if "agent" in whom or whom == "host":
        host.agent.process.wait()
        host.agent.restart()
    assert host.seen.wait("on_container_stopped", host.container)[2] == status
    assert not lives(host.pid)
    host.works_again()


def lives_on(host: Host, whom: str, frozen_s: float) -> None:
    """Frozen for so long, then thawed: the same process works on."""
    pids = host.pids(whom)
    host.send(signal.SIGSTOP, pids)
    thaws_at = boottime_s() + frozen_s
    until("the time of the freeze", lambda: boottime_s() > thaws_at)
    assert lives(host.pid)
    host.send(signal.SIGCONT, pids)
    promised = lease_end_s(host.agent)
    until("it outlives the lease that it had", lambda: boottime_s() > promised)
    assert lives(host.pid)
    assert host.worked()[-1] > promised - AT_ONCE_S * PACE
    assert not host.stopped()
    assert not host.seen.named("on_host_lost", host.name)


def frozen_too_long(host: Host, whom: str) -> tuple[list[int], float]:
    """The coordinator has given the host up; who is frozen, and the end of the lease."""
    pids = host.pids(whom)
    host.send(signal.SIGSTOP, pids)
    host.seen.wait("on_host_lost", host.name)
    ended = lease_end_s(host.agent)
    until("the end of the lease", lambda: boottime_s() > ended)
    assert not host.stopped()
    return pids, ended


def told_dead(host: Host) -> None:
    assert host.seen.wait("on_container_stopped", host.container)[2] == 137
    host.works_again()


def agent_frozen_too_long(host: Host) -> None:
    pids, ended = frozen_too_long(host, "agent")
    until("its warden killed it", lambda: not lives(host.pid), seconds=AT_ONCE_S)
    assert host.worked()[-1] < ended + AT_ONCE_S * PACE
    host.send(signal.SIGCONT, pids)
    told_dead(host)


def keepers_frozen_too_long(host: Host) -> None:
    pids, _ = frozen_too_long(host, "agent and warden")
    host.thaw(pids)
    until("it is killed at once", lambda: not lives(host.pid), seconds=AT_ONCE_S)
    told_dead(host)


def host_frozen_too_long(host: Host) -> None:
    pids, ended = frozen_too_long(host, "host")
    thawed = boottime_s()
    host.thaw(pids)
    until("it is killed at once", lambda: not lives(host.pid), seconds=AT_ONCE_S)
    late = [at for at in host.worked() if at > ended]
    assert not late or late[-1] < thawed + AT_ONCE_S * PACE
    told_dead(host)


def host_thaws_keepers_first(host: Host) -> None:
    pids, ended = frozen_too_long(host, "host")
    host.send(signal.SIGCONT, pids[:-1])
    until("it is killed as it is", lambda: not lives(host.pid), seconds=AT_ONCE_S)
    assert host.worked()[-1] < ended
    told_dead(host)


def host_thaws_agent_first(host: Host) -> None:
    """The end of a lease isn't undone by a lease that comes before the warden has looked."""
    pids, ended = frozen_too_long(host, "host")
    os.kill(pids[0], signal.SIGCONT)
    until("the host has a lease again", lambda: lease_end_s(host.agent) > boottime_s() + 1)
    host.send(signal.SIGCONT, pids[1:-1])
    until("it is killed all the same", lambda: not lives(host.pid), seconds=AT_ONCE_S)
    assert host.worked()[-1] < ended
    told_dead(host)


def only_agent_thaws(host: Host) -> None:
    """The agent kills what its warden doesn't, and tells it dead although that hangs."""
    pids, ended = frozen_too_long(host, "host")
    os.kill(pids[0], signal.SIGCONT)
    assert host.seen.wait("on_container_stopped", host.container)[2] == NO_STATUS
    assert not any(map(lives, pids[1:]))
    assert host.worked()[-1] < ended
    host.works_again()


def frozen_container_is_stopped(host: Host) -> None:
    host.send(signal.SIGSTOP, host.pids("container"))
    host.cluster.stop_container(host.container, host.name)
    told_dead(host)


ROWS: dict[str, Callable[[Host], None]] = {
    "kill agent and warden": lambda h: killed(h, "agent and warden", NO_STATUS),
    "kill host": lambda h: killed(h, "host", NO_STATUS),
    "freeze agent": lambda h: lives_on(h, "agent", LEASE_S / 3),
    "freeze agent and warden": lambda h: lives_on(h, "agent and warden", LEASE_S / 3),
    "freeze host": lambda h: lives_on(h, "host", LEASE_S / 3),
    # Its agent renews the lease meanwhile.
    "freeze warden past a lease": lambda h: lives_on(h, "warden", LEASE_S * 1.2),
    "freeze container past a lease": lambda h: lives_on(h, "container", LEASE_S * 1.2),
    "freeze agent too long": agent_frozen_too_long,
    "freeze agent and warden too long": keepers_frozen_too_long,
    "freeze host too long": host_frozen_too_long,
    "freeze host too long, its keepers thaw first": host_thaws_keepers_first,
    "freeze host too long, its agent thaws first": host_thaws_agent_first,
    "stop a frozen container": frozen_container_is_stopped,
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Rows run beside each other, each in a thread: all of them unless the machine is slow."""
    with (
        rig(tmp_path_factory.mktemp("matrix")) as job,
        ThreadPoolExecutor(workers(len(ROWS))) as pool,
    ):
        cluster, seen = job.cluster(lease_s=LEASE_S)
        yield {
            row: pool.submit(_run, job, cluster, seen, f"host-{number}", act)
            for number, (row, act) in enumerate(ROWS.items())
        }


def _run(
    job: Rig, cluster: LocalCluster, seen: Recorder, name: str, act: Callable[[Host], None]
) -> None:
    agent = job.agent(name)
    pid = start(cluster, seen, name, launch(f"e-{name}", "works", processor_id=name, grace_s=0.5))
    host = Host(name, cluster, seen, agent, pid)
    seen.wait("on_container_checked_in", host.container)
    worked = agent.incarnation(host.container) / "work" / "worked"
    until("it works", lambda: worked.exists() and worked.read_bytes())
    act(host)


@pytest.mark.parametrize("row", ROWS)
def test_a_process_that_is_killed_or_frozen_harms_nobody_else(
    rows: dict[str, Future[None]], row: str
) -> None:
    """Killed: dead, told, its resource usable. Frozen: it lives as long as its lease, and no longer."""
    rows[row].result()


@pytest.mark.longcontract
def test_a_host_whose_agent_alone_thaws_is_rid_of_what_its_frozen_wardens_keep(job: Rig) -> None:
    """The second killer's turn comes 2 s after the new lease, and another 2 s for the hung warden."""
    _run(job, *job.cluster(lease_s=LEASE_S), "host-1", only_agent_thaws)
