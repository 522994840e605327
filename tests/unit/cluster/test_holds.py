"""Requests where an engine, as YARN, holds a host's memory before its agent does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.cluster.agent_messages import parse_sync
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.cluster.interface import ResourceAsk
from samza_dagster.cluster.resource_requests import ResourceRequests

pytestmark = pytest.mark.unit


class Engine:
    """Implements `Holds`: what it was asked, and what it would give."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.withdrawn: list[str] = []
        self.room: dict[str, tuple[int, int]] = {}
        self.states: dict[str, str] = {}

    def start(self, cluster: Any) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...

    def ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        self.asked.append((request_id, host))

    def withdraw(self, request_id: str) -> None:
        self.withdrawn.append(request_id)

    def free(self, host: str) -> tuple[int, int]:
        return (0, 0) if host in self.states else self.room.get(host, (1000, 9))

    def closed(self, host: str) -> str:
        return f"it is {self.states[host]}" if host in self.states else ""

    def state(self, host: str) -> str:
        return self.states.get(host, "RUNNING")


class Held:
    def __init__(self) -> None:
        self.now = 0.0
        self.engine = Engine()
        self.hosts: dict[str, HostRecord] = {}
        self.sent: list[dict[str, Any]] = []
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.requests = ResourceRequests(
            self.hosts,
            send=self._send,
            notify=lambda notice: notice(self),  # pyright: ignore[reportArgumentType]
            clock=lambda: self.now,
            holds=self.engine,
        )
        for host in ("h1", "h2"):
            self.report(host)

    def _send(self, host: str, kind: str, /, **fields: Any) -> None:
        self.sent.append({"host": host, "kind": kind, **fields})

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, arguments))

    def report(self, host: str) -> None:
        record = self.hosts.setdefault(host, HostRecord(host))
        message = {
            "version": 1, "host": host, "boot_id": "b", "journal": "j", "instance": "i", "began_ms": 1,
            "losses": record.losses, "sequence": record.sequence + 1,
            "resources": {"memory_mb": 1000, "cores": 9, "free_memory_mb": 1000, "free_cores": 9},
        }  # fmt: skip
        record.take(parse_sync(json.dumps(message).encode()))

    def ask(self, request_id: str, host: str | None = None, *, urgent: bool = False) -> None:
        self.requests.request(ResourceAsk(request_id, host, (), 400, 1, 10.0, urgent=urgent))


@pytest.fixture
def held() -> Held:
    return Held()


def test_the_agent_is_told_to_reserve_once_the_engine_holds_it(held: Held) -> None:
    held.ask("r", "h1")
    assert held.engine.asked == [("r", "h1")]
    assert held.sent == []
    assert held.requests.hold_granted("r", "h1", "container_1")
    (told,) = held.sent
    assert (told["kind"], told["host"], told["hold"]) == ("reserve", "h1", "container_1")


def test_a_second_grant_for_a_request_is_given_back(held: Held) -> None:
    held.ask("r", "h1")
    assert held.requests.hold_granted("r", "h1", "container_1")
    assert not held.requests.hold_granted("r", "h1", "container_2")
    assert len(held.sent) == 1


def test_what_the_engine_refuses_is_asked_of_another_host(held: Held) -> None:
    held.ask("r")
    held.requests.answered("h1", "r", ok=False, why="YARN gave none")
    held.requests.place()
    assert held.engine.asked == [("r", "h1"), ("r", "h2")]
    assert not held.requests.hold_granted("r", "h1", "late")
    assert held.requests.hold_granted("r", "h2", "container_2")


def test_the_engines_reason_is_told_when_the_time_is_up(held: Held) -> None:
    held.ask("r", "h1")
    held.requests.answered("h1", "r", ok=False, why="YARN says that it is LOST")
    held.now = 11.0
    held.requests.expire()
    ((name, (_, why)),) = held.told
    assert name == "on_request_expired"
    assert "YARN says that it is LOST" in why


def test_a_host_that_the_engine_gives_nothing_on_is_closed_and_not_full(held: Held) -> None:
    """A host whose agent isn't heard is told with what the engine says of it."""
    held.engine.states = {"h1": "DECOMMISSIONING", "h3": "LOST"}
    for request_id, host in (("r", "h1"), ("s", "h3"), ("t", None)):
        held.requests.request(ResourceAsk(request_id, host, ("h2",), 400, 1, 10.0))
    held.now = 11.0
    held.requests.expire()
    whys = [arguments[1] for _, arguments in held.told]
    assert held.engine.asked == []
    assert "h1: it is DECOMMISSIONING" in whys[0]
    assert "h3: not registered, it is LOST" in whys[1]
    assert "h1: it is DECOMMISSIONING; h2: left out" in whys[2]
    assert "full" not in "".join(whys)


def test_an_urgent_ask_that_the_engine_refuses_is_over(held: Held) -> None:
    held.ask("r", "h1", urgent=True)
    held.requests.answered("h1", "r", ok=False, why="full")
    assert [name for name, _ in held.told] == ["on_request_expired"]


def test_what_is_asked_of_the_engine_counts_as_taken(held: Held) -> None:
    for number in range(3):
        held.ask(f"r{number}")
    held.ask("r3")
    assert [host for _, host in held.engine.asked] == ["h1", "h2", "h1", "h2"]
    held.ask("r4")
    assert len(held.engine.asked) == 4


def test_a_host_without_room_at_the_engine_is_left_alone(held: Held) -> None:
    held.engine.room["h1"] = (100, 9)
    held.ask("r")
    assert held.engine.asked == [("r", "h2")]


@pytest.mark.parametrize("end", ["release", "expire", "host_lost"])
def test_an_open_ask_is_withdrawn_with_its_request(held: Held, end: str) -> None:
    held.ask("r", "h1")
    held.engine.withdrawn.clear()
    if end == "release":
        held.requests.release("r")
    elif end == "expire":
        held.now = 11.0
        held.requests.expire()
    else:
        held.requests.host_lost("h1")
    assert held.engine.withdrawn == ["r"]
    assert not held.requests.hold_granted("r", "h1", "late")
