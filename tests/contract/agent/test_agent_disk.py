"""A container that prints without end, and a disk that has no room for the next lease."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from samza_dagster.agent import grants, procfs
from tests.contract.agent.rig import (
    Agent,
    Rig,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    start,
    until,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract

MB = 1 << 20


def test_the_log_of_a_container_that_prints_without_end_stays_bounded(job: Rig) -> None:
    """It is on the disk that the lease is written to. The newest lines stay, and it runs on."""
    cluster, seen = job.cluster()
    agent = job.agent("host-1", 1000, 4, "--container-log-mb", "1")
    pid = start(cluster, seen, "host-1", launch("e1", "chatty"))
    seen.wait("on_container_checked_in", "e1")
    log = agent.incarnation("e1") / "container.log"
    older = log.with_name("container.log.1")

    def printed() -> int:
        """Bytes, by the numbers of the lines, one of which is 100 bytes long."""
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 300))
            lines = stream.read().splitlines()
        return 100 * int(lines[-2].split()[0]) if len(lines) > 2 else 0

    def is_bounded() -> bool:
        with suppress(FileNotFoundError):  # between its removal and the next copy
            return printed() > 8 * MB and log.stat().st_size + older.stat().st_size < 3 * MB
        return False

    def newest_stay() -> bool:
        """The copy may be under way: it has no line yet, or the file isn't there."""
        with suppress(FileNotFoundError):
            lines = older.read_bytes().splitlines()
            return len(lines) > 2 and int(lines[-2].split()[0]) > 5000
        return False

    until("much was printed, and little stays", is_bounded)
    until("the newest lines are in the older log", newest_stay)
    assert lives(pid)
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 143)


def passed_on_s(agent: Agent) -> float:
    """When the lease ends that the wardens read, by CLOCK_BOOTTIME."""
    read = grants.read(agent.directory / "grant.json", procfs.boot_id())
    assert read is not None
    return read.asked.boottime_s + read.lease_s


@pytest.mark.longcontract
def test_a_full_disk_ends_no_lease_that_is_granted_and_revives_none_that_isnt(job: Rig) -> None:
    """The container outlives the last lease that could be written to a file of its own; without a
    coordinator it is dead when the last one that was passed on is over.
    """
    cluster, seen = job.cluster(lease_s=3.0 * PACE)
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    beside = agent.directory / f".grant.json.{agent.process.pid}"
    until("no write is under way", lambda: linked(beside))
    last = lease_end_s(agent)
    until("that lease is over", lambda: boottime_s() > last + 1.0 * PACE)
    assert lives(pid)
    assert lease_end_s(agent) == last
    assert passed_on_s(agent) > last

    beside.unlink()
    until("there is room again", lambda: lease_end_s(agent) > last)
    assert lives(pid)

    until("no write is under way", lambda: linked(beside))
    last = lease_end_s(agent)
    until("passed on in place", lambda: passed_on_s(agent) > last)
    cluster.close()
    until("its end", lambda: not lives(pid))
    assert boottime_s() > passed_on_s(agent) - 0.1  # the wall clock may be slewed
    beside.unlink()


def linked(beside: Path) -> bool:
    """Whether what is written there is refused for want of room from now on."""
    with suppress(FileExistsError):
        beside.symlink_to("/dev/full")
        return True
    return False
