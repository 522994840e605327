"""Three standalone processors with real Samza containers, and what may befall them, one after the other.

Each fault ends, within its deadline, in a version that all three have agreed on. Nothing is missing then,
by an independent consumer, and no task had two owners, by the broker's own log.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from samza_dagster.model import naming
from samza_dagster.sandbox import process
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from tests.rig.job import alive, parent_of
from tests.rig.pace import PACE
from tests.rig.processor_group import SESSION_S, ProcessorGroup, fenced_group
from tests.rig.proxy import REPLIES, WORDS, Proxy
from tests.rig.waiting import until
from tests.share import Share

pytestmark = pytest.mark.standalone

IDS = ("p1", "p2", "p3")
AGREES_S = SESSION_S + 12
"""A lost member's session, the debounce, the barrier, and what a machine of two cores needs."""


@dataclass
class Rig:
    """The group, and the way of `p3` to ZooKeeper."""

    group: ProcessorGroup
    way_of_p3: Proxy
    address_of_p3: str
    judge: Judge

    def start(self, processor_id: str) -> None:
        """By its own way."""
        by = self.address_of_p3 if processor_id == "p3" else ""
        self.group.start(processor_id, zookeeper=by)

    def follower(self) -> str:
        """Not the one whose way is the proxy."""
        return next(pid for pid in ("p2", "p1") if pid != self.group.leader())

    def kill(self, processor_id: str) -> None:
        """Its process alone: the wardens of its containers are to end them."""
        record = self.group.processes[processor_id]
        record.send(signal.SIGKILL)
        assert record.wait(10 * PACE)

    def without(self, processor_id: str) -> None:
        """The others agree, and of it no container is left."""
        self.group.wait_for(*(pid for pid in IDS if pid != processor_id), within_s=AGREES_S)
        assert not self.containers(processor_id)

    def containers(self, *processor_ids: str) -> list[int]:
        """Process ids of the containers that live."""
        return [
            each.container.name.pid
            for pid in processor_ids
            for each in self.group.incarnations(pid)
            if each.container
        ]

    def all_stop(self) -> None:
        """Without ZooKeeper nobody works on: within the sessions' time-out."""
        until("no container runs", lambda: not self.containers(*IDS), seconds=SESSION_S + 4)


def leader_killed(rig: Rig) -> None:
    lost = rig.group.leader()
    rig.kill(lost)
    rig.without(lost)
    rig.start(lost)


def follower_killed(rig: Rig) -> None:
    lost = rig.follower()
    rig.kill(lost)
    rig.without(lost)
    rig.start(lost)


def follower_killed_and_started_at_once(rig: Rig) -> None:
    """As a service manager does: its session is still there, and its login at the brokers not any more."""
    lost = rig.follower()
    version = rig.group.view().version
    rig.kill(lost)
    rig.start(lost)
    rig.group.wait_for(*IDS, within_s=AGREES_S + SESSION_S, after_version=version)
    assert rig.group.processes[lost].is_alive


def node_deleted(rig: Rig) -> None:
    """By hand: its tasks go to the others, and it says why it ends."""
    lost = rig.follower()
    node = next(m.sequence for m in rig.group.view().members if m.processor_id == lost)
    rig.group.session.delete(f"{rig.group.paths.processors}/{node}")
    rig.group.wait_for(*(pid for pid in IDS if pid != lost), within_s=AGREES_S)
    assert rig.group.processes[lost].wait(20 * PACE)
    assert not rig.containers(lost)
    assert f"its node {node} was deleted" in rig.group.files.log_of(lost).read_text()
    rig.start(lost)


def version_overwritten(rig: Rig) -> None:
    """By hand: nobody stops, `processor status` says it, and the next version mends it."""
    before = rig.containers(*IDS)
    rig.group.session.set(rig.group.paths.version, b"garbage")
    said = until("it is said", lambda: rig.group.view().unreadable, seconds=SESSION_S)
    assert "garbage" in said[0]
    lost = rig.follower()
    assert set(before) <= set(rig.containers(*IDS))
    rig.kill(lost)
    rig.without(lost)
    assert rig.group.view().unreadable == ()
    rig.start(lost)


def server_paused(rig: Rig) -> None:
    server = rig.group.server.process
    server.send(signal.SIGSTOP)
    try:
        rig.all_stop()
    finally:
        server.send(signal.SIGCONT)


def server_restarted(rig: Rig) -> None:
    rig.group.server.close(grace_s=0.0)
    rig.all_stop()
    rig.group.server.start()


def session_expired(rig: Rig) -> None:
    """Ended by another connection that took it over: its owner is alive and reaches the server."""
    follower, view = rig.follower(), rig.group.view()
    (node,) = (m.sequence for m in view.members if m.processor_id == follower)
    path = f"{rig.group.paths.processors}/{node}"
    _, stat = rig.group.session.get(path)
    thief = KazooClient(
        rig.group.server.hosts,
        client_id=(stat.ephemeralOwner, session_password(stat.ephemeralOwner)),
    )
    thief.start(timeout=10 * PACE)
    thief.stop()
    thief.close()
    assert rig.group.session.exists(path) is None
    rig.group.wait_for(*IDS, within_s=AGREES_S, after_version=view.version)


def one_id_twice(rig: Rig) -> None:
    """Who came second gives up and ends; the first works on meanwhile."""
    rig.group.wait_until_settled(within_s=AGREES_S)
    before = rig.containers(*IDS)
    second = rig.group.start_beside(rig.follower(), "host-elsewhere")
    assert second.wait((2 * SESSION_S + 8) * PACE)
    assert process.exit_status(second) == 1
    assert rig.containers(*IDS) == before


def processor_paused(rig: Rig) -> None:
    """Beyond its session; its wardens aren't paused."""
    paused = rig.follower()
    record = rig.group.processes[paused]
    record.send(signal.SIGSTOP)
    try:
        rig.without(paused)
    finally:
        record.send(signal.SIGCONT)


def processor_cut_off(rig: Rig) -> None:
    for way in (WORDS, REPLIES):
        rig.way_of_p3.hold(way)
    try:
        rig.without("p3")
    finally:
        rig.way_of_p3.heal()


def host_frozen(rig: Rig) -> None:
    """Processor, wardens and containers; then these thaw alone, and believe that they own their tasks."""
    frozen = rig.follower()
    record, jvms = rig.group.processes[frozen], rig.containers(frozen)
    active = next(
        each for each in rig.group.incarnations(frozen) if not naming.is_standby(each.processor_id)
    )
    keepers = [record.pid, *map(parent_of, jvms)]
    for pid in (*keepers, *jvms):
        os.kill(pid, signal.SIGSTOP)
    try:
        rig.group.wait_for(*(pid for pid in IDS if pid != frozen), within_s=AGREES_S)
        for pid in jvms:
            os.kill(pid, signal.SIGCONT)
        log = active.directory / "container.log"
        until("it was refused", lambda: "AuthorizationException" in log.read_text(), seconds=40)
    finally:
        for pid in (*jvms, *keepers):
            if alive(pid):
                os.kill(pid, signal.SIGCONT)

    def is_back() -> bool:
        members = {member.processor_id for member in rig.group.view().members}
        return frozen in members or not record.is_alive

    until("it is back, or has ended by its container's end", is_back)
    if not record.is_alive:
        rig.start(frozen)


def disk_full(rig: Rig) -> None:
    """No file of the server may grow any more: it ends at its next write, and is started again."""
    server = rig.group.server
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
    with suppress(KazooException):
        rig.group.session.create("/not-written", b"")
    assert server.process.wait(20 * PACE)
    rig.all_stop()
    server.start()


FAULTS: tuple[Callable[[Rig], None], ...] = (
    leader_killed,
    follower_killed,
    follower_killed_and_started_at_once,
    node_deleted,
    version_overwritten,
    server_paused,
    server_restarted,
    session_expired,
    one_id_twice,
    processor_paused,
    processor_cut_off,
    host_frozen,
    disk_full,
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Three processors that have agreed, and a load that goes on."""
    with (
        fenced_group(tmp_path_factory.mktemp("group"), has_load=True) as group,
        proxy_of(group.server) as (way, address),
        closing(Judge(group.broker.bootstrap_servers)) as judge,
    ):
        made = Rig(group, way, address, judge)
        try:
            for pid in IDS:
                made.start(pid)
            group.wait_for(*IDS, within_s=60)
            assert judge.judge(deadline_s=120 * PACE).is_good
            yield made
        finally:
            group.stop()  # while p3's way is there


@contextmanager
def proxy_of(server: ZooKeeperServer) -> Generator[tuple[Proxy, str]]:
    """A way to the server, and its address."""
    host, _, port = server.hosts.rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    with closing(Proxy(listener, lambda: (host, int(port)))) as proxy:
        yield proxy, f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("strike", Share.told().part(FAULTS), ids=lambda each: each.__name__)
def test_a_group_agrees_again_and_nothing_is_lost_nor_owned_twice(
    rig: Rig, strike: Callable[[Rig], None]
) -> None:
    strike(rig)
    places = rig.group.wait_for(*IDS, within_s=AGREES_S)
    assert len(places) == 8
    verdict = rig.judge.judge(deadline_s=120 * PACE)
    assert (verdict.missing, verdict.unexplained) == (0, 0)
    assert rig.group.two_owners() == []


def session_password(session_id: int) -> bytes:
    """As the server makes it of a session's id: sixteen bytes of `java.util.Random` (`generatePasswd`)."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    state = (session_id ^ 0xB3415C00 ^ multiplier) & mask
    made = b""
    for _ in range(4):
        state = (state * multiplier + 0xB) & mask
        made += (state >> 16).to_bytes(4, "little")
    return made
