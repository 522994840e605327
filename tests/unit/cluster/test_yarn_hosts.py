"""Holds that are asked of YARN: when it hears of them, and when one is refused for taking too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from samza_dagster.cluster.yarn import hosts as yarn_hosts
from samza_dagster.cluster.yarn.application import Ask, Beat, Node, YarnContainer
from samza_dagster.cluster.yarn.hosts import YarnHosts, YarnSettings
from samza_dagster.cluster.yarn.session import Session

pytestmark = pytest.mark.unit


class Application:
    """Implements what a `YarnHosts` asks of a `YarnApplication` until a container is started."""

    largest = (10_000, 10)

    def __init__(self, _gateway: Any) -> None:
        self.on_ask: Callable[[], None] = lambda: None
        self.heard: list[int] = []
        self.asked: list[Ask] = []
        self.withdrawn: list[int] = []
        self.allocated: list[YarnContainer] = []

    def ask(self, ask: Ask) -> None:
        self.asked.append(ask)
        self.on_ask()

    def withdraw(self, ask_id: int) -> None:
        self.withdrawn.append(ask_id)

    def nodes(self) -> tuple[Node, ...]:
        return (Node("n1", "RUNNING", 4_000, 4, 0, 0),)

    def beat(self) -> Beat:
        self.heard.append(len(self.asked))
        allocated, self.allocated = tuple(self.allocated), []
        return Beat(allocated, (), nodes_changed=False, token=None)


class Cluster:
    """What the cluster of agents was told."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []

    def hold_refused(self, request_id: str, host: str, why: str) -> None:
        self.refused.append((request_id, host))

    def registered(self) -> frozenset[str]:
        return frozenset({"n1"})


class Asked:
    """A hold was asked for at time 0; nothing runs on threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(yarn_hosts, "YarnApplication", Application)
        nowhere: Any = None
        self.hosts: Any = YarnHosts(
            YarnSettings("j-1", "default", "", "/d", "", "python3", b""),
            Session(),
            open_gateway=lambda: nowhere,
            open_store=lambda _: nowhere,
            first_ask=0,
            clock=lambda: self.now,
        )
        self.cluster = Cluster()
        self.hosts._cluster = self.cluster
        self.hosts._node_calls = self
        self.application: Application = self.hosts._application
        self.starting: list[Any] = []
        self.hosts._look_at_nodes()
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
