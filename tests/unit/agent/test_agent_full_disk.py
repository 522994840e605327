"""What can't be written hasn't happened, and what must end ends all the same."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.agent import ending, holdings, incarnation, parking, procfs
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

LAUNCH = Launch("e1", "0", ("true",), {}, '{"containers":{}}', ("j/s/T",), 1.0, {})


class Process:
    """A warden or container that is only signalled."""

    def __init__(self, pid: int) -> None:
        self.name = procfs.ProcessName(pid, 1, procfs.boot_id())
        self.pidfd = None
        self.got: list[int] = []
        self.dead = False

    def is_dead(self) -> bool:
        return self.dead

    def send(self, number: int) -> None:
        self.got.append(number)

    def close(self) -> None:
        """Nothing is held."""


class Disk:
    """The host's, which may be full."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        for module in (ending, holdings, incarnation):
            patch.setattr(module, "write_json", self._unless_full(module.write_json))

    def _unless_full(self, write: Callable[..., None]) -> Callable[..., None]:
        def checked(*arguments: Any, **named: Any) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(*arguments, **named)

        return checked


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def host(tmp_path: Path) -> Supervisor:
    made = Supervisor(
        tmp_path, tmp_path / "state", "h", ResourceLedger(1000, 4), url_of=lambda _: ""
    )
    made.hold_lease(Grant(1, 100.0, read_clocks(), made.boot_id))
    made.reserve("r1", 100, 1)
    return made


def recorded(host: Supervisor, parked: dict[str, str] | None = None) -> HostedIncarnation:
    found = HostedIncarnation.create(
        host.directory / "incarnations" / "e1",
        LAUNCH,
        command=("true",),
        environment={},
        grant_file=host.lease.file,
        sequence=1,
        parked=parked,
    )
    found.warden, found.container = Process(70_000_001), Process(70_000_002)  # pyright: ignore[reportAttributeAccessIssue]
    return found


def running(host: Supervisor) -> HostedIncarnation:
    found = recorded(host)
    found.state = incarnation.RUNNING
    host.roster.incarnations["e1"] = found
    host.holdings.ledger = host.holdings.ledger.use("r1", "e1")
    return found


def parked(host: Supervisor) -> HostedIncarnation:
    about = {"request_id": "r1", "launch_digest": parking.digest(LAUNCH)}
    host.roster.lot.parked["e1"] = recorded(host, about)
    return host.roster.lot.parked["e1"]


def marks(found: HostedIncarnation) -> HostedIncarnation:
    read = HostedIncarnation.load(found.directory)
    assert read is not None
    return read


def test_a_stop_that_cant_be_recorded_is_carried_out_and_recorded_by_the_next(
    host: Supervisor, disk: Disk
) -> None:
    """The warden is told first: nothing that is asked to stop goes on for want of a record."""
    found = running(host)
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        host.stop("e1")
    assert found.warden is not None
    assert found.warden.got == [15]  # pyright: ignore[reportAttributeAccessIssue]
    assert found.state == incarnation.STOPPING
    disk.is_full = False
    assert host.stop("e1").ok
    assert marks(found).stop_asked


def test_a_start_that_cant_be_recorded_never_opens_the_gate_of_what_is_parked(
    host: Supervisor, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told as failed, it is replaced: its JVM must not be served the JobModel after all."""
    killed: list[procfs.ProcessName] = []
    monkeypatch.setattr(procfs, "kill_group", lambda leader, _: killed.append(leader))
    found = parked(host)

    def full_now(*_: object) -> None:
        disk.is_full = True

    monkeypatch.setattr(incarnation, "write_text", full_now)  # of its JobModel
    with pytest.raises(OSError, match="No space"):
        host.start("r1", LAUNCH)
    assert host.roster.incarnations == {}
    assert host.gate.waits_for(found) == "its start hasn't come"
    assert found.container is not None
    assert killed == [found.container.name]
    assert marks(found).parked


def test_what_is_parked_is_killed_although_that_cant_be_recorded(
    host: Supervisor, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again at each look, as ever."""
    killed: list[procfs.ProcessName] = []
    monkeypatch.setattr(procfs, "kill_group", lambda leader, _: killed.append(leader))
    found = parked(host)
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        host.release("r1")
    assert found.container is not None
    assert killed == [found.container.name]
    assert found.kill_at is not None


def test_a_job_model_whose_release_cant_be_recorded_isnt_released(
    host: Supervisor, disk: Disk
) -> None:
    """Nor when it is asked for again: the next agent wouldn't know that it owns tasks."""
    found = running(host)
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(OSError, match="No space"), host.roster.changed:
            host.gate.release_job_model(found)
    assert not found.released


def test_a_container_is_told_to_go_on_although_its_check_in_cant_be_recorded(
    host: Supervisor, disk: Disk
) -> None:
    """It is checked in by the first heartbeat that can be."""
    found = running(host)
    with host.roster.changed:
        host.gate.release_job_model(found)
    disk.is_full = True
    assert host.gate.heartbeat("e1")
    assert not found.checked_in
    disk.is_full = False
    assert host.gate.heartbeat("e1")
    assert marks(found).checked_in


def test_a_reservation_that_cant_be_recorded_isnt_held(host: Supervisor, disk: Disk) -> None:
    """The same request, later, is held and recorded."""
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        host.reserve("r2", 100, 1)
    assert host.holdings.ledger.find("r2") is None
    disk.is_full = False
    assert host.reserve("r2", 100, 1).ok


def look(host: Supervisor) -> None:
    """One round of the watch."""
    host.watch.wake()
    rounds = iter((False, True))
    host.watch.run(lambda: next(rounds))


def test_a_death_is_told_on_a_full_disk_and_its_resource_is_freed_once_there_is_room(
    host: Supervisor, disk: Disk
) -> None:
    """The warden couldn't write the end down either. The watch goes on, for the others."""
    found = running(host)
    for process in (found.warden, found.container):
        process.dead = True  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    disk.is_full = True
    look(host)
    (told,) = host.report()["containers"]
    assert (told["state"], told["why"]) == ("dead", "its warden was killed")
    assert host.holdings.ledger.free_memory_mb == 900
    disk.is_full = False
    look(host)
    assert host.holdings.ledger.free_memory_mb == 1000


def test_a_start_whose_warden_failed_is_told_on_a_full_disk(host: Supervisor, disk: Disk) -> None:
    """As one does that can't write its own record."""
    found = running(host)
    found.state, found.container = incarnation.LAUNCHING, None
    found.warden.dead = True  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    disk.is_full = True
    look(host)
    assert host.report()["containers"][0]["state"] == "failed"


def test_one_that_cant_be_barred_is_looked_at_again(host: Supervisor, disk: Disk) -> None:
    """An earlier agent may have started its warden: until it is barred it may yet run."""
    found = running(host)
    found.state, found.warden, found.container = incarnation.LAUNCHING, None, None
    disk.is_full = True
    look(host)
    assert found.state == incarnation.LAUNCHING
    disk.is_full = False
    look(host)
    assert found.state == incarnation.FAILED


def test_a_start_that_cant_be_recorded_holds_no_resource(host: Supervisor, disk: Disk) -> None:
    """It was told as failed."""
    host.holdings.ledger = host.holdings.ledger.use("r1", "e1")
    look(host)
    assert host.holdings.ledger.free_memory_mb == 1000
