"""When a hold that is asked of YARN is refused for taking too long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from samza_dagster.cluster.yarn import hosts as yarn_hosts
from samza_dagster.cluster.yarn.application import EndedContainer, Node, YarnContainer
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
