"""A cluster of three brokers and what befalls them: each request ends once, and no container ends by it."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.broker_cluster import (
    TRANSACTIONS,
    elect_preferred,
    frozen,
    leader_of,
    leaders,
    others,
    unread,
    wait_for_all_in_sync,
)
from tests.rig.job import Job, kill
from tests.rig.pace import PACE
from tests.rig.reassignment import reassign
from tests.rig.waiting import until

pytestmark = [pytest.mark.contract, pytest.mark.longcontract]
WITHIN_S = 60.0
"""A request that a fault of one broker meets is answered by then: a session, and what it does itself."""


class Moves:
    """Processor 0 is moved from host to host, while things befall the brokers."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.client: PlacementClient = job.client()
        self._starts = 1
        self._before = job.start().processors()
        assert job.coordinator is not None
        self._leader = job.coordinator

    def ask(self) -> str:
        """A request that was accepted: the stream has it."""
        now = self._job.processors()
        taken = {now["0"]["host"], now["0-0"]["host"]}
        self._destination = next(each for each in self._job.host_names if each not in taken)
        return self.client.place("0", self._destination, request_expiry_s=WITHIN_S * PACE).uuid

    def ends(self, uuid: str) -> None:
        """Well, and once: one start, where it was wanted."""
        answer = self.client.wait(uuid, timeout_s=WITHIN_S * PACE)
        assert answer.status_code == "SUCCEEDED", answer
        self._starts += 1
        after = self._job.wait_until_running(seconds=WITHIN_S)
        assert after["0"]["host"] == self._destination

    def one(self) -> None:
        """From the asking to the end."""
        self.ends(self.ask())

    def container_dies(self) -> None:
        """Of processor 0, by no request: the coordinator has to commit that, and its next start."""
        kill(self._job.processors()["0"]["pid"])

    def container_is_back(self) -> None:
        """It was started once more."""
        self._starts += 1
        self._job.wait_until_running(seconds=WITHIN_S)

    def nobody_else_was_touched(self) -> None:
        """Each request has had one start, every other process is the same, and the first leader leads."""
        after = self._job.wait_until_running(seconds=WITHIN_S)
        for processor in ("0-0", "1", "1-0"):
            assert after[processor]["pid"] == self._before[processor]["pid"]
        journal = self._job.journal()
        starts = [e for e in journal if e["processor"] == "0" and e["what"] == "started"]
        assert len(starts) == self._starts
        assert not [e for e in journal if e["what"] == "VIOLATION"]
        assert self._leader.poll() is None


@pytest.fixture
def brokers(shared_brokers: Brokers) -> Brokers:
    """Three, of which each test gives all back."""
    return shared_brokers


@pytest.fixture
def job(brokers: Brokers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    name = f"three-{abs(hash(request.node.name)) % 10**6}"
    ensure_topic(KafkaCluster(brokers.bootstrap_servers), f"{name}-input", partitions=4)
    job = Job(
        *(tmp_path / "job", brokers.bootstrap_servers, name),
        input_topic=f"{name}-input",
        lease_ms=90_000,
    )
    try:
        yield job
    finally:
        job.close()


@pytest.fixture
def moves(brokers: Brokers, job: Job) -> Iterator[Moves]:
    """Of a job that runs; what was asked in the test has touched nobody else in the end."""
    moves = Moves(job)
    own = (*own_topics(job), job.connection.audit_topic)
    for topic, broker in zip(own, brokers.nodes, strict=True):
        led_by(brokers, topic, broker)
    moves.one()  # the transactions have their topic by then
    wait_for_all_in_sync(brokers, TRANSACTIONS)
    try:
        yield moves
        moves.nobody_else_was_touched()
    finally:
        moves.client.close()


def own_topics(job: Job) -> tuple[str, str]:
    """The job's state and the stream of what is asked of it."""
    return job.connection.state_topic, job.connection.coordinator_stream_topic


def led_by(brokers: Brokers, topic: str, broker: Broker) -> None:
    """Every partition of the topic, with all others as its replicas."""
    number = broker.node_id
    rest = [each for each in (1, 2, 3) if each != number]
    partitions = leaders(brokers.bootstrap_servers, topic)
    reassign(brokers.bootstrap_servers, topic, {each: [number, *rest] for each in partitions})
    elect_preferred(brokers, topic)
    until(
        f"{number} leads {topic}",
        lambda: set(leaders(brokers.bootstrap_servers, topic).values()) == {number},
    )


def led_by_others(brokers: Brokers, dead: Broker, *topics: str) -> None:
    """Its session is over: until then who asks hears that nobody answers."""
    number = dead.node_id
    for topic in topics:
        until(
            f"{topic} is led by others",
            lambda topic=topic: (
                not ({number, -1} & set(leaders(others(brokers, dead), topic).values()))
            ),
        )


def back(brokers: Brokers, broker: Broker, job: Job) -> None:
    """It is started, and has what the others have."""
    broker.start()
    wait_for_all_in_sync(brokers, *own_topics(job), TRANSACTIONS)


def test_the_leader_of_the_state_is_killed_in_the_middle_of_a_commit(
    brokers: Brokers, job: Job, moves: Moves
) -> None:
    """It had the commit's records and hadn't answered; another leads, and the commit is made once."""
    state, stream = own_topics(job)
    victim, other, _ = brokers.nodes
    led_by(brokers, state, victim)
    for topic in (stream, TRANSACTIONS):
        led_by(brokers, topic, other)
    moves.one()
    with frozen(victim):
        waiting = unread(victim)
        moves.container_dies()
        until("the commit of its death waits for it", lambda: unread(victim) > waiting)
        victim.process.send(signal.SIGKILL)
    victim.close(grace_s=0.0)
    moves.container_is_back()
    moves.one()
    back(brokers, victim, job)
    moves.one()


def test_brokers_are_restarted_one_after_the_other_during_moves(
    brokers: Brokers, job: Job, moves: Moves
) -> None:
    """In order, as an upgrade does: each when the one before is in step again."""
    for broker in brokers.nodes:
        uuid = moves.ask()
        broker.close()
        moves.ends(uuid)
        uuid = moves.ask()
        back(brokers, broker, job)
        moves.ends(uuid)


def test_a_broker_is_dead_for_good(brokers: Brokers, job: Job, moves: Moves) -> None:
    """Whatever it led is led by others after its session."""
    state, stream = own_topics(job)
    victim = leader_of(brokers, state)
    uuid = moves.ask()
    victim.close(grace_s=0.0)
    try:
        moves.ends(uuid)
        led_by_others(brokers, victim, state, stream)
        for _ in range(3):
            moves.one()
        moves.nobody_else_was_touched()
    finally:
        back(brokers, victim, job)


def test_a_broker_comes_back_with_an_empty_disk(brokers: Brokers, job: Job, moves: Moves) -> None:
    """It led the state. The others have it all, and it gets it from them."""
    victim = leader_of(brokers, own_topics(job)[0])
    uuid = moves.ask()
    victim.close(grace_s=0.0)
    shutil.rmtree(victim.directory / "data")
    moves.ends(uuid)
    led_by_others(brokers, victim, *own_topics(job))
    uuid = moves.ask()
    back(brokers, victim, job)
    moves.ends(uuid)
    for topic in own_topics(job):
        led_by(brokers, topic, victim)
    moves.one()


def test_the_coordinator_of_our_transactions_is_another_broker(
    brokers: Brokers, job: Job, moves: Moves
) -> None:
    """By election as a move goes on, and by the death of it."""
    for broker in brokers.nodes:
        uuid = moves.ask()
        led_by(brokers, TRANSACTIONS, broker)
        moves.ends(uuid)
    last = brokers.nodes[-1]
    uuid = moves.ask()
    last.close(grace_s=0.0)
    moves.ends(uuid)
    led_by_others(brokers, last, TRANSACTIONS)
    back(brokers, last, job)


def test_partitions_are_reassigned_under_those_who_read_and_write_them(
    brokers: Brokers, job: Job, moves: Moves
) -> None:
    """Away from the broker that leads, and back: what was asked meanwhile is done."""
    for topic in own_topics(job):
        leader = leaders(brokers.bootstrap_servers, topic)[0]
        rest = [each for each in (1, 2, 3) if each != leader]
        uuid = moves.ask()
        reassign(brokers.bootstrap_servers, topic, {0: rest})
        moves.ends(uuid)
        uuid = moves.ask()
        reassign(brokers.bootstrap_servers, topic, {0: [leader, *rest]})
        elect_preferred(brokers, topic)
        moves.ends(uuid)


def test_two_of_three_brokers_are_stopped_and_the_leader_waits_for_one_of_them(
    brokers: Brokers, job: Job, moves: Moves
) -> None:
    """No write is taken by the one that is left. The leader says why and what it lacks, tries again every
    few seconds, and goes on by itself; nobody's lease was over by then.
    """
    state, _ = own_topics(job)
    assert job.coordinator is not None
    used_s = processor_time_s(job.coordinator.pid)
    stopped = stop_two(brokers, job)
    began = time.monotonic()
    moves.container_dies()
    line = f"{state}-0: 1 replicas in sync where a write waits for 2, without broker 2, 3"
    try:
        until("it says why", lambda: line in job.coordinator_log.read_text(), seconds=60)
        until("it says so again", lambda: job.coordinator_log.read_text().count(line) > 1)
        told = job.coordinator_log.read_text().count(line)
        assert told <= 1 + (time.monotonic() - began) / 5
        assert processor_time_s(job.coordinator.pid) - used_s < (time.monotonic() - began) / 2
    finally:
        stopped[0].start()
    try:
        moves.container_is_back()
    finally:
        back(brokers, stopped[1], job)
    moves.one()


def test_who_starts_while_two_of_three_brokers_are_stopped_says_why_and_leads_when_one_is_back(
    brokers: Brokers, job: Job
) -> None:
    """The job's topics are there, so nothing is asked of the controller, which the one that is left has not."""
    before = job.start().processors()
    stopped = stop_two(brokers, job)
    assert job.coordinator is not None
    kill(job.coordinator.pid)
    job.start_coordinator()
    try:
        line = rf"{TRANSACTIONS}-\d.*: 1 replicas in sync where a write waits for 2"
        until("it says why", lambda: re.search(line, job.coordinator_log.read_text()), seconds=90)
    finally:
        stopped[0].start()
    try:
        after = job.wait_until_running(seconds=WITHIN_S)
        assert {p: c["pid"] for p, c in after.items()} == {p: c["pid"] for p, c in before.items()}
    finally:
        back(brokers, stopped[1], job)


def stop_two(brokers: Brokers, job: Job) -> list[Broker]:
    """All but the first, which leads all that a commit needs."""
    last, *stopped = brokers.nodes
    for topic in (*own_topics(job), job.connection.audit_topic, TRANSACTIONS):
        led_by(brokers, topic, last)
    for broker in stopped:
        broker.close()
    return stopped


def processor_time_s(pid: int) -> float:
    """What a process has used of it so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
