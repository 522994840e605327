"""Processes of a sandbox: the registry, the init of a host."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.sandbox import process
from samza_dagster.sandbox.dagster_stack import DagsterStack, processes_on
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.registry import Registry, lock_file
from samza_dagster.sandbox.yarn import cluster
from tests.rig.job import alive
from tests.rig.waiting import until

pytestmark = pytest.mark.unit


def test_records_from_several_threads_are_all_there(tmp_path: Path) -> None:
    """The class archive is built beside the fill: both start processes. Facts stay beside them."""
    registry = Registry("a", root=tmp_path)
    own = ProcessRecord.of("x", os.getpid())
    threads = [threading.Thread(target=registry.add, args=(own,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    registry.update(state="up")
    assert Registry("a", root=tmp_path).processes() == (own,) * 20
    assert (registry.read()["state"], registry.live("x"), registry.live("y")) == (
        *("up", (own,) * 20),
        (),
    )


def test_two_commands_at_once_are_refused_with_the_holder(tmp_path: Path) -> None:
    """Not queued: the second one would undo the first. Another sandbox doesn't mind."""
    with (
        Registry("a", root=tmp_path).exclusive(),
        Registry("b", root=tmp_path).exclusive(),
        pytest.raises(Refused, match=str(os.getpid())),
        Registry("a", root=tmp_path).exclusive(),
    ):
        pass


def test_a_sandbox_without_a_file_keeps_no_directory(tmp_path: Path) -> None:
    """An up that was refused left it, with its lock. What holds anything stays; so does another's lock."""
    registry = Registry("a", root=tmp_path)
    with registry.exclusive():
        assert registry.is_held
    assert (registry.is_held, [*tmp_path.iterdir()]) == (False, [])
    with registry.exclusive():
        (registry.directory / "log").touch()
    assert {each.name for each in registry.directory.iterdir()} == {"lock", "log"}


def test_a_lock_that_its_holder_has_just_taken_away_holds_nothing(tmp_path: Path) -> None:
    """Who had opened the file before would be at it together with who makes the next one."""
    with (tmp_path / "lock").open("a+") as opened:
        assert lock_file(opened)
        (tmp_path / "lock").unlink()
        assert not lock_file(opened)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "x" * 33])
def test_a_name_is_a_name_and_no_path(name: str, tmp_path: Path) -> None:
    """It becomes a directory."""
    with pytest.raises(InvalidInput):
        Registry(name, root=tmp_path)


@pytest.mark.parametrize("text", ["{", '{"version": 2}'])
def test_a_record_that_can_not_be_read_is_named(text: str, tmp_path: Path) -> None:
    """And not taken for an empty one, which would forget what runs."""
    registry = Registry("a", root=tmp_path)
    registry.directory.mkdir()
    registry.file.write_text(text)
    with pytest.raises(InvalidInput, match=r"sandbox\.json"):
        registry.read()


def test_a_sandbox_with_a_dead_part_is_broken_and_names_it(tmp_path: Path) -> None:
    """Up is what runs, not what was started."""
    box = Sandbox("a", root=tmp_path)
    box.registry.add(ProcessRecord.of("broker", os.getpid()))
    box.registry.update(state="up", hosts=["host-1"])
    status = box.status()
    assert status["state"] == "broken"
    assert status["gone"] == ["agent host-1", "coordinator", "load"]
    assert status["hosts"] == {"host-1": {"state": "lost"}}


def test_a_dagster_that_was_refused_beside_another_leaves_that_ones_record(tmp_path: Path) -> None:
    """Its `stop` removed it: `sandbox down` would have left the first one running."""
    processes_on(tmp_path).add(ProcessRecord.of("daemon", os.getpid()))
    second = DagsterStack(tmp_path, tmp_path / "definitions.py")
    with pytest.raises(InvalidInput, match="daemon runs as process"):
        second.start()
    second.stop()
    assert len(processes_on(tmp_path).live()) == 1


# The first process of a simulated host outlives a NodeManager that is killed, and starts it again.

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
