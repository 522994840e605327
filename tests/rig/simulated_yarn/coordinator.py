"""A real coordinator on YARN, but for `YarnApplication`: that asks the simulated cluster.

`python -m tests.rig.simulated_yarn.coordinator` takes the options of `coordinator run`; `SOCKET` in
the environment names where the cluster is. What py4j and its JVM would have cost the calling thread
is slept there, and counted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, cast

from samza_dagster.cluster.yarn import factory, hosts
from samza_dagster.cluster.yarn.application import EndedContainer, Node, YarnContainer
from samza_dagster.cluster.yarn.session import Session
from samza_dagster.coordinator.command import run_command
from tests.rig.simulated_yarn import SOCKET

GATEWAY_S = 0.5
CALL_S = 0.0003
ASK_S = 0.003
_OF_A_BEAT, _OF_AN_ALLOCATION, _OF_AN_END, _OF_A_NODE, _OF_A_START = 8, 10, 4, 14, 20
"""How many calls of py4j `YarnApplication` makes for each."""


class SimulatedGateway:
    """Stands in the place of a `HadoopGateway`."""

    _lock = threading.Lock()
    _spent_s = 0.0

    def __init__(self, _configuration: Path | None = None) -> None:
        self.is_alive = True
        self.configuration: Mapping[str, str] = {}
        self._mine = threading.local()
        self.spend(GATEWAY_S)

    def spend(self, seconds: float) -> None:
        """Takes the calling thread's time, as py4j does."""
        with self._lock:
            SimulatedGateway._spent_s += seconds
        time.sleep(seconds)

    def call(self, name: str, *arguments: object) -> Any:
        """Has the cluster carry it out; raises `RuntimeError` with its words."""
        if not hasattr(self._mine, "connection"):
            self._mine.connection = Client(os.environ[SOCKET], family="AF_UNIX")
        self._mine.connection.send((name, arguments, SimulatedGateway._spent_s))
        done, value = self._mine.connection.recv()
        if not done:
            raise RuntimeError(value)
        return value

    def close(self) -> None:
        """See `HadoopGateway`."""
        self.is_alive = False


class SimulatedApplication:
    """Stands in the place of a `YarnApplication`."""

    def __init__(self, gateway: SimulatedGateway) -> None:
        self._gateway = gateway
        self.identifier = self.token = ""
        self.node_tokens: dict[str, str] = {}
        self.largest = (1 << 20, 1 << 10)

    def require(self, queue: str, label: str) -> None:
        """See `YarnApplication`, as everything below."""

    def submit(self, name: str, *, queue: str, label: str) -> None:
        self.identifier, self.token = self._gateway.call("submit")

    def state(self, identifier: str) -> str:
        return "RUNNING"

    def register(
        self, identifier: str, token: str, node_tokens: Mapping[str, str], *, url: str
    ) -> tuple[YarnContainer, ...]:
        return self._gateway.call("register")

    def ask(self, *ask: Any) -> None:
        self._gateway.spend(ASK_S)
        self._gateway.call("ask", *ask)

    def withdraw(self, ask_id: int) -> None:
        self._gateway.spend(CALL_S)
        self._gateway.call("withdraw", ask_id)

    def beat(self) -> tuple[list[YarnContainer], list[EndedContainer]]:
        allocated, ended = cast(
            "tuple[list[YarnContainer], list[EndedContainer]]", self._gateway.call("beat")
        )
        containers = _OF_AN_ALLOCATION * len(allocated) + _OF_AN_END * len(ended)
        self._gateway.spend(CALL_S * (_OF_A_BEAT + containers))
        return allocated, ended

    def start(self, container: YarnContainer, *launch: Any) -> None:
        self._gateway.spend(CALL_S * _OF_A_START)
        self._gateway.call("start", container, *launch)

    def stop(self, container: YarnContainer) -> None:
        self._gateway.spend(CALL_S * 3)
        self._gateway.call("stop", container)

    def is_started(self, container: YarnContainer) -> bool:
        self._gateway.spend(CALL_S * 3)
        return self._gateway.call("is_started", container)

    def release(self, container: YarnContainer) -> None:
        self._gateway.spend(CALL_S * 2)
        self._gateway.call("release", container)

    def nodes(self) -> tuple[Node, ...]:
        nodes = cast("tuple[Node, ...]", self._gateway.call("nodes"))
        self._gateway.spend(CALL_S * _OF_A_NODE * len(nodes))
        return nodes


class SimulatedSessions:
    """Stands in the place of a `SessionStore`; of this process alone."""

    _kept: Mapping[str, Session] = {}

    def __init__(self, gateway: SimulatedGateway, directory: str, job: str) -> None:
        self._job = job

    def read(self) -> Session:
        return self._kept.get(self._job) or Session()

    def require(self) -> None:
        """Nothing is needed for it."""

    def write(self, session: Session) -> None:
        SimulatedSessions._kept = {**self._kept, self._job: session}


def main() -> None:
    """Runs the command with these three in the places of the real ones."""
    for room, name, stands_in in (
        (hosts, "YarnApplication", SimulatedApplication),
        (hosts, "SessionStore", SimulatedSessions),
        (factory, "YarnApplication", SimulatedApplication),
        (factory, "HadoopGateway", SimulatedGateway),
    ):
        setattr(room, name, stands_in)
    run_command()


if __name__ == "__main__":
    main()
