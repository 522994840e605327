"""The record of a sandbox: whole at any moment, one command at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.sandbox.dagster_stack import DagsterStack, processes_on
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.registry import Registry, lock_file

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
