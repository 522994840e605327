"""The lease is passed on by a disk that is full, and is never read by halves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samza_dagster.agent import grants, procfs
from samza_dagster.agent.files import write_json
from samza_dagster.agent.lease import Grant, Now
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

BOOT = "boot-1"


def grant(number: int) -> Grant:
    """Another one for each number; their texts differ in length too."""
    return Grant(1, 10.0 ** (number % 4), Now(1000.0 + number, 1.7e9 + number / 7), BOOT, 1000.0)


@contextmanager
def full(path: Path) -> Iterator[None]:
    """The kernel refuses what is written beside `path` for want of room."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.symlink_to("/dev/full")
    try:
        yield
    finally:
        beside.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a `grant.json` that was written while there was room."""
    path = tmp_path / "grant.json"
    grants.make_room(path)
    grants.write(path, grant(0))
    return path


def test_on_a_full_disk_each_grant_is_read_as_it_was_written(path: Path) -> None:
    """Shorter or longer than the one before; the file that couldn't be replaced stays."""
    before = path.read_bytes()
    with full(path):
        for number in range(1, 9):
            grants.write(path, grant(number))
            assert grants.read(path, BOOT) == grant(number)
    assert path.read_bytes() == before
    assert grants.read(path, "boot-2") is None


def test_once_there_is_room_the_file_counts_again(path: Path) -> None:
    """Whoever wrote it: an agent of a release before knows of no spare."""
    with full(path):
        grants.write(path, grant(1))
    grants.write(path, grant(2))
    assert grants.read(path, BOOT) == grant(2)
    with full(path):
        grants.write(path, grant(3))
    write_json(path, grant(4).to_json())
    assert grants.read(path, BOOT) == grant(4)
    with full(path):
        grants.write(path, grant(5))
        assert grants.read(path, BOOT) == grant(5)


@pytest.mark.parametrize("written", [1, 2, 3, 4])
def test_who_reads_in_the_midst_of_a_write_reads_the_one_before_or_the_new_one(
    path: Path, written: int
) -> None:
    """Up to every byte of it, front or back first: no mixture of two, which could be a lease that
    nobody gave.
    """
    spare = path.with_suffix(".spare")
    with full(path):
        for number in range(1, written):
            grants.write(path, grant(number))
        before = spare.read_bytes()
        grants.write(path, grant(written))
    after = spare.read_bytes()
    changed = [at for at in range(len(after)) if before[at] != after[at]]
    whole = {grant(written - 1), grant(written)}
    for at in range(changed[0], changed[-1] + 2):
        for torn in (after[:at] + before[at:], before[:at] + after[at:]):
            spare.write_bytes(torn)
            assert grants.read(path, BOOT) in whole


def test_where_there_is_no_spare_the_one_in_hand_stays(tmp_path: Path) -> None:
    """A disk that was full from the start, or a spare that somebody cut off: until the next start."""
    path = tmp_path / "grant.json"
    with full(path), pytest.raises(OSError, match="No space"):
        grants.write(path, grant(0))
    assert grants.read(path, BOOT) is None
    grants.write(path, grant(0))
    path.with_suffix(".spare").write_bytes(b" ")
    with full(path), pytest.raises(OSError, match="No space"):
        grants.write(path, grant(1))
    assert grants.read(path, BOOT) == grant(0)
    grants.make_room(path)
    with full(path):
        grants.write(path, grant(2))
    assert grants.read(path, BOOT) == grant(2)


def test_the_next_agent_holds_what_was_passed_on_in_place(path: Path) -> None:
    """It would take the older one for ended, and kill what lives by the newer."""
    boot_id = procfs.boot_id()
    given = grant(1)._replace(boot_id=boot_id)
    with full(path):
        grants.write(path, given)
    found = Supervisor(
        path.parent, path.parent / "state", "h", ResourceLedger(1000, 4), url_of=lambda _: ""
    )
    found.adopt()
    assert found.lease.grant == given
