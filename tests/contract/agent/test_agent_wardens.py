"""What a warden does while its container runs, and what of it is left after."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.contract.agent.rig import Agent, Rig, launch, lives, start, until

pytestmark = pytest.mark.contract

NEIGHBOURS = 60


@contextmanager
def neighbours() -> Iterator[None]:
    """Further processes of the host."""
    with ExitStack() as stack:
        for _ in range(NEIGHBOURS):
            process = stack.enter_context(subprocess.Popen(["sleep", "600"]))
            stack.callback(process.kill)
        yield


def counted(pid: int, file: str, name: str) -> int:
    """A number that the kernel keeps of a process."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":"))


def test_a_warden_doesnt_read_the_processes_of_its_host_each_second(job: Rig) -> None:
    """With 40 containers among 1,000 processes that took most of a core. Judged by the kernel's
    count of reads, over some rounds: not as many as there are processes in one.
    """
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    warden = agent.warden_pid("e1")
    with neighbours():
        began, reads = counted(warden, "status", "voluntary_ctxt_switches"), reads_of(warden)
        until(
            "some rounds", lambda: counted(warden, "status", "voluntary_ctxt_switches") > began + 3
        )
        assert reads_of(warden) - reads < NEIGHBOURS


def reads_of(pid: int) -> int:
    """Calls of `read` so far."""
    return counted(pid, "io", "syscr")


def left_behind(agent: Agent, name: str) -> int:
    """The pid of an orphan of the stub's."""
    file = agent.incarnation("e1") / "work" / name
    return int(until(f"{name} has begun", lambda: file.read_text() if file.exists() else ""))


def test_orphans_of_a_container_are_reaped_while_it_runs_and_killed_when_it_ends(job: Rig) -> None:
    """Also those that left its group: no zombies gather, and its stores are free when it is told
    dead.
    """
    cluster, seen = job.cluster()
    agent = job.agent("host-1")
    pid = start(cluster, seen, "host-1", launch("e1", "orphans"))
    seen.wait("on_container_checked_in", "e1")
    ended, daemon = left_behind(agent, "ended"), left_behind(agent, "daemon")
    until("no zombie is left", lambda: not Path(f"/proc/{ended}").exists())
    assert lives(pid)
    assert counted(daemon, "status", "PPid") == agent.warden_pid("e1")
    cluster.stop_container("e1", "host-1")
    assert seen.wait("on_container_stopped", "e1") == ("e1", "host-1", 143)
    assert not lives(daemon)
    assert not lives(pid)
