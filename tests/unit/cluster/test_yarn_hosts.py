"""YARN as a cluster: its hosts and nodes, the agents there, and what its settings are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from samza_dagster.cluster.yarn import hosts as yarn_hosts
from samza_dagster.cluster.yarn.advice import advice
from samza_dagster.cluster.yarn.agents import ADOPTED_WORD_S, FIRST_WORD_S, Due, NodeAgent
from samza_dagster.cluster.yarn.application import (
    EndedContainer,
    Node,
    YarnContainer,
    by_host,
    closed,
)
from samza_dagster.cluster.yarn.hosts import YarnHosts, YarnSettings
from samza_dagster.cluster.yarn.session import Session

pytestmark = pytest.mark.unit

SESSION = Session("application_1_0001", "token", {})


class Ask(NamedTuple):
    id: int
    host: str
    memory_mb: int
    cores: int
    priority: int


class Application:
    """Implements what a `YarnHosts` asks of a `YarnApplication` until a container is started."""

    largest = (10_000, 10)
    token = SESSION.token
    node_tokens = SESSION.node_tokens

    def __init__(self) -> None:
        self.on_ask: Callable[[], None] = lambda: None
        self.heard: list[int] = []
        self.asked: list[Ask] = []
        self.withdrawn: list[int] = []
        self.allocated: list[YarnContainer] = []

    def ask(self, *ask: Any) -> None:
        self.asked.append(Ask(*ask))
        self.on_ask()

    def withdraw(self, ask_id: int) -> None:
        self.withdrawn.append(ask_id)

    def nodes(self) -> tuple[Node, ...]:
        return (Node("n1", "RUNNING", 4_000, 4, 0, 0),)

    def beat(self) -> tuple[tuple[YarnContainer, ...], tuple[EndedContainer, ...]]:
        self.heard.append(len(self.asked))
        allocated, self.allocated = tuple(self.allocated), []
        return allocated, ()


class Cluster:
    """What the cluster of agents was told."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []

    def hold_refused(self, request_id: str, host: str, why: str) -> None:
        self.refused.append((request_id, host))
        self.why = why

    def registered(self) -> frozenset[str]:
        return frozenset({"n1"})

    def calling(self) -> frozenset[str]:
        return self.registered()


class Settings(YarnSettings):
    """With a session that is kept nowhere."""

    def store(self, gateway: Any) -> Any:
        return SimpleNamespace(read=lambda: SESSION)


class Asked:
    """A hold was asked for at time 0; nothing runs on threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(yarn_hosts, "time", SimpleNamespace(monotonic=lambda: self.now))
        nowhere: Any = None
        settings = Settings("j-1", b"", Path("/conf"), "default", "", "/d", "", "python3", "")
        self.hosts: Any = YarnHosts(settings, lambda: nowhere, 0)
        self.cluster = self.hosts._cluster = Cluster()
        self.application = self.hosts._application = Application()
        self.hosts._node_calls = self
        self.hosts._connected = True
        self.starting: list[Any] = []
        self.hosts._look_at_nodes(self.now)
        self.hosts._ask("r", "n1", 1_000, 1)

    def submit(self, *call: Any) -> None:
        """A start goes to a thread, which hasn't come to it."""
        self.starting.append(call)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.hosts._beat(self.now)
        self.hosts._refuse_late(self.now)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_what_yarn_gives_nothing_for_is_refused_after_three_seconds(asked: Asked) -> None:
    asked.pass_time(2.9)
    assert asked.cluster.refused == []
    asked.pass_time(0.2)
    assert asked.cluster.refused == [("r", "n1")]
    assert asked.application.withdrawn == [asked.application.asked[0].id]


def test_what_yarn_gave_in_time_is_not_refused_while_its_start_waits_for_a_thread(
    asked: Asked,
) -> None:
    (ask,) = asked.application.asked
    asked.application.allocated.append(YarnContainer("c1", "n1", ask.id, ask.priority, None))
    asked.pass_time(1.0)
    assert len(asked.starting) == 1
    asked.pass_time(5.0)
    assert asked.cluster.refused == []


def test_yarn_hears_of_the_first_of_many_asks_before_the_last_is_made(asked: Asked) -> None:
    def take_time() -> None:
        asked.now += 0.03

    asked.application.on_ask = take_time
    for number in range(4):
        asked.hosts.ask(f"r{number}", "n1", 100, 1)
    asked.hosts._turn()
    asked.hosts._turn()
    assert asked.application.heard == [3, 5]


def test_a_node_managers_token_is_kept_for_the_next_leader_since_yarn_tells_it_once(
    asked: Asked,
) -> None:
    kept: list[Session] = []
    asked.hosts._store = SimpleNamespace(write=kept.append)
    asked.pass_time(0.1)
    assert kept == []
    asked.application.node_tokens = {"n1:8041": "secret"}
    asked.pass_time(0.1)
    (session,) = kept
    assert (session.application, session.node_tokens) == (
        SESSION.application,
        {"n1:8041": "secret"},
    )
    asked.pass_time(0.1)
    assert len(kept) == 1


def test_a_container_beyond_yarns_largest_is_refused_at_once_with_the_settings_to_raise(
    asked: Asked,
) -> None:
    asked.hosts._ask("big", "n1", 10_001, 1)
    assert asked.cluster.refused == [("big", "n1")]
    assert "10000 MiB and 10 cores" in asked.cluster.why
    assert "yarn.scheduler.maximum-allocation-mb" in asked.cluster.why
    assert len(asked.application.asked) == 1, "YARN never hears of it: it would refuse every beat"


# When a node gets an agent container, and when that is replaced.

CONTAINER = YarnContainer("c1", "a", 1, 1, None)


def running(*, since: float = 0.0, patience_s: float = FIRST_WORD_S) -> NodeAgent:
    agent = NodeAgent()
    agent.runs(CONTAINER, since, patience_s)
    return agent


def test_a_node_without_an_agent_gets_one_once() -> None:
    agent = NodeAgent()
    assert agent.next_step(0.0, calls=False) is Due.ASK
    assert agent.next_step(1000.0, calls=False) is Due.NOTHING


def test_a_node_whose_agent_calls_gets_no_other_one_when_yarn_has_lost_sight_of_it() -> None:
    assert NodeAgent().next_step(0.0, calls=True) is Due.NOTHING
    lost = running()
    lost.ended(0.0, "lost node", dead=False)
    assert lost.next_step(100.0, calls=True) is Due.NOTHING


def test_an_agent_that_its_node_manager_saw_die_is_replaced_before_its_silence_is_noticed() -> None:
    dead = running()
    dead.ended(100.0, "exit status 137")
    assert dead.next_step(100.0, calls=True) is Due.ASK
    dead.runs(CONTAINER, 101.0)
    assert dead.next_step(101.0, calls=True) is Due.NOTHING


def test_an_agent_that_isnt_heard_is_replaced_an_adopted_one_sooner() -> None:
    started, adopted = running(), running(patience_s=ADOPTED_WORD_S)
    at = ADOPTED_WORD_S + 0.1
    assert started.next_step(at, calls=False) is Due.NOTHING
    assert adopted.next_step(at, calls=True) is Due.NOTHING
    assert adopted.next_step(at, calls=False) is Due.STOP
    assert started.next_step(FIRST_WORD_S + 0.1, calls=False) is Due.STOP


def test_one_that_is_being_ended_has_its_time_for_that_and_is_replaced_at_once_then() -> None:
    agent = running(patience_s=ADOPTED_WORD_S)
    assert agent.next_step(10.0, calls=False) is Due.STOP
    assert agent.next_step(10.0 + ADOPTED_WORD_S, calls=False) is Due.NOTHING
    agent.ended(14.0, "killed")
    assert agent.next_step(14.0, calls=False) is Due.ASK


def test_an_agent_that_fails_at_once_is_started_ever_more_rarely_and_one_that_lasted_at_once() -> (
    None
):
    agent, pauses = NodeAgent(), list[float]()
    for _ in range(9):
        agent.runs(CONTAINER, 0.0)
        agent.ended(1.0, "no Python")
        pauses.append(agent.again_at - 1.0)
    assert pauses == [min(60.0, 2.0**n) for n in range(9)]
    assert agent.next_step(1.0 + 59.0, calls=False) is Due.NOTHING
    agent.runs(CONTAINER, 0.0)
    agent.ended(1000.0, "killed")
    assert agent.next_step(1000.0, calls=False) is Due.ASK


# What YARN says of its nodes, and which of them can take a container.


def node(host: str, state: str = "RUNNING", *labels: str, why: str = "") -> Node:
    return Node(host, state, 1000, 8, 0, 0, labels, why)


def test_a_host_whose_node_manager_was_started_at_another_port_is_the_one_that_runs() -> None:
    """YARN remembers the one before as LOST."""
    before, now = node("a", "LOST"), node("a")
    assert by_host([before, now]) == by_host([now, before]) == {"a": now}


def test_a_node_that_runs_takes_containers_where_it_has_the_label() -> None:
    assert closed(node("a"), label="") == ""
    assert closed(node("a", "RUNNING", "ssd"), label="ssd") == ""
    assert closed(node("a"), label="ssd") == "its node hasn't the label ssd"


def test_of_any_other_node_it_is_told_what_yarn_says() -> None:
    assert closed(None, label="") == "YARN has no such node"
    assert closed(node("a", "DECOMMISSIONING"), label="") == "YARN says that it is DECOMMISSIONING"
    sick = node("a", "UNHEALTHY", why="1/1 local-dirs are bad")
    assert closed(sick, label="") == "YARN says that it is UNHEALTHY: 1/1 local-dirs are bad"


# What is said of a YARN's own settings before a job runs there.

GOOD = {
    "yarn.resourcemanager.recovery.enabled": "true",
    "yarn.nodemanager.recovery.enabled": "true",
}


def test_nothing_is_said_of_a_yarn_that_recovers() -> None:
    assert list(advice(GOOD.get, 120.0)) == []


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("yarn.resourcemanager.recovery.enabled", "false", "ends the job with its ResourceManager"),
        ("yarn.nodemanager.recovery.enabled", "", "they run on"),
        ("yarn.am.liveness-monitor.expiry-interval-ms", "200000", "240000"),
        ("yarn.nodemanager.sleep-delay-before-sigkill.ms", "50", "no time"),
        ("yarn.nodemanager.runtime.linux.allowed-runtimes", "docker", "allow default too"),
    ],
)
def test_each_setting_that_costs_is_named_with_the_change(key: str, value: str, word: str) -> None:
    (line,) = advice({**GOOD, key: value}.get, 120.0)
    assert key in line
    assert word in line


def test_yarns_default_expiry_is_shorter_than_twice_a_lease_of_six_minutes() -> None:
    (line,) = advice(GOOD.get, 360.0)
    assert "720000" in line
