"""Grants and the leases that they give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent import grants, procfs
from samza_dagster.agent.files import write_json
from samza_dagster.agent.lease import Grant, Now, longer
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

BOOT = "boot-1"


def numbered(number: int) -> Grant:
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
    grants.write(path, numbered(0))
    return path


def test_on_a_full_disk_each_grant_is_read_as_it_was_written(path: Path) -> None:
    """Shorter or longer than the one before; the file that couldn't be replaced stays."""
    before = path.read_bytes()
    with full(path):
        for number in range(1, 9):
            grants.write(path, numbered(number))
            assert grants.read(path, BOOT) == numbered(number)
    assert path.read_bytes() == before
    assert grants.read(path, "boot-2") is None


def test_once_there_is_room_the_file_counts_again(path: Path) -> None:
    """Whoever wrote it: an agent of a release before knows of no spare."""
    with full(path):
        grants.write(path, numbered(1))
    grants.write(path, numbered(2))
    assert grants.read(path, BOOT) == numbered(2)
    with full(path):
        grants.write(path, numbered(3))
    write_json(path, numbered(4).to_json())
    assert grants.read(path, BOOT) == numbered(4)
    with full(path):
        grants.write(path, numbered(5))
        assert grants.read(path, BOOT) == numbered(5)


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
            grants.write(path, numbered(number))
        before = spare.read_bytes()
        grants.write(path, numbered(written))
    after = spare.read_bytes()
    changed = [at for at in range(len(after)) if before[at] != after[at]]
    whole = {numbered(written - 1), numbered(written)}
    for at in range(changed[0], changed[-1] + 2):
        for torn in (after[:at] + before[at:], before[:at] + after[at:]):
            spare.write_bytes(torn)
            assert grants.read(path, BOOT) in whole


def test_where_there_is_no_spare_the_one_in_hand_stays(tmp_path: Path) -> None:
    """A disk that was full from the start, or a spare that somebody cut off: until the next start."""
    path = tmp_path / "grant.json"
    with full(path), pytest.raises(OSError, match="No space"):
        grants.write(path, numbered(0))
    assert grants.read(path, BOOT) is None
    grants.write(path, numbered(0))
    path.with_suffix(".spare").write_bytes(b" ")
    with full(path), pytest.raises(OSError, match="No space"):
        grants.write(path, numbered(1))
    assert grants.read(path, BOOT) == numbered(0)
    grants.make_room(path)
    with full(path):
        grants.write(path, numbered(2))
    assert grants.read(path, BOOT) == numbered(2)


def test_the_next_agent_holds_what_was_passed_on_in_place(path: Path) -> None:
    """It would take the older one for ended, and kill what lives by the newer."""
    boot_id = procfs.boot_id()
    given = numbered(1)._replace(boot_id=boot_id)
    with full(path):
        grants.write(path, given)
    found = Supervisor(
        path.parent, path.parent / "state", "h", ResourceLedger(1000, 4), url_of=lambda _: ""
    )
    found.adopt()
    assert found.lease.grant == given


# A lease is arithmetic on two clocks.

START = Now(1000.0, 1_700_000_000.0)
seconds = st.floats(min_value=-1e4, max_value=1e4, allow_nan=False)


def grant(lease_s: float = 120.0, epoch: int = 1, asked: Now = START) -> Grant:
    return Grant(epoch, lease_s, asked, "boot-1")


def later(boottime_s: float, wall_s: float) -> Now:
    return Now(START.boottime_s + boottime_s, START.wall_s + wall_s)


def test_it_runs_from_the_moment_it_was_asked_for() -> None:
    """The reply's travel time is the holder's loss, never the granter's."""
    assert grant().remaining_s(later(30, 30)) == 90
    assert grant().is_live(later(119.9, 119.9))
    assert not grant().is_live(later(120, 120))


def test_the_clock_that_says_more_time_has_passed_counts() -> None:
    """A suspended host shows in one, a frozen one in the other."""
    assert grant().remaining_s(later(5, 100)) == 20
    assert grant().remaining_s(later(100, 5)) == 20


@given(lease_s=st.floats(min_value=0, max_value=1e4), boottime_s=seconds, wall_s=seconds)
def test_it_never_lasts_longer_than_granted_on_either_clock(
    lease_s: float, boottime_s: float, wall_s: float
) -> None:
    """For every pair of readings: live means that both clocks allow it."""
    now = later(boottime_s, wall_s)
    if grant(lease_s).is_live(now):
        assert now.boottime_s - START.boottime_s < lease_s
        assert now.wall_s - START.wall_s < lease_s
    assert grant(lease_s).remaining_s(now) <= lease_s


def test_of_two_grants_the_one_that_ends_later_is_held() -> None:
    """Replies overtake each other; an older one must not shorten the lease."""
    first, second = grant(), grant(asked=later(10, 10))
    now = later(11, 11)
    assert longer(None, first, now) == first
    assert longer(first, second, now) == second
    assert longer(second, first, now) == second


def test_a_newer_leader_is_held_to_its_own_word() -> None:
    """Its grant replaces the old leader's, also when it is shorter; the old one's never returns."""
    old, new = grant(120, epoch=1), grant(30, epoch=2)
    assert longer(old, new, START) == new
    assert longer(new, old, START) == new


def test_a_lease_goes_on_only_while_the_one_before_is_live() -> None:
    """Asked for in time it is the same lease, also another leader's; a moment too late, and what
    lived through the gap has lost it. A grant of an agent that knew nothing of this breaks nothing.
    """
    first = grant().after(None)
    second = grant(asked=later(119, 119)).after(first)
    third = grant(30, epoch=2, asked=later(200, 200)).after(second)
    assert [g.began_s for g in (first, second, third)] == [START.boottime_s] * 3
    assert third.follows(first)
    for late in (later(231, 231), later(201, 231), later(231, 201)):
        broken = grant(epoch=2, asked=late).after(third)
        assert not broken.follows(third)
        assert broken.began_s == late.boottime_s
    assert grant().after(grant(asked=START)).follows(grant())
    assert Grant.from_json(third.to_json(), "boot-1") == third
    old = {k: v for k, v in third.to_json().items() if k != "began_s"}
    assert Grant.from_json(old, "boot-1") == third._replace(began_s=None)


def test_a_file_is_a_grant_only_when_it_is_whole_and_of_this_boot() -> None:
    """Anything else is no grant: containers are not started on a guess."""
    written = grant().to_json()
    assert Grant.from_json(written, "boot-1") == grant()
    assert Grant.from_json(written, "boot-2") is None
    assert Grant.from_json(None, "boot-1") is None
    for key in ("epoch", "lease_s", "asked_boottime_s", "asked_wall_s", "boot_id"):
        assert Grant.from_json({k: v for k, v in written.items() if k != key}, "boot-1") is None
    assert Grant.from_json({**written, "lease_s": "long"}, "boot-1") is None
    assert Grant.from_json({**written, "epoch": float("inf")}, "boot-1") is None
