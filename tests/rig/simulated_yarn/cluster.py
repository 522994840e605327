"""ResourceManager and NodeManagers, as `YarnApplication` finds them.

Times are those of YARN 3.3.6 with its default node heartbeat of one second and a coordinator that
beats each 50 ms while it waits: 400 asks of two nodes are all answered after 2.4 to 3.2 s.
"""

from __future__ import annotations

import itertools
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.cluster.yarn.application import EndedContainer, Node, YarnContainer
from tests.rig.simulated_yarn.agents import SimulatedAgent
from tests.rig.simulated_yarn.delays import Delays, Interval, Recorded

SUBMITTED = Recorded(0.5, 0.9)
REGISTERED = Recorded(0.09, 0.13)
ALLOCATED = Recorded(0.210, 0.638)
"""With a node heartbeat of one second and asks that name a host."""
STARTED = Recorded(0.092, 0.415)
AGENT_UP = Recorded(0.35, 0.6)
STOPPED = Recorded(0.040, 0.090)
TOLD = Recorded(0.032, 0.058)
"""From a container's end until the ResourceManager knows."""
HEARTBEAT_S = 1.0
MOST_A_HEARTBEAT = 100
"""The default of `yarn.scheduler.capacity.per-node-heartbeat.maximum-container-assignments`."""
_SEED = 1
_APPLICATION, _TOKEN = "application_1_0001", "token"


class Ask(NamedTuple):
    """As a `YarnApplication` is given it."""

    id: int
    host: str
    memory_mb: int
    cores: int
    priority: int


@dataclass
class _Node:
    host: str
    memory_mb: int
    cores: int
    localized: dict[str, bytes] = field(default_factory=dict[str, bytes])
    allocated_at: deque[float] = field(
        default_factory=lambda: deque[float](maxlen=MOST_A_HEARTBEAT)
    )
    agent: SimulatedAgent | None = None


@dataclass
class _Allocation:
    container: YarnContainer
    ask: Ask
    ended: bool = False


class SimulatedCluster:
    """Called from several threads; `py4j_s` is what the coordinator's calls would have cost it."""

    def __init__(self, directory: Path, *, nodes: int, memory_mb: int, cores: int) -> None:
        self._directory = directory
        self._delays = Delays(_SEED)
        self._lock = threading.Lock()
        names = [f"node-{number:02}" for number in range(1, nodes + 1)]
        self._nodes = {name: _Node(name, memory_mb, cores) for name in names}
        self._numbers = itertools.count(1)
        self._untold: list[Ask] = []
        self._open: dict[int, Ask] = {}
        self._allocations: dict[str, _Allocation] = {}
        self._allocated: list[YarnContainer] = []
        self._ended: list[EndedContainer] = []
        self._submitted_at = 0.0
        self.py4j_s = 0.0

    # What a measurement asks

    def submitted_at(self) -> float:
        """Return when the application was submitted, on the monotonic clock; 0 before."""
        return self._submitted_at

    def running(self) -> dict[str, dict[str, bool]]:
        """Return for each host its live processors, and whether each has checked in."""
        agents = {name: node.agent for name, node in self._nodes.items()}
        return {name: {} if agent is None else agent.running() for name, agent in agents.items()}

    def pending(self, began: float, ended: float) -> list[Interval]:
        """See `Delays.pending`."""
        return self._delays.pending(began, ended)

    def spent(self) -> float:
        """Return the seconds that py4j has taken of the coordinator until now."""
        return self.py4j_s

    def held(self) -> int:
        """Return how many containers the ResourceManager counts, agents among them."""
        with self._lock:
            return sum(not each.ended for each in self._allocations.values())

    # What a `YarnApplication` asks

    def submit(self) -> tuple[str, str]:
        """Return the application and its token."""
        self._submitted_at = time.monotonic()
        self._delays.wait(SUBMITTED)
        return _APPLICATION, _TOKEN

    def register(self) -> tuple[YarnContainer, ...]:
        """Return what masters before have left."""
        self._delays.wait(REGISTERED)
        with self._lock:
            return tuple(each.container for each in self._allocations.values() if not each.ended)

    def ask(self, *ask: Any) -> None:
        """Is told with the next heartbeat."""
        with self._lock:
            self._untold.append(Ask(*ask))

    def withdraw(self, ask_id: int) -> None:
        """Ends an ask, unless it was answered."""
        with self._lock:
            self._open.pop(ask_id, None)
            self._untold = [ask for ask in self._untold if ask.id != ask_id]

    def beat(self) -> tuple[list[YarnContainer], list[EndedContainer]]:
        """One heartbeat of the master."""
        with self._lock:
            asked, self._untold = self._untold, []
            allocated, self._allocated = self._allocated, []
            ended, self._ended = self._ended, []
            self._open.update((ask.id, ask) for ask in asked)
        for ask in asked:
            self._delays.later(ALLOCATED, partial(self._allocate, ask.id))
        return allocated, ended

    def start(
        self, container: YarnContainer, command: str, files: Mapping[str, str], secret: str
    ) -> None:
        """Localizes what the node doesn't have yet, and starts it."""
        node = self._nodes[container.host]
        there = {name: self._localized(node, url) for name, url in files.items()}
        self._delays.wait(STARTED)
        if secret:  # an agent's
            arguments, url = _arguments(there["arguments"]), there["coordinator.url"].decode()
            begin = partial(self._begin_agent, node, arguments, url.strip(), secret)
            self._delays.later(AGENT_UP, begin)

    def stop(self, container: YarnContainer) -> None:
        """Ends its process group."""
        self._delays.later(STOPPED, partial(self._end, container.id, 143))

    def release(self, container: YarnContainer) -> None:
        """Takes back one that wasn't started."""
        self._end(container.id, -100)

    def is_started(self, container: YarnContainer) -> bool:
        """Return whether its NodeManager knows it; all of an earlier master are."""
        return container.id in self._allocations

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes with what is used of them."""
        with self._lock:
            return tuple(
                Node(node.host, "RUNNING", node.memory_mb, node.cores, *self._used(node.host))
                for node in self._nodes.values()
            )

    # What happens by itself

    def _used(self, host: str) -> tuple[int, int]:
        asks = [
            each.ask
            for each in self._allocations.values()
            if each.container.host == host and not each.ended
        ]
        return sum(ask.memory_mb for ask in asks), sum(ask.cores for ask in asks)

    def _allocate(self, ask_id: int) -> None:
        now = time.monotonic()
        with self._lock:
            ask = self._open.get(ask_id)
            if ask is None:
                return
            node, (memory_mb, cores) = self._nodes[ask.host], self._used(ask.host)
            is_full = memory_mb + ask.memory_mb > node.memory_mb or cores + ask.cores > node.cores
            times = node.allocated_at
            if is_full or (len(times) == times.maxlen and now - times[0] < HEARTBEAT_S):
                self._delays.later(HEARTBEAT_S, partial(self._allocate, ask_id))
                return
            del self._open[ask_id]
            times.append(now)
            identifier = f"container_1_0001_01_{next(self._numbers):06}"
            container = YarnContainer(identifier, ask.host, ask.id, ask.priority, None)
            self._allocations[identifier] = _Allocation(container, ask)
            self._allocated.append(container)

    def _localized(self, node: _Node, url: str) -> bytes:
        """A node fetches each file of an application once."""
        if url not in node.localized:
            with urllib.request.urlopen(url, timeout=30) as answer:
                node.localized[url] = answer.read()
        return node.localized[url]

    def _begin_agent(self, node: _Node, arguments: Mapping[str, str], url: str, token: str) -> None:
        node.agent = SimulatedAgent(
            arguments["--host"],
            self._directory / node.host,
            ResourceLedger(int(arguments["--memory-mb"]), int(arguments["--cores"])),
            url,
            token,
            self._delays,
            self._end,
        )
        node.agent.begin()

    def _end(self, container_id: str, exit_status: int) -> None:
        self._delays.later(TOLD, partial(self._note_end, container_id, exit_status))

    def _note_end(self, container_id: str, exit_status: int) -> None:
        with self._lock:
            found = self._allocations.get(container_id)
            if found is not None and not found.ended:
                found.ended = True
                self._ended.append(EndedContainer(container_id, exit_status, ""))


def _arguments(page: bytes) -> dict[str, str]:
    """Option → value, as `agent.pyz` reads them."""
    lines = page.decode().splitlines()
    return dict(zip(lines[::2], lines[1::2], strict=True))
