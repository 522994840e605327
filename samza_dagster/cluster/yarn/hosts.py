"""YARN's nodes as the hosts of a cluster of agents: an agent on each, and a container for each hold.

One thread calls the ResourceManager. A few others call NodeManagers, since a dead one answers
late. No report of YARN counts as a container's death.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from samza_dagster.cluster.interface import JSON
from samza_dagster.cluster.local import LocalCluster
from samza_dagster.cluster.yarn.agents import ADOPTED_WORD_S, Due, NodeAgent
from samza_dagster.cluster.yarn.application import (
    EndedContainer,
    Node,
    YarnApplication,
    YarnContainer,
    by_host,
    closed,
)
from samza_dagster.cluster.yarn.gateway import HadoopGateway, java_words
from samza_dagster.cluster.yarn.session import SessionStore
from samza_dagster.errors import ActionFailed

LOG = logging.getLogger(__name__)

AGENT_MEMORY_MB = 128
_AGENT, _HOLD = 1, 2
"""Priorities at YARN, by which a container that an earlier leader got is known for what it is."""
_BEAT_S = 1.0
_URGENT_BEAT_S = 0.05
_NODES_S = 5.0
_HOLD_WITHIN_S = 3.0
_NODE_THREADS = 8
_LOST_SIGHT = -100
"""`ContainerExitStatus.ABORTED`: released, or its node is lost; what ran may live on."""
_RIVAL = "InvalidApplicationMasterRequestException"
_PROVEN_S = 2.0
_LAST_WORD_S = 2.0
_FINISH_S = 30.0
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class YarnSettings:
    """Settings of the job's application and of the start of its agents.

    `{host}` in the directories is the node's name. `agent` is the content of `agent.pyz`.
    Successive leaders find the application in `session_directory`.
    """

    job: str
    agent: bytes
    hadoop_conf: Path
    queue: str
    node_label: str
    node_directory: str
    node_state_directory: str
    node_python: str
    session_directory: str

    def store(self, gateway: HadoopGateway) -> SessionStore:
        """Return the store of the job's session."""
        return SessionStore(gateway, self.session_directory, self.job)


@dataclass
class _Ask:
    """A container that was requested of YARN, until it is started; `given` once YARN has one.

    It is for a hold of `request_id`, or for an agent, which has none.
    """

    id: int
    request_id: str | None
    host: str
    memory_mb: int
    cores: int
    since: float
    given: YarnContainer | None = None


class YarnHosts:
    """Implements `Holds` for one term: `close` leaves all that runs as it is."""

    def __init__(
        self, settings: YarnSettings, open_gateway: Callable[[], HadoopGateway], first_ask: int
    ) -> None:
        self._settings = settings
        self._open_gateway = open_gateway
        self._gateway = open_gateway()
        self._store = settings.store(self._gateway)
        self._session = self._store.read()
        self.agents_token = self._session.agents_token
        self._cluster: LocalCluster
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="yarn", daemon=True)
        self._node_calls = ThreadPoolExecutor(_NODE_THREADS, "yarn-nodes")
        # Written by the thread alone.
        self._application: YarnApplication
        self._next_ask = first_ask
        self._asks: dict[int, _Ask] = {}
        self._agents: defaultdict[str, NodeAgent] = defaultdict(NodeAgent)
        self._nodes: dict[str, Node] = {}
        self._there: set[str] = set()
        self._nodes_at = self._beat_due = self._connect_at = float("-inf")
        self._connected = False
        self._failures = 0
        self._told = ""

    # Holds, as the cluster requests them

    def start(self, cluster: LocalCluster) -> None:
        """Let agents call `cluster` from now on."""
        self._cluster = cluster
        self._files = {
            "agent.pyz": self._page("application/zip", self._settings.agent),
            "coordinator.url": self._page("text/plain", cluster.url.encode()),
        }
        cluster.add_page("/yarn", JSON, lambda: json.dumps(self.to_json()).encode())
        self._thread.start()

    def _page(self, content_type: str, content: bytes) -> str:
        """Serve the content as a page; return its URL."""
        page = f"/yarn/{hashlib.sha256(content).hexdigest()[:16]}"
        self._cluster.add_page(page, content_type, lambda: content)
        return self._cluster.url + page

    def close(self) -> None:
        """Stop the calls to YARN. The application, its agents and its containers go on."""
        self._closing.set()
        self._inbox.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join(timeout=_LAST_WORD_S)
        self._gateway.close()
        self._node_calls.shutdown(wait=False, cancel_futures=True)

    def finish(self) -> None:
        """See `Holds`: YARN ends the agents with the application."""
        done: Future[None] = Future()

        def unregister() -> None:
            self._application.unregister()
            self._closing.set()
            done.set_result(None)

        self._inbox.put(unregister)
        try:
            done.result(_FINISH_S)
        except Late:
            raise ActionFailed(
                f"end {self._session.application} on YARN",
                seen=self._told or "no answer",
                fix=f"yarn application -kill {self._session.application}",
            ) from None

    def ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        """See `Holds`."""
        self._inbox.put(partial(self._ask, request_id, host, memory_mb, cores))

    def withdraw(self, request_id: str) -> None:
        """See `Holds`."""
        self._inbox.put(partial(self._withdraw, request_id))

    def free(self, host: str) -> tuple[int, int]:
        """See `Holds`."""
        node = self._nodes.get(host)
        if node is None or self.closed(host):
            return 0, 0
        return node.memory_mb - node.used_memory_mb, node.cores - node.used_cores

    def closed(self, host: str) -> str:
        """See `Holds`."""
        return closed(self._nodes.get(host), label=self._settings.node_label)

    def state(self, host: str) -> str:
        """See `Holds`."""
        node = self._nodes.get(host)
        return "" if node is None else node.state

    def to_json(self) -> dict[str, Any]:
        """Return the page `/yarn`: the application, and each node by YARN and by its agent.

        `unaccounted` are incarnations that run there in YARN containers that YARN has lost.
        """
        calling, holds, there = self._cluster.calling(), self._cluster.holds(), set(self._there)
        return {
            "version": 1,
            "application": self._session.application,
            "trouble": self._told,
            "nodes": {
                host: {
                    **asdict(node),
                    "agent": "calls"
                    if host in calling
                    else self._agents.get(host, NodeAgent()).describe(),
                    "unaccounted": sorted(
                        ran for hold, ran in holds.get(host, {}).items() if hold not in there
                    ),
                }
                for host, node in sorted(self._nodes.items())
            },
        }

    # The thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._turn()
            except Exception as error:
                if not self._closing.is_set():
                    self._pause(java_words(error))

    def _pause(self, why: str) -> None:
        """Schedule a new connection, with another JVM if this one has ended."""
        if why != self._told:
            LOG.warning("YARN: %s; again in a moment, containers run on", why)
        self._connected, self._told = False, why
        self._failures += 1
        pause = min(_LONGEST_PAUSE_S, 0.1 * 2**self._failures)
        if _RIVAL in why:
            # YARN takes two masters of one attempt in turns: only the brokers know which of them
            # leads. The other one is closed by then, and disturbs this one no more.
            self._cluster.rival(f"another master of {self._session.application} spoke with YARN")
            pause = _PROVEN_S
        self._connect_at = time.monotonic() + pause

    def _turn(self) -> None:
        """Wait for a call or a deadline, then act on it."""
        if not self._connected and time.monotonic() >= self._connect_at:
            self._connect()
        due = self._beat_due if self._connected else self._connect_at
        try:
            call = self._inbox.get(timeout=max(0.0, due - time.monotonic()))
            began = time.monotonic()
            call()
            # Send the asks, which take 3 ms each, before many more are made.
            while time.monotonic() - began < _URGENT_BEAT_S:
                self._inbox.get_nowait()()
        except queue.Empty:
            pass
        now = time.monotonic()
        self._refuse_late(now)
        if self._connected:
            if now >= self._beat_due:
                self._beat(now)
            if now - self._nodes_at > _NODES_S:
                self._look_at_nodes(now)
            self._keep_agents(now)

    def _connect(self) -> None:
        """Become the application's master; submit a new application if none runs.

        YARN's report replaces what this thread knew; open asks are repeated.
        """
        self._gateway = self._open_gateway()
        self._application = YarnApplication(self._gateway)
        self._store = self._settings.store(self._gateway)
        if not self._session.application or not self._runs(self._session.application):
            self._application.submit(
                self._settings.job, queue=self._settings.queue, label=self._settings.node_label
            )
            self._keep_tokens(self._application.identifier)
        earlier = self._application.register(
            self._session.application,
            self._session.token,
            self._session.node_tokens,
            url=self._cluster.url,
        )
        LOG.info("leads %s on YARN, %d containers there", self._session.application, len(earlier))
        now = time.monotonic()
        self._look_at_nodes(now)
        self._there = {each.id for each in earlier}
        for agent in self._agents.values():
            if agent.container is not None and agent.container.id not in self._there:
                agent.ended(now, "YARN doesn't know it any more", dead=False)
        starting = {ask.given.id for ask in self._asks.values() if ask.given is not None}
        for each in earlier:
            if each.priority == _AGENT:
                agent = self._agents[each.host]
                if agent.container is None or agent.container.id != each.id:
                    agent.runs(each, now, ADOPTED_WORD_S)
                agent.container = each  # the same one has another handle in another JVM
            elif each.id not in starting:
                self._node_calls.submit(self._release_if_idle, each)
        for ask in [each for each in self._asks.values() if each.given is None]:
            if ask.request_id is not None:
                self._tell(ask)
            else:
                del self._asks[ask.id]
                self._agents[ask.host].again_at = now
        self._connected, self._failures, self._told = True, 0, ""

    def _runs(self, application: str) -> bool:
        try:
            state = self._application.state(application)
        except Exception as error:
            if "ApplicationNotFoundException" not in java_words(error):
                raise
            state = "unknown"
        if state in ("RUNNING", "ACCEPTED"):
            return True
        LOG.warning("YARN says that %s is %s: a new one is submitted", application, state)
        return False

    def _keep_tokens(self, application: str) -> None:
        self._session = replace(
            self._session,
            application=application,
            token=self._application.token,
            node_tokens=dict(self._application.node_tokens),
        )
        self._store.write(self._session)

    def _beat(self, now: float) -> None:
        open_asks = any(ask.given is None for ask in self._asks.values())
        self._beat_due = now + (_URGENT_BEAT_S if open_asks else _BEAT_S)
        allocated, ended = self._application.beat()
        tokens = (self._application.token, self._application.node_tokens)
        if tokens != (self._session.token, self._session.node_tokens):
            self._keep_tokens(self._session.application)
        for container in allocated:
            self._take(container)
        for each in ended:
            self._note_end(each, now)

    def _look_at_nodes(self, now: float) -> None:
        self._nodes_at = now
        self._nodes = by_host(self._application.nodes())

    # Holds

    def _ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        refuse = partial(self._cluster.hold_refused, request_id, host)
        if not self._connected:
            refuse(f"YARN: {self._told}")
            return
        largest_mb, most_cores = self._application.largest
        if memory_mb > largest_mb or cores > most_cores:
            refuse(
                f"YARN's largest container has {largest_mb} MiB and {most_cores} cores "
                "(yarn.scheduler.maximum-allocation-mb, -vcores)"
            )
            return
        if why := self.closed(host):
            refuse(why)
            return
        self._open(request_id, host, memory_mb, cores)

    def _open(self, request_id: str | None, host: str, memory_mb: int, cores: int) -> None:
        self._next_ask += 1
        ask = _Ask(self._next_ask, request_id, host, memory_mb, cores, time.monotonic())
        self._asks[ask.id] = ask
        self._tell(ask)

    def _tell(self, ask: _Ask) -> None:
        priority = _AGENT if ask.request_id is None else _HOLD
        self._application.ask(ask.id, ask.host, ask.memory_mb, ask.cores, priority)
        self._beat_due = float("-inf")  # sent at once

    def _withdraw(self, request_id: str) -> None:
        for ask in [each for each in self._asks.values() if each.request_id == request_id]:
            del self._asks[ask.id]
            if self._connected:
                self._application.withdraw(ask.id)

    def _refuse_late(self, now: float) -> None:
        for ask in list(self._asks.values()):
            if (
                ask.request_id is not None
                and ask.given is None
                and now - ask.since > _HOLD_WITHIN_S
            ):
                memory_mb, cores = self.free(ask.host)
                self._withdraw(ask.request_id)
                self._cluster.hold_refused(
                    ask.request_id, ask.host,
                    f"YARN gave no container there within {_HOLD_WITHIN_S:g} s; by its word "
                    f"{memory_mb} MiB and {cores} cores are free, the queue's limits aside",
                )  # fmt: skip

    def _take(self, container: YarnContainer) -> None:
        ask = self._asks.get(container.ask_id)
        if ask is None or ask.given is not None:  # withdrawn or answered before
            self._application.release(container)
            return
        ask.given = container
        self._there.add(container.id)
        if ask.request_id is None:
            self._agents[container.host].runs(container, time.monotonic())
        self._node_calls.submit(self._start, ask, container)

    def _start(self, ask: _Ask, container: YarnContainer) -> None:
        """Start it on a thread of its own, which reports its end as a call."""
        why = ""
        try:
            self._launch(container, agent=ask.request_id is None)
        except Exception as error:
            why = f"its NodeManager didn't start a container: {java_words(error)}"
        self._inbox.put(partial(self._started, ask, container, why))

    def _started(self, ask: _Ask, container: YarnContainer, why: str) -> None:
        wanted = self._asks.pop(ask.id, None) is not None
        agent = self._agents[container.host]
        if why:
            LOG.warning("%s on %s: %s", container.id, container.host, why)
            if ask.request_id is not None and wanted:
                self._cluster.hold_refused(ask.request_id, ask.host, why)
            elif agent.container is not None and agent.container.id == container.id:
                agent.ended(time.monotonic(), why)
            self._application.release(container)
        elif ask.request_id is not None and not (
            wanted and self._cluster.hold_granted(ask.request_id, ask.host, container.id)
        ):
            self._node_calls.submit(self._stop, container)

    def _stop(self, container: YarnContainer) -> None:
        try:
            self._application.stop(container)
        except Exception as error:
            LOG.info("%s on %s isn't stopped: %s", container.id, container.host, java_words(error))

    def _release_if_idle(self, container: YarnContainer) -> None:
        if not self._application.is_started(container):
            self._inbox.put(partial(self._application.release, container))

    def _note_end(self, ended: EndedContainer, now: float) -> None:
        self._there.discard(ended.id)
        for host, agent in self._agents.items():
            if agent.container is not None and agent.container.id == ended.id:
                LOG.info("the agent of %s has ended: %s", host, ended)
                agent.ended(now, str(ended), dead=ended.exit_status != _LOST_SIGHT)
                if agent.failures > 1:
                    LOG.warning("it ends each time: see --node-python and --node-directory")
                return
        if ended.exit_status != 0:
            LOG.info("YARN says of %s: %s", ended.id, ended)

    # Agents

    def _keep_agents(self, now: float) -> None:
        calling = self._cluster.calling()
        for host in [each for each in sorted(self._nodes) if not self.closed(each)]:
            agent = self._agents[host]
            due = agent.next_step(now, calls=host in calling)
            if due is Due.ASK:
                self._open(None, host, AGENT_MEMORY_MB, 1)
            elif due is Due.STOP and agent.container is not None:
                LOG.warning("the agent of %s isn't heard, and is started anew", host)
                self._node_calls.submit(self._stop, agent.container)

    def _launch(self, container: YarnContainer, *, agent: bool) -> None:
        settings, host = self._settings, container.host
        directory = f"{_filled(settings.node_directory, host)}/{settings.job}"
        arguments = ["--directory", directory]
        if agent:
            node = self._nodes[host]
            arguments += [
                *("--host", host, "--coordinator-url-file", "coordinator.url"),
                *("--memory-mb", str(node.memory_mb), "--cores", str(node.cores)),
            ]
            if settings.node_state_directory:
                arguments += ["--state-dir", _filled(settings.node_state_directory, host)]
        lines = "".join(f"{each}\n" for each in arguments)
        self._application.start(
            container,
            f"exec {settings.node_python} -I agent.pyz{'' if agent else ' --hold'} @arguments "
            "1><LOG_DIR>/stdout 2><LOG_DIR>/stderr",
            {**self._files, "arguments": self._page("text/plain", lines.encode())},
            self._session.agents_token if agent else "",
        )


def _filled(directory: str, host: str) -> str:
    return directory.replace("{host}", host).rstrip("/")
