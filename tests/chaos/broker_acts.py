"""What befalls a sandbox's brokers, one of them at a time, and how it is taken back.

A fault of any claims them all, and begins when every partition is in sync on each: three
brokers go on without one, not without two.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.model import naming
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker import BROKER, Broker
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from samza_dagster.sandbox.registry import wait_until
from tests.chaos.broker_links import BROKER_LINK, BrokerLinks
from tests.chaos.in_force import Done, Undo
from tests.chaos.report import outcome
from tests.chaos.schedule import Fault
from tests.rig.broker import brokers_of, kill_broker
from tests.rig.broker_cluster import (
    TRANSACTIONS,
    elect_preferred,
    leaders,
    names,
    settings_of,
    transaction_partition,
    unread_at,
    why_not_whole,
)
from tests.rig.kill_scenarios import free_hosts
from tests.rig.pace import PACE
from tests.rig.proxy import REPLIES, WORDS
from tests.rig.reassignment import reassign
from tests.rig.sandbox_job import Container, SandboxJob
from tests.rig.waiting import until

WHOLE_S = 90.0
"""A start of a broker, the end of its last session, and all partitions fetched anew."""
MOVED_S = 60.0
_COMMIT_S = 5.0


class BrokerActs:
    """`links` are those of the job's clients, `brokers` all of the sandbox's."""

    def __init__(self, job: SandboxJob, links: BrokerLinks) -> None:
        self._job = job
        self._links = links
        self._registry = job.sandbox.registry
        self.brokers = brokers_of(job.sandbox)
        self._servers = job.connection.bootstrap_servers
        self._again: dict[Broker, Callable[[], None]] = {}
        self._acts: Mapping[str, Callable[[Fault, Collection[str]], Done | None]] = {
            "freeze broker": self._freeze,
            "expire broker": self._freeze,
            "restart broker": self._kill_one,
            "lose broker": self._kill_one,
            "empty broker": self._empty,
            "roll brokers": self._roll,
            "cut off broker": self._cut_off,
            "kill state leader": self._kill_state_leader,
            "kill transaction leader": self._kill_transaction_leader,
            "move transactions": self._move_transactions,
            "reassign partitions": self._reassign,
        }

    def has(self, fault: Fault) -> bool:
        """It is one of a broker itself."""
        return fault.kind in self._acts

    def carry_out(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """Does it now; None while another broker's is in force."""
        if BROKER in taken:
            return None
        self.wait_until_whole()
        return self._acts[fault.kind](fault, taken)

    def why_not_whole(self) -> str:
        """What isn't as it was before the last fault of a broker; or "" ."""
        return why_not_whole(self._servers)

    def wait_until_whole(self) -> None:
        """All brokers are there, and every partition is in sync on each."""
        until("the brokers have everything", lambda: not self.why_not_whole(), seconds=WHOLE_S)

    def must_keep_what_they_acknowledge(self) -> None:
        """With three, each topic of the job is on all and two must have a record: else what a fault
        loses would be of the set-up. Raises `AssertionError`.
        """
        if len(self.brokers) == 1:
            return
        self.wait_until_whole()
        topics = [
            topic.name for topic in (*demo_job.streams(), *demo_job.made_topics(self._servers))
        ]
        found = settings_of(self._servers, topics, "min.insync.replicas")
        assert set(found.values()) == {"2"}, f"min.insync.replicas: {found}"

    def heal(self) -> None:
        """Each runs."""
        for broker in self.brokers:
            self._thaw(broker)
            self._start_again(broker)

    def _victim(self, fault: Fault) -> Broker:
        """The one that the seed picks."""
        return self.brokers[fault.victim % len(self.brokers)]

    # One of them is away

    def _freeze(self, fault: Fault, _: Collection[str]) -> Done:
        broker = self._victim(fault)
        self._send(broker, signal.SIGSTOP)

        def undo() -> str:
            try:
                fenced = self._is_fenced(broker)
            finally:
                self._thaw(broker)
            return "was fenced when it thawed" if fenced else ""

        return _of_brokers(broker.role, undo)

    def _kill_one(self, fault: Fault, _: Collection[str]) -> Done:
        broker = self._victim(fault)
        return _of_brokers(broker.role, self._kill(broker))

    def _empty(self, fault: Fault, _: Collection[str]) -> Done:
        """What it had each of the others has, in sync: it was waited for."""
        broker = self._victim(fault)
        undo = self._kill(broker)
        shutil.rmtree(broker.directory / "data")
        return _of_brokers(broker.role, undo)

    def _roll(self, fault: Fault, _: Collection[str]) -> Done:
        """Each in order, as an upgrade does, while an active moves; over when the last is back."""
        active = str(fault.victim % self._job.actives)
        pool = ThreadPoolExecutor(1)
        rolling = pool.submit(self._restart_each, active)
        pool.shutdown(wait=False)
        return _of_brokers(f"each broker, moves of {active}", rolling.result)

    def _restart_each(self, active: str) -> str:
        answers: list[str] = []
        with self._job.client() as client:
            for broker in self.brokers:
                answer = self._ask_for_move(client, active)
                self._again[broker] = kill_broker(broker, signal.SIGTERM)
                self._start_again(broker)
                answers.append(answer())
                self.wait_until_whole()
        return f"moves: {', '.join(answers)}"

    def _ask_for_move(self, client: PlacementClient, active: str) -> Callable[[], str]:
        """To a host that may take it; what waits for the answer. Other faults may leave none."""
        why = "no host is free"
        for host in free_hosts(self._job, self._job.processors(), active):
            try:
                asked = client.place(active, host, request_expiry_s=MOVED_S * PACE).uuid
            except SamzaDagsterError as error:
                why = outcome(error)
            else:
                return lambda: _answer(client, asked)
        return lambda: why

    def _cut_off(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """One from the containers of a host: others reach it, and they reach the others."""
        free = self._containers(taken, BROKER_LINK)
        if not free:
            return None
        host, broker = free[fault.victim % len(free)].host, self._victim(fault)
        self._links.cut(host, (WORDS, REPLIES), broker.node_id)

        claims = frozenset({BROKER, BROKER_LINK + host})
        return Done(f"{broker.role} from {host}", claims, lambda: self._links.mend(host))

    # The one that somebody waits for

    def _kill_state_leader(self, fault: Fault, taken: Collection[str]) -> Done:
        return self._kill_leader(fault, taken, self._job.connection.state_topic, 0)

    def _kill_transaction_leader(self, fault: Fault, taken: Collection[str]) -> Done:
        return self._kill_leader(fault, taken, TRANSACTIONS, self._transactions())

    def _kill_leader(
        self, fault: Fault, taken: Collection[str], topic: str, partition: int
    ) -> Done:
        """A container dies, which the coordinator has to commit: the leader has its request, and
        dies before it answers.
        """
        broker = self._leader(topic, partition)
        free = self._containers(taken)
        self._send(broker, signal.SIGSTOP)
        before, waits, claims = self._unread(broker), False, {BROKER}
        if free:
            dies = free[fault.victim % len(free)]
            claims.add(dies.host)
            with contextlib.suppress(ProcessLookupError):
                os.kill(dies.pid, signal.SIGKILL)
            deadline = time.monotonic() + _COMMIT_S * PACE
            waits = wait_until(lambda: self._unread(broker) > before, deadline)
        start_again = self._kill(broker)

        def undo() -> str:
            start_again()
            return "the coordinator waited for it" if waits else "nobody waited for it"

        return Done(broker.role, frozenset(claims), undo)

    def _unread(self, broker: Broker) -> int:
        """What the coordinator has sent it and it, frozen, hasn't read, in bytes."""
        port = broker.ports[-1]
        return unread_at(port, self._links.ports(COORDINATOR, broker.node_id))

    # Nobody is away, and another one leads

    def _move_transactions(self, fault: Fault, _: Collection[str]) -> Done:
        """The broker that coordinates those of the job's coordinator: another one, and back."""
        partition = self._transactions()
        leader = self._leader(TRANSACTIONS, partition).node_id
        others = [n for n in self._node_ids() if n != leader]
        first = others[fault.victim % len(others)]
        rest = [n for n in self._node_ids() if n != first]
        self._lead(TRANSACTIONS, {partition: [first, *rest]})

        back = {partition: [leader, *others]}
        return _of_brokers(f"from {leader} to {first}", lambda: self._lead(TRANSACTIONS, back))

    def _reassign(self, _fault: Fault, _: Collection[str]) -> Done:
        """Away from their leaders, of topics that somebody tails; then back, where they are fetched."""
        connection = self._job.connection
        topics = (
            *(connection.state_topic, connection.coordinator_stream_topic),
            *(demo_job.CHANGELOG_TOPIC, demo_job.INPUT_TOPIC),
        )
        led = {topic: leaders(self._servers, topic) for topic in topics}
        for topic in topics:
            reassign(self._servers, topic, {n: self._without(led[topic][n]) for n in led[topic]})

        def undo() -> None:
            for topic, before in led.items():
                self._lead(topic, {n: [was, *self._without(was)] for n, was in before.items()})

        return _of_brokers(f"{len(topics)} topics", undo)

    def _lead(self, topic: str, wanted: Mapping[int, list[int]]) -> None:
        """These replicas, the first of each in the lead."""
        reassign(self._servers, topic, wanted)
        elect_preferred(self._job.connection, topic)

    # Whom, and how

    def _containers(self, taken: Collection[str], prefix: str = "") -> list[Container]:
        names = [name for name in self._job.host_names if prefix + name not in taken]
        return self._job.containers(names)

    def _node_ids(self) -> list[int]:
        return [each.node_id for each in self.brokers]

    def _without(self, node_id: int) -> list[int]:
        return [each for each in self._node_ids() if each != node_id]

    def _leader(self, topic: str, partition: int) -> Broker:
        return self.brokers[leaders(self._servers, topic)[partition] - 1]

    def _transactions(self) -> int:
        """Which partition of `TRANSACTIONS` has the coordinator's."""
        own = naming.transactional_id(self._job.connection.job_name, self._job.connection.job_id)
        return transaction_partition(own, len(leaders(self._servers, TRANSACTIONS)))

    def _is_fenced(self, broker: Broker) -> bool:
        """By the others, if there are: none of them names it."""
        others = [each.bootstrap_servers for each in self.brokers if each is not broker]
        return bool(others) and not any(names(server, broker.node_id) for server in others)

    def _kill(self, broker: Broker) -> Undo:
        self._again[broker] = kill_broker(broker)
        return lambda: self._start_again(broker)

    def _start_again(self, broker: Broker) -> None:
        """Once, if it was ended."""
        if again := self._again.pop(broker, None):
            again()

    def _thaw(self, broker: Broker) -> None:
        self._send(broker, signal.SIGCONT)

    def _send(self, broker: Broker, what: signal.Signals) -> None:
        for record in self._registry.live(broker.role):
            record.send(what)


def _of_brokers(victim: str, undo: Undo) -> Done:
    return Done(victim, frozenset({BROKER}), undo)


def _answer(client: PlacementClient, uuid: str) -> str:
    try:
        return client.wait(uuid, timeout_s=MOVED_S * PACE).status_code
    except SamzaDagsterError as error:
        return outcome(error)
