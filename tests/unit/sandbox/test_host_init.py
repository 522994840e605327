"""The first process of a simulated host outlives a NodeManager that is killed, and starts it again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.sandbox import process
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.yarn import cluster
from tests.rig.job import alive
from tests.rig.waiting import until

pytestmark = pytest.mark.unit

INIT = Path(cluster.__file__).with_name("host_init.py")
NODE_MANAGER = """import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
print(os.getpid(), os.getsid(0), sorted(map(int, blocked)), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def init(tmp_path: Path) -> Iterator[ProcessRecord]:
    command = (sys.executable, "-I", str(INIT), sys.executable, "-c", NODE_MANAGER)
    record = process.spawn("host", command, log=tmp_path / "log")
    yield record
    record.stop(grace_s=0.0)
    for line in lines(tmp_path):
        if alive(pid := int(line.split()[0])):
            os.kill(pid, signal.SIGKILL)


def lines(tmp_path: Path) -> list[str]:
    """One of each NodeManager that was started."""
    return (tmp_path / "log").read_text().splitlines()


def started(tmp_path: Path, count: int) -> int:
    """The process id of that many\'th NodeManager."""
    until("it is started", lambda: len(lines(tmp_path)) == count)
    return int(lines(tmp_path)[-1].split()[0])


def test_a_killed_one_is_reaped_and_started_again(init: ProcessRecord, tmp_path: Path) -> None:
    """In a session of its own, with no signal blocked."""
    first = started(tmp_path, 1)
    assert lines(tmp_path) == [f"{first} {first} []"]
    node_manager = ProcessRecord.of("NodeManager", first)
    init.send(signal.SIGUSR1)  # it runs: there is nothing to start
    node_manager.send(signal.SIGKILL)
    assert node_manager.wait(10)
    init.send(signal.SIGUSR1)
    second = started(tmp_path, 2)
    assert not Path(f"/proc/{first}").exists()
    assert alive(second)
    assert init.is_alive


def test_one_that_exits_by_itself_ends_the_host_with_its_status(
    init: ProcessRecord, tmp_path: Path
) -> None:
    os.kill(started(tmp_path, 1), signal.SIGTERM)
    assert init.wait(10)
    assert process.exit_status(init) == 3
