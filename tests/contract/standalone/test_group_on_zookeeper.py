"""Processors of one group over a real ZooKeeper; their work is a record of who owned which task, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from samza_dagster.agent.lease import Now
from samza_dagster.assignment import by_locality
from samza_dagster.errors import ActionFailed, InvalidInput
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connect, connected
from samza_dagster.model import ContainerModel
from samza_dagster.model.naming import STANDALONE_DEPLOYMENT
from samza_dagster.model.placement_messages import PlacementResponse, StatusCode
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.group import GroupView, Pin
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.processor import Grouper, Settings
from samza_dagster.standalone.runner import ProcessorRunner
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.rig.pace import PACE
from tests.rig.secured_zookeeper import PASSWORD, USER, SecuredZooKeeper
from tests.rig.standalone_groups import dealt
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

TASKS = tuple(f"Partition {number}" for number in range(6))
SETTINGS = Settings(300, 3_000, session_ms=2_000, start_ms=1_000, stop_ms=500)
DEADLINE_S = 20 * PACE
LONG_MS = round(2_000 * DEADLINE_S)
DEALT: Grouper = partial(dealt, TASKS)
NO_LOGIN: Mapping[str, str] = {}


@dataclass
class Owners:
    """Who runs which task now; `twice` is what two ran at once, `changes` how many containers it has started."""

    lock: threading.Condition = field(default_factory=threading.Condition)
    now: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    twice: list[str] = field(default_factory=list[str])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    _containers: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )

    def start(self, processor_id: str, container: ContainerModel) -> None:
        tasks = frozenset(container.tasks)
        with self.lock:
            self.twice += [task for owned in self.now.values() for task in owned & tasks]
            self._containers[processor_id, container.processor_id] = tasks
            self.starts[processor_id] = self.starts.get(processor_id, 0) + 1
            self._changed(processor_id)

    def containers(self, processor_id: str) -> list[frozenset[str]]:
        """What runs there, by container."""
        return [tasks for (pid, _), tasks in self._containers.items() if pid == processor_id]

    def end(self, processor_id: str, container: str) -> None:
        with self.lock:
            del self._containers[processor_id, container]
            self._changed(processor_id)

    def _changed(self, processor_id: str) -> None:
        self.now[processor_id] = frozenset().union(*self.containers(processor_id))
        self.lock.notify_all()

    def wait_until(self, is_so: Callable[[dict[str, frozenset[str]]], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        with self.lock:
            while not is_so({pid: tasks for pid, tasks in self.now.items() if tasks}):
                left = deadline - time.monotonic()
                assert left > 0, f"after {DEADLINE_S} s: {self.now}"
                self.lock.wait(left)


@dataclass
class RecordedWork:
    """Containers that take a fifth of a second to end; those of one that `hangs` never check in."""

    processor_id: str
    owners: Owners
    hangs: bool = False

    def renew(self, asked: Now, lease_s: float) -> None: ...

    def expect(self, command: Expect, warm: Callable[[str], None]) -> None:
        for each in command.containers:
            warm(each.processor_id)

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        for each in command.containers:
            self.owners.start(self.processor_id, each)
            if not self.hangs:
                at_work(each.processor_id)

    def stop(self, containers: frozenset[str], stopped: Callable[[str], None]) -> None:
        def end() -> None:
            for each in containers:
                self.owners.end(self.processor_id, each)
                stopped(each)

        threading.Timer(0.2, end).start()


class Started:
    """A processor in a thread, with a session of its own."""

    def __init__(
        self,
        hosts: str,
        processor_id: str,
        owners: Owners,
        grouper: Grouper = DEALT,
        login: Mapping[str, str] = NO_LOGIN,
        *,
        hangs: bool = False,
        **changed: int,
    ) -> None:
        settings = replace(SETTINGS, **changed)
        address = ZooKeeperAddress(hosts, settings.session_ms / 1_000, login)
        self.session: ZooKeeper = connect(address)
        self.runner = ProcessorRunner(
            self.session,
            PATHS,
            processor_id=processor_id,
            location=f"host-of-{processor_id}",
            settings=settings,
            grouper=grouper,
            containers=RecordedWork(processor_id, owners, hangs),
        )
        self.failure = ""
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except ActionFailed as error:
            self.failure = str(error)

    def leave(self) -> None:
        self.runner.leave()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
        self.session.stop()
        self.session.close()


PATHS = GroupPaths.of({"job.name": "orders_eu", "app.name": "orders"})


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def secured(tmp_path: Path) -> Generator[SecuredZooKeeper]:
    with SecuredZooKeeper(tmp_path) as secured:
        yield secured


def all_tasks_at(*ids: str) -> Callable[[dict[str, frozenset[str]]], bool]:
    """All tasks run, at exactly these processors."""

    def is_so(now: dict[str, frozenset[str]]) -> bool:
        return set(now) == set(ids) and sorted(
            t for tasks in now.values() for t in tasks
        ) == sorted(TASKS)

    return is_so


def test_processors_come_lead_and_go_and_no_task_has_two_owners(server: ZooKeeperServer) -> None:
    """A leader's end, a planned leave, a server that is away longer than the sessions live, containers that hang."""
    owners = Owners()
    ids = ("p1", "p2", "p3")
    group = {"p1": Started(server.hosts, "p1", owners)}
    owners.wait_until(all_tasks_at("p1"))
    for pid in ids[1:]:
        group[pid] = Started(server.hosts, pid, owners)
    owners.wait_until(all_tasks_at(*ids))
    assert PATHS.root == "/app-orders-1/orders_eu-1-2.0-coordinationData"
    judge = connect(ZooKeeperAddress(server.hosts))
    locality = {t: judge.get(f"{PATHS.task_locality}/{t}")[0] for t in TASKS}
    assert set(locality.values()) == {f"host-of-{pid}".encode() for pid in ids}

    group.pop("p1").leave()  # the leader
    owners.wait_until(all_tasks_at("p2", "p3"))
    starts = dict(owners.starts)
    assert judge.get(PATHS.version)[0] == judge.get(PATHS.agreed_version)[0]

    group["p4"] = Started(server.hosts, "p4", owners)
    owners.wait_until(all_tasks_at("p2", "p3", "p4"))
    server.close()
    owners.wait_until(lambda now: not now)
    server.start()
    owners.wait_until(all_tasks_at("p2", "p3", "p4"))

    hanging = Started(server.hosts, "p0", owners, hangs=True)
    owners.wait_until(all_tasks_at("p0", "p2", "p3", "p4"))
    owners.wait_until(all_tasks_at("p2", "p3", "p4"))
    hanging.leave()
    assert "hasn't checked in 1 s after its start" in hanging.failure
    assert owners.twice == []
    assert all(owners.starts[pid] > starts.get(pid, 0) for pid in group)
    for processor in group.values():
        processor.leave()
    owners.wait_until(lambda now: not now)
    assert judge.get_children(PATHS.processors) == []
    judge.stop()
    judge.close()


def view_of(server: ZooKeeperServer) -> GroupView:
    with connected(ZooKeeperAddress(server.hosts)) as session:
        return ZooKeeperGroup(session, PATHS, lambda: None).view(None)


def places_of(group: GroupView) -> dict[str, str]:
    assert group.model is not None
    return {t: pid for pid, each in group.model.containers.items() for t in each.tasks}


def at_rest(server: ZooKeeperServer, *ids: str) -> GroupView:
    """Once each of these runs what the newest version gives it."""

    def seen() -> GroupView | None:
        group = view_of(server)
        are_there = {member.processor_id for member in group.members} == set(ids)
        return group if are_there and group.is_at_work else None

    return until("all are at work", seen, seconds=DEADLINE_S)


def test_a_request_for_one_task_moves_no_other(server: ZooKeeperServer) -> None:
    """Right after a version has moved some of them, of which the leader has read an older one."""
    owners = Owners()
    plan = JobPlan({"in": 4}, {"in": "kafka"}, replicas=0, grouper=by_locality).model
    first = Started(server.hosts, "a", owners, plan, session_ms=6_000)
    at_rest(server, "a")
    second = Started(server.hosts, "b", owners, plan, session_ms=6_000)
    before = places_of(at_rest(server, "a", "b"))
    task = min(task for task, pid in before.items() if pid == "a")
    with connected(ZooKeeperAddress(server.hosts)) as session:
        messages = ContainerPlacementMetadataStore(placement_store(session, PATHS))
        uuid = messages.write_request(STANDALONE_DEPLOYMENT, task, "host-of-b")

        def is_there() -> bool:
            response = messages.read_response(uuid)
            return response is not None and response.status_code is StatusCode.SUCCEEDED

        until("it is there", is_there, seconds=DEADLINE_S)
    assert places_of(at_rest(server, "a", "b")) == {**before, task: "b"}
    first.leave()
    second.leave()


def test_nodes_that_somebody_has_overwritten_or_deleted_stop_nobody(
    server: ZooKeeperServer,
) -> None:
    """The group runs on by what is agreed, says what it can't read, and the next version mends it."""
    owners = Owners()
    plan = JobPlan({"in": 4}, {"in": "kafka"}, replicas=0, grouper=by_locality).model
    group = [Started(server.hosts, pid, owners, plan, session_ms=6_000) for pid in ("p1", "p2")]
    at_rest(server, "p1", "p2")
    session = connect(ZooKeeperAddress(server.hosts))

    def newest() -> int:
        return max(int(name) for name in session.get_children(PATHS.models))

    def wreck(path: str, data: bytes | None) -> None:
        if data is None:
            for name in session.get_children(path):
                wreck(f"{path}/{name}", None)
            session.delete(path)
        else:
            session.set(path, data)

    garbage = (
        lambda: (PATHS.version, b"garbage"),
        lambda: (PATHS.version, b"1"),
        lambda: (PATHS.version, b"999"),
        lambda: (PATHS.version, None),
        lambda: (PATHS.agreed_version, b"garbage"),
        lambda: (PATHS.agreed_version, None),
        lambda: (PATHS.barrier_state(newest()), b"garbage"),
        lambda: (PATHS.barrier_state(newest()), None),
        lambda: (f"{PATHS.models}/{newest()}/0", b"garbage"),
        lambda: (f"{PATHS.models}/{newest()}", None),
        lambda: (f"{PATHS.task_locality}/Partition 0", b"\xff\xfe"),
        lambda: (PATHS.running, None),
        lambda: (PATHS.pins, None),
        lambda: (PATHS.task_locality, None),
    )
    for what in garbage:
        path, data = what()
        wreck(path, data)
        third = Started(server.hosts, "p3", owners, plan, session_ms=6_000)
        at_rest(server, "p1", "p2", "p3")
        third.leave()
        found = at_rest(server, "p1", "p2")
        assert found.unreadable == (), what()
        assert [each.failure for each in group] == ["", ""], path
    foreign = f"{PATHS.processors}/none-of-samzas"
    session.create(foreign, b"")
    until("it is told", lambda: view_of(server).unreadable != (), seconds=DEADLINE_S)
    assert "none-of-samzas" in view_of(server).unreadable[0]
    session.delete(foreign)

    node = next(m.sequence for m in view_of(server).members if m.processor_id == "p2")
    session.delete(f"{PATHS.processors}/{node}")
    owners.wait_until(all_of(4, "p1"))
    group[1].thread.join(DEADLINE_S)
    assert f"its node {node} was deleted" in group[1].failure
    for processor in group:
        processor.leave()
    session.stop()
    session.close()
    assert owners.twice == []


def all_of(tasks: int, processor_id: str) -> Callable[[dict[str, frozenset[str]]], bool]:
    """It alone runs so many."""
    return lambda now: {pid: len(each) for pid, each in now.items()} == {processor_id: tasks}


def test_a_task_goes_where_it_is_placed_and_a_processor_restarts_where_it_is(
    secured: SecuredZooKeeper,
) -> None:
    """Asked and answered by Samza's placement messages; what is refused says why.

    By TLS and a login, whose nodes nobody else may read or write. And whoever leaves as planned is waited for by nobody,
    though its session would have lived on for longer than this test waits.
    """
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(secured.certificate),
        "acl": f"sasl:{USER}:cdrwa",
    }
    owners = Owners()
    plan = JobPlan({"in": 4}, {"in": "kafka"}, replicas=0, grouper=by_locality).model
    group = [
        Started(secured.secure_hosts, pid, owners, plan, login, session_ms=LONG_MS)
        for pid in ("p1", "p2")
    ]
    owners.wait_until(lambda now: sorted(len(tasks) for tasks in now.values()) == [2, 2])
    stranger = connect(ZooKeeperAddress(secured.hosts))
    with pytest.raises(InvalidInput, match=r"NoAuthError.*sasl\.username"):
        ZooKeeperGroup(stranger, PATHS, lambda: None).view(None)
    stranger.stop()
    stranger.close()
    session = connect(ZooKeeperAddress(secured.secure_hosts, settings=login))
    messages = ContainerPlacementMetadataStore(placement_store(session, PATHS))

    def answer(name: str, destination: str) -> PlacementResponse:
        uuid = messages.write_request(STANDALONE_DEPLOYMENT, name, destination)

        def ended() -> PlacementResponse | None:
            response = messages.read_response(uuid)
            return response if response is not None and response.status_code.is_terminal else None

        return until(f"the end of {name} to {destination}", ended, seconds=DEADLINE_S)

    task = min(owners.now["p1"])
    placed = answer(task, "host-of-p2")
    assert placed.status_code is StatusCode.SUCCEEDED, placed.response_message
    assert task in owners.now["p2"]
    assert messages.requests() == ()
    starts = dict(owners.starts)
    restarted = answer("p2", "LAST_SEEN")
    assert restarted.status_code is StatusCode.SUCCEEDED, restarted.response_message
    assert owners.starts == {**starts, "p2": starts["p2"] + len(owners.containers("p2"))}
    refused = answer(task, "host-of-p9")
    assert refused.status_code is StatusCode.BAD_REQUEST
    assert "name one of host-of-p1, host-of-p2" in refused.response_message
    view = ZooKeeperGroup(session, PATHS, lambda: None).view(None)
    assert view.pins == {task: Pin("host-of-p2", placed.uuid)}
    assert (view.requests, view.restarts) == ((), {})
    assert {running.version for running in view.running.values()} == {view.agreed}
    group[0].leave()
    owners.wait_until(lambda now: set(now) == {"p2"} and len(now["p2"]) == 4)
    assert owners.twice == []
    group[1].leave()
    session.stop()
    session.close()
