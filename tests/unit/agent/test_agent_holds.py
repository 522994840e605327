"""Holds that wait at an agent, by a clock of the test: who is expected back, and who is told to end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.agent import holds
from samza_dagster.agent.examination import WARDEN_WITHIN_S
from samza_dagster.agent.holds import BACK_WITHIN_S, NAMED_WITHIN_S
from samza_dagster.agent.incarnation import FAILED, LAUNCHING, HostedIncarnation
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

LAUNCH = Launch("e1", "0", ("true",), {}, "{}", (), 1.0, {})


class Host:
    """An agent's supervisor without its threads: the test looks when it wants to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 1000.0
        self.supervisor = Supervisor(
            directory,
            directory / "state",
            "host-1",
            ResourceLedger(1000, 4),
            url_of=lambda _: "",
            monotonic=lambda: self.now,
        )
        self.supervisor.adopt()
        self.holds = self.supervisor.holds
        self.holds.listen()
        threading.Thread(target=self.holds.serve, daemon=True).start()
        self.peers: list[socket.socket] = []

    def connect(self, **hello: Any) -> socket.socket:
        """A process that says this, or nothing; returns once the agent has taken that."""
        taken = threading.Event()
        self.holds.on_change = taken.set
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.peers.append(peer)
        with holds._address(self.directory) as (address, _):
            peer.connect(address)
        if hello:
            peer.sendall(json.dumps(hello).encode() + b"\n")
            assert taken.wait(10)
        self.look()
        return peer

    def gone(self, peer: socket.socket) -> None:
        """The process ends; returns once the agent has seen that."""
        seen = threading.Event()
        self.holds.on_change = seen.set
        peer.close()
        assert seen.wait(10)
        self.look()

    def hold(self, name: str = "h1") -> socket.socket:
        return self.connect(version=1, hold=name)

    def look(self, after_s: float = 0.0) -> None:
        self.now += after_s
        with self.supervisor.roster.changed:
            self.holds.look()

    def watch(self, found: HostedIncarnation, after_s: float) -> None:
        self.now += after_s
        with self.supervisor.roster.changed:
            self.supervisor.watch.look(found)

    def reserve(self, hold: str | None = "h1", launch: Launch | None = None) -> None:
        assert self.supervisor.reserve("r1", 10, 1, launch, hold).ok
        self.look()

    @property
    def reserved(self) -> list[str]:
        return [held.request_id for held in self.supervisor.holdings.ledger.held]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    made = Host(directory)
    yield made
    for peer in made.peers:
        peer.close()


def told(peer: socket.socket) -> dict[str, Any]:
    """What the agent has sent; empty when it sends nothing for a moment."""
    peer.settimeout(0.2)
    try:
        received = peer.recv(65536)
    except TimeoutError:
        return {}
    return json.loads(received) if received else {"closed": True}


def test_its_socket_is_for_its_own_user_alone(host: Host) -> None:
    """Whoever connects there could become the warden of a container with the job's secrets."""
    assert (host.directory / "holds.sock").stat().st_mode & 0o777 == 0o600


def test_a_hold_that_no_reservation_names_ends_after_a_while(host: Host) -> None:
    """And one that is named waits for as long as its reservation lasts."""
    unknown = host.hold("h2")
    named = host.hold()
    host.reserve()
    host.look(NAMED_WITHIN_S - 1)
    assert told(unknown) == {}
    host.look(1)
    assert "no reservation has named it" in told(unknown)["end"]
    host.look(10 * NAMED_WITHIN_S)
    assert told(named) == {}
    host.supervisor.release("r1")
    host.look()
    assert "given back" in told(named)["end"]


def test_a_hold_that_was_released_before_it_came_ends_at_once(host: Host) -> None:
    """Its coordinator has no use for it, whatever its place in time."""
    host.reserve()
    host.supervisor.release("r1")
    assert "given back" in told(host.hold())["end"]


def test_an_unused_reservation_is_dropped_when_its_hold_stays_away(host: Host) -> None:
    """One that is back in time keeps it, and each absence has the whole time."""
    host.reserve()
    for _ in range(3):
        host.gone(host.hold())
        host.look(BACK_WITHIN_S - 1)
        assert host.reserved == ["r1"]
    host.look(1)
    assert host.reserved == []
    outcome = host.supervisor.start("r1", LAUNCH)
    assert (outcome.ok, outcome.why) == (False, "no resource is held for request r1")


def test_a_hold_that_has_never_come_may_still_come(host: Host) -> None:
    """The engine takes its time to start it; the coordinator gives the reservation back if it must."""
    host.reserve()
    host.look(10 * BACK_WITHIN_S)
    assert host.reserved == ["r1"]


def test_the_next_agent_expects_all_that_is_reserved_and_unused(host: Host) -> None:
    """It can't know which of them had connected."""
    host.reserve()
    later = Host(host.directory)
    later.look(BACK_WITHIN_S - 1)
    assert later.reserved == ["r1"]
    later.look(2)
    assert later.reserved == []


@pytest.mark.parametrize("parked", [False, True])
def test_no_warden_in_time_is_the_end_of_what_waits_for_one(host: Host, parked: bool) -> None:
    """What was parked is gone, its reservation isn't; what was started has failed, with the reason."""
    host.reserve(launch=LAUNCH if parked else None)
    watched = host.supervisor
    if not parked:
        assert watched.start("r1", LAUNCH).ok
    found = watched.roster.live()[0]
    host.watch(found, WARDEN_WITHIN_S - 1)
    assert found.state == LAUNCHING
    host.watch(found, 1)
    assert (found.state, found.why) == (
        FAILED,
        "no warden came within 30 s: the cluster's engine started none, or it ended",
    )
    assert host.reserved == (["r1"] if parked else [])
    assert watched.report()["parked"] == []


def test_a_start_of_what_waits_parked_gives_its_hold_the_whole_time(host: Host) -> None:
    """It is due a while after the start, not after the reservation."""
    host.reserve(launch=LAUNCH)
    found = host.supervisor.roster.live()[0]
    host.watch(found, WARDEN_WITHIN_S - 1)
    assert host.supervisor.start("r1", LAUNCH).ok
    host.watch(found, WARDEN_WITHIN_S - 1)
    assert found.state == LAUNCHING


def test_a_hold_is_handed_the_directory_and_then_is_no_hold(host: Host) -> None:
    """It isn't told to end, whatever happens to its reservation."""
    peer = host.hold()
    host.reserve()
    assert host.supervisor.start("r1", LAUNCH).ok
    assert told(peer) == {"incarnation": str(host.directory / "incarnations" / "e1")}
    host.look(NAMED_WITHIN_S)
    assert told(peer) == {}
    assert host.reserved == ["r1"]


def test_a_hold_that_has_just_died_is_handed_nothing(host: Host) -> None:
    """Its death is seen before its process is taken for a warden."""
    peer = host.hold()
    host.reserve()
    peer.close()
    assert host.supervisor.start("r1", LAUNCH).ok
    (found,) = host.supervisor.roster.live()
    assert found.warden is None


def test_another_process_of_the_same_hold_takes_its_place(host: Host) -> None:
    """The engine may have started it anew."""
    first, second = host.hold(), host.hold()
    host.reserve()
    assert "another process" in told(first)["end"]
    assert host.supervisor.start("r1", LAUNCH).ok
    assert "incarnation" in told(second)


def test_a_process_that_is_slow_to_say_which_hold_it_is_takes_its_place_too(host: Host) -> None:
    """Though it had connected first; the agent serves on."""
    slow, other = host.connect(), host.hold()
    taken = threading.Event()
    host.holds.on_change = taken.set
    slow.sendall(b'{"version": 1, "hold": "h1"}\n')
    assert taken.wait(10)
    host.look()
    host.reserve()
    assert "another process" in told(other)["end"]
    assert told(slow) == {}


def test_a_start_that_an_agent_had_only_begun_can_be_repeated(host: Host) -> None:
    """Killed before it had recorded the incarnation: its resource isn't lost for that."""
    host.reserve(launch=LAUNCH)
    with host.supervisor.roster.changed:
        host.supervisor.holdings.put(host.supervisor.holdings.ledger.use("r1", "e1"))
    later = Host(host.directory)
    assert later.supervisor.report()["parked"][0]["execution_id"] == "e1"
    assert later.supervisor.start("r1", LAUNCH).ok
    assert later.supervisor.report()["parked"] == []
    assert later.supervisor.report()["reservations"][0]["execution_id"] == "e1"


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        ({"version": 3, "hold": "h1"}, "version"),
        ({"version": 1, "hold": "../h1"}, "hold"),
        ({"version": 1}, "is needed"),
        ({"hold": "h1", "more": "x" * 500}, "is needed"),
    ],
)
def test_what_connects_and_is_no_hold_is_told_why(
    host: Host, hello: dict[str, Any], why: str
) -> None:
    """And is rid of; the others wait on."""
    other = host.hold("h2")
    peer = host.connect()
    peer.sendall(json.dumps(hello).encode() + b"\n")
    assert why in told(peer)["end"]
    assert told(other) == {}


def test_who_connects_and_says_nothing_is_left_after_a_while(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a descriptor of the agent."""
    monkeypatch.setattr(holds, "NAMED_WITHIN_S", 0.05)
    assert told(host.connect()) == {"closed": True}


def test_a_hold_gives_up_when_no_agent_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It costs the cluster's memory."""
    monkeypatch.setattr(holds, "_AGENTLESS_S", 0.05)
    monkeypatch.setattr(holds, "_RECONNECT_S", 0.01)
    monkeypatch.setenv("CONTAINER_ID", "h1")
    monkeypatch.setattr(holds.os, "getsid", lambda _: holds.os.getpid())
    assert holds.main(["--directory", str(tmp_path / "not there")]) == 1
    assert "no agent of" in capfd.readouterr().err


def test_a_hold_is_started_by_an_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which says of which container it is."""
    monkeypatch.delenv("CONTAINER_ID", raising=False)
    with pytest.raises(SystemExit) as ended:
        holds.main(["--directory", "d"])
    assert ended.value.code == 2
    assert "CONTAINER_ID" in capsys.readouterr().err
