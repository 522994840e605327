"""A real ZooKeeper, and processors whose session or whose answer was lost."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from samza_dagster.errors import Fenced
from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connect
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.model.placement_messages import PlacementResponse, StatusCode
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.commands import (
    EndBarrier,
    JoinBarrier,
    Publish,
    ReportRunning,
    StartWork,
)
from samza_dagster.standalone.group import BarrierState, LocalStores, Pin, Running
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.requests import Forget, Respond, SetPin, SetRestart
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.rig.standalone_job import model_of
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

PATHS = GroupPaths.of({"job.name": "orders"})
MODEL = model_of({"P 0": "p1", "P 1": "p2"}, "p1", "p2")


@pytest.fixture
def server(tmp_path: Path) -> Generator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path) as server:
        yield server


class Member:
    """A processor's session and group."""

    def __init__(self, hosts: str, processor_id: str) -> None:
        self.session: ZooKeeper = connect(ZooKeeperAddress(hosts, 6))
        self.group = ZooKeeperGroup(self.session, PATHS, lambda: None)
        self.processor_id = processor_id
        self.group.prepare()

    def register(self) -> str:
        return self.group.register(self.processor_id, f"host-{self.processor_id}", LocalStores())

    def close(self) -> None:
        self.session.stop()
        self.session.close()


def agree(leader: Member, others: list[Member], version: int) -> None:
    leader.group.publish(Publish(version, MODEL, leader.group.view(None).revision))
    for member in (leader, *others):
        member.group.join(JoinBarrier(version), member.processor_id)
    leader.group.end_barrier(EndBarrier(version, BarrierState.DONE))
    assert leader.group.view(None).agreed == version


def tree(session: ZooKeeper, path: str) -> Iterator[tuple[str, bytes | None]]:
    yield path, session.get(path)[0]
    for name in sorted(session.get_children(path)):
        yield from tree(session, f"{path}/{name}")


def end_session(server: ZooKeeperServer, member: Member) -> None:
    """As the server does when it has heard nothing of it for too long; its client connects anew."""
    from kazoo.client import KazooClient

    before = member.session.client_id
    other = KazooClient(server.hosts, client_id=before)
    other.start()
    other.stop()
    other.close()
    until("a new session", lambda: member.session.client_id not in (None, before))


def test_a_leader_that_was_paused_beyond_its_session_changes_nothing_once_another_leads(
    server: ZooKeeperServer,
) -> None:
    """It goes on where it was, by a session that kazoo has renewed: each of its writes is refused."""
    with closing(Member(server.hosts, "p1")) as old, closing(Member(server.hosts, "p2")) as new:
        sequence = old.register()
        new.register()
        agree(old, [new], 1)
        end_session(server, old)
        agree(new, [], 2)
        new.group.publish(Publish(3, MODEL, new.group.view(None).revision))
        known = dict(tree(new.session, PATHS.root))
        assert f"{PATHS.processors}/{sequence}" not in known

        view = new.group.view(None)
        work = MODEL.containers["p1"]
        response = PlacementResponse(
            uuid="5bd0e4a8-9a8e-4cf0-8a29-0ed0f7ff8a4d",
            deployment_id=STANDALONE_DEPLOYMENT,
            processor_id="P 0",
            destination_host="host-p2",
            status_code=StatusCode.SUCCEEDED,
            timestamp=1,
            response_message="done",
        )
        writes: list[Callable[[], None]] = [
            lambda: old.group.publish(Publish(4, MODEL, view.revision)),
            lambda: old.group.end_barrier(EndBarrier(3, BarrierState.DONE)),
            lambda: old.group.end_barrier(EndBarrier(3, BarrierState.TIMED_OUT)),
            lambda: old.group.join(JoinBarrier(3), "p1"),
            lambda: old.group.write_locality(StartWork((work,), (work,), MODEL), "host-p1"),
            lambda: old.group.report(ReportRunning(Running(3)), sequence),
            lambda: old.group.place(SetPin("P 0", Pin("host-p1", response.uuid))),
            lambda: old.group.place(SetRestart("p2", response.uuid)),
            lambda: old.group.place(Respond(response)),
        ]
        for write in writes:
            with pytest.raises(Fenced, match=f"processors/{sequence} is gone"):
                write()
        old.group.place(Forget(response.uuid))  # of what isn't there
        assert dict(tree(new.session, PATHS.root)) == known

        assert old.register() != sequence
        old.group.join(JoinBarrier(3), "p1")
        assert new.group.view(None).barrier is not None
