"""YARN's nodes as the hosts of a cluster of agents: an agent on each, and a container for each hold.

One thread speaks with the ResourceManager. NodeManagers are spoken with from a few others, since
one that is gone answers late. Nothing that YARN says counts as a container's death.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from samza_dagster.cluster.interface import JSON
from samza_dagster.cluster.local import LocalCluster
from samza_dagster.cluster.yarn.agents import (
    ADOPTED_WORD_S,
    AgentContainer,
    AskForAgent,
    next_due,
    steps,
)
from samza_dagster.cluster.yarn.application import (
    SECRET,
    Ask,
    EndedContainer,
    Launch,
    Node,
    YarnApplication,
    YarnContainer,
    usable,
)
from samza_dagster.cluster.yarn.gateway import HadoopGateway, gateway_is_gone, java_words
from samza_dagster.cluster.yarn.session import Session, SessionStore
from samza_dagster.errors import ActionFailed

LOG = logging.getLogger(__name__)
T = TypeVar("T")

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
    """Where the job's application is, and how its agents are started.

    `{host}` in the directories is the node's name. `agent` is the content of `agent.pyz`.
    """

    job: str
    queue: str
    label: str
    node_directory: str
    node_state_directory: str
    python: str
    agent: bytes


class _Held(NamedTuple):
    """A hold that is asked of YARN."""

    request_id: str
    ask: Ask
    since: float


class YarnHosts:
    """Implements `Holds`. Of one term: `close` leaves all that runs as it is."""

    def __init__(
        self,
        settings: YarnSettings,
        session: Session,
        *,
        open_gateway: Callable[[], HadoopGateway],
        open_store: Callable[[HadoopGateway], SessionStore],
        first_ask: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._session = session
        self._gateway = open_gateway()
        self._open_gateway = open_gateway
        self._open_store = open_store
        self._clock = clock
        self._cluster: LocalCluster | None = None
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="yarn", daemon=True)
        self._node_calls = ThreadPoolExecutor(_NODE_THREADS, "yarn-nodes")
        # Of the thread alone, but for reading.
        self._application = YarnApplication(self._gateway)
        self._next_ask = first_ask
        self._asks: dict[int, str] = {}
        self._holds: dict[str, _Held] = {}
        self._agents: dict[str, AgentContainer] = {}
        self._containers: dict[str, YarnContainer] = {}
        self._starting: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._nodes_at = self._beat_at = float("-inf")
        self._told = ""

    # Holds, as the cluster asks for them

    def start(self, cluster: LocalCluster) -> None:
        """Agents may call `cluster` from now on."""
        self._cluster = cluster
        self._agent_page = (
            f"/yarn/agent-{hashlib.sha256(self._settings.agent).hexdigest()[:16]}.pyz"
        )
        cluster.add_page(self._agent_page, "application/zip", lambda: self._settings.agent)
        cluster.add_page("/yarn", JSON, lambda: json.dumps(self.to_json()).encode())
        self._thread.start()

    def close(self) -> None:
        """Ends the conversation. The application, its agents and its containers go on."""
        self._closing.set()
        self._inbox.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join(timeout=_LAST_WORD_S)
        self._gateway.close()
        self._node_calls.shutdown(wait=False, cancel_futures=True)

    def finish(self) -> None:
        """See `Holds`: YARN ends the agents with the application."""
        done = threading.Event()

        def unregister() -> None:
            self._application.unregister()
            self._closing.set()
            done.set()

        self._inbox.put(unregister)
        if not done.wait(_FINISH_S):
            raise ActionFailed(
                f"end {self._session.application} on YARN",
                seen=self._told or "no answer",
                fix=f"yarn application -kill {self._session.application}",
            )

    def ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        """See `Holds`."""
        self._inbox.put(partial(self._ask, request_id, host, memory_mb, cores))

    def withdraw(self, request_id: str) -> None:
        """See `Holds`."""
        self._inbox.put(partial(self._withdraw, request_id))

    def free(self, host: str) -> tuple[int, int]:
        """See `Holds`: nothing on a node that YARN doesn't say runs."""
        node = self._nodes.get(host)
        if node is None or node.state != "RUNNING":
            return 0, 0
        return node.memory_mb - node.used_memory_mb, node.cores - node.used_cores

    def to_json(self) -> dict[str, Any]:
        """The page `/yarn`: the application, and of each node what YARN and its agent say."""
        cluster = self._cluster
        calling: frozenset[str] = frozenset() if cluster is None else cluster.registered()
        return {
            "version": 1,
            "application": self._session.application,
            "trouble": self._told,
            "nodes": {
                host: {
                    "state": node.state,
                    "why": node.why,
                    "memory_mb": node.memory_mb,
                    "used_memory_mb": node.used_memory_mb,
                    "cores": node.cores,
                    "used_cores": node.used_cores,
                    "agent": "calls" if host in calling else self._agent_words(host),
                }
                for host, node in sorted(self._nodes.items())
            },
        }

    def _agent_words(self, host: str) -> str:
        agent = self._agents.get(host, AgentContainer())
        if agent.container:
            return f"started as {agent.container}, not heard yet"
        if agent.asked:
            return "asked of YARN"
        return f"ended: {agent.why}" if agent.why else "none"

    # The thread

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                self._connect()
                failures, self._told = 0, ""
                while not self._closing.is_set():
                    self._turn()
            except Exception as error:
                if self._closing.is_set():
                    return
                failures += 1
                self._told = java_words(error)
                LOG.warning("YARN: %s; again in a moment, containers run on", self._told)
                LOG.debug("YARN", exc_info=True)
                if _RIVAL in self._told:
                    self._prove_leadership()
                self._closing.wait(min(_LONGEST_PAUSE_S, 0.1 * 2**failures))

    def _connect(self) -> None:
        """Becomes the application's master, of a new one where there is none that runs."""
        assert self._cluster is not None
        self._gateway = self._open_gateway()
        self._application = YarnApplication(self._gateway)
        store = self._open_store(self._gateway)
        if not self._session.application or not self._runs(self._session.application):
            self._application.submit(
                self._settings.job, queue=self._settings.queue, label=self._settings.label
            )
            self._session = self._session.of(self._application.identifier, self._application.token)
            store.write(self._session)
        self._store = store
        earlier = self._application.register(
            self._session.application, self._session.token, url=self._cluster.url
        )
        LOG.info("leads %s on YARN, %d containers there", self._session.application, len(earlier))
        self._take_up(earlier)
        self._look_at_nodes()

    def _prove_leadership(self) -> None:
        """YARN takes two masters of one attempt in turns: only the brokers know which of them leads.

        One that doesn't is closed by then, and doesn't disturb the other any more.
        """
        assert self._cluster is not None
        self._cluster.rival(f"another master of {self._session.application} spoke with YARN")
        self._closing.wait(_PROVEN_S)

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

    def _take_up(self, earlier: tuple[YarnContainer, ...]) -> None:
        """What YARN says that is there, in place of what this thread knew; open asks are made again."""
        now = self._clock()
        self._containers = {each.id: each for each in earlier}
        known, self._agents = self._agents, {}
        for each in earlier:
            if each.priority == _AGENT:
                before = known.get(each.host)
                same = before is not None and before.container == each.id
                self._agents[each.host] = (
                    before
                    if same and before is not None
                    else AgentContainer().runs(each.id, now, ADOPTED_WORD_S)
                )
            elif each.id not in self._starting:
                self._node_calls.submit(self._release_if_idle, each)
        self._asks.clear()
        for held in self._holds.values():
            self._asks[held.ask.id] = held.request_id
            self._application.ask(held.ask)

    def _turn(self) -> None:
        now = self._clock()
        urgent = bool(self._asks)
        due = self._beat_at + (_URGENT_BEAT_S if urgent else _BEAT_S)
        began: float | None = None
        for call in self._calls(max(0.0, due - now)):
            began = self._clock() if began is None else began
            call()
            if self._clock() - began > _URGENT_BEAT_S:
                break  # YARN hears of these asks, which take 3 ms each, before the next are made
        now = self._clock()
        if now >= self._beat_at + (_URGENT_BEAT_S if self._asks else _BEAT_S):
            self._beat(now)
        if now - self._nodes_at > _NODES_S:
            self._look_at_nodes()
        self._refuse_late(now)
        self._keep_agents(now)

    def _calls(self, within_s: float) -> Iterator[Callable[[], None]]:
        agent_due = next_due(self._agents, self._clock())
        if agent_due is not None:
            within_s = min(within_s, max(0.0, agent_due - self._clock()))
        try:
            yield self._inbox.get(timeout=within_s) if within_s > 0 else self._inbox.get_nowait()
            while True:
                yield self._inbox.get_nowait()
        except queue.Empty:
            return

    def _beat(self, now: float) -> None:
        self._beat_at = now
        beat = self._answered(self._application.beat)
        if beat is None:
            return
        if beat.token is not None:
            self._session = self._session.of(self._session.application, beat.token)
            self._store.write(self._session)
        for container in beat.allocated:
            self._take(container)
        for ended in beat.ended:
            self._note_end(ended, now)
        if beat.nodes_changed:
            self._look_at_nodes()

    def _look_at_nodes(self) -> None:
        self._nodes_at = self._clock()
        nodes = self._answered(self._application.nodes)
        if nodes is not None:
            self._nodes = {node.host: node for node in nodes}

    def _answered(self, call: Callable[[], T]) -> T | None:
        """What the ResourceManager answers; None while nobody does, so that it is asked again later."""
        try:
            answer = call()
        except Exception as error:
            if gateway_is_gone(error, self._gateway) or not _is_away(error):
                raise
            if not self._told:
                LOG.warning("the ResourceManager is away, containers run on: %s", java_words(error))
            self._told = java_words(error)
            return None
        self._told = ""
        return answer

    # Holds

    def _ask(self, request_id: str, host: str, memory_mb: int, cores: int) -> None:
        largest_mb, most_cores = self._application.largest
        if memory_mb > largest_mb or cores > most_cores:
            self._refuse(
                request_id, host,
                f"YARN's largest container has {largest_mb} MiB and {most_cores} cores "
                "(yarn.scheduler.maximum-allocation-mb, -vcores)",
            )  # fmt: skip
            return
        node = self._nodes.get(host)
        if node is None or node.state != "RUNNING":
            self._refuse(
                request_id, host, f"YARN says that it is {node.state if node else 'unknown'}"
            )
            return
        ask = self._new_ask(host, memory_mb, cores, _HOLD)
        self._holds[request_id] = _Held(request_id, ask, self._clock())
        self._asks[ask.id] = request_id

    def _new_ask(self, host: str, memory_mb: int, cores: int, priority: int) -> Ask:
        self._next_ask += 1
        ask = Ask(self._next_ask, host, memory_mb, cores, priority)
        self._application.ask(ask)
        self._beat_at = float("-inf")  # told at once
        return ask

    def _withdraw(self, request_id: str) -> None:
        held = self._holds.pop(request_id, None)
        if held is not None:
            self._asks.pop(held.ask.id, None)
            self._application.withdraw(held.ask.id)

    def _refuse(self, request_id: str, host: str, why: str) -> None:
        assert self._cluster is not None
        self._withdraw(request_id)
        self._cluster.hold_refused(request_id, host, why)

    def _refuse_late(self, now: float) -> None:
        for held in list(self._holds.values()):
            # Of one that YARN gave, its start tells how it ends.
            if held.ask.id in self._asks and now - held.since > _HOLD_WITHIN_S:
                memory_mb, cores = self.free(held.ask.host)
                self._refuse(
                    held.request_id, held.ask.host,
                    f"YARN gave no container there within {_HOLD_WITHIN_S:g} s; by its word "
                    f"{memory_mb} MiB and {cores} cores are free, the queue's limits aside",
                )  # fmt: skip

    def _take(self, container: YarnContainer) -> None:
        owner = self._asks.pop(container.ask_id, None)
        if owner is None:  # withdrawn, and given all the same
            self._application.release(container)
            return
        self._containers[container.id] = container
        self._starting.add(container.id)
        agent = container.priority == _AGENT
        if agent:
            self._agents[container.host] = self._agents[container.host].runs(
                container.id, self._clock()
            )
        self._node_calls.submit(self._start, container, None if agent else owner)

    def _start(self, container: YarnContainer, request_id: str | None) -> None:
        """On a thread of its own: its end comes back as a call."""
        why = ""
        try:
            self._application.start(
                container, self._launch(container.host, agent=request_id is None)
            )
        except Exception as error:
            why = f"its NodeManager didn't start a container: {java_words(error)}"
        self._inbox.put(partial(self._started, container, request_id, why))

    def _started(self, container: YarnContainer, request_id: str | None, why: str) -> None:
        assert self._cluster is not None
        self._starting.discard(container.id)
        if why:
            LOG.warning("%s on %s: %s", container.id, container.host, why)
            self._containers.pop(container.id, None)
            self._application.release(container)
            if request_id is None:
                agent = self._agents[container.host]
                if agent.container == container.id:
                    self._agents[container.host] = agent.ended(self._clock(), why)
        if request_id is None:
            return
        held = self._holds.pop(request_id, None)
        if why:
            if held is not None:
                self._cluster.hold_refused(request_id, container.host, why)
        elif held is None or not self._cluster.hold_granted(
            request_id, container.host, container.id
        ):
            self._stop(container)

    def _stop(self, container: YarnContainer) -> None:
        self._node_calls.submit(self._stop_now, container)

    def _stop_now(self, container: YarnContainer) -> None:
        try:
            self._application.stop(container)
        except Exception as error:
            LOG.info("%s on %s isn't stopped: %s", container.id, container.host, java_words(error))

    def _release_if_idle(self, container: YarnContainer) -> None:
        if not self._application.is_started(container):
            self._inbox.put(partial(self._application.release, container))

    def _note_end(self, ended: EndedContainer, now: float) -> None:
        container = self._containers.pop(ended.id, None)
        if container is None:
            return
        why = (
            f"YARN says of {ended.id}: exit status {ended.exit_status}. {ended.diagnostics}".strip()
        )
        if container.priority == _AGENT:
            agent = self._agents.get(container.host, AgentContainer())
            if agent.container == ended.id:
                LOG.info("the agent of %s has ended. %s", container.host, why)
                dead = ended.exit_status != _LOST_SIGHT
                self._agents[container.host] = agent.ended(now, why, dead=dead)
        elif ended.exit_status != 0:
            LOG.info("on %s: %s", container.host, why)

    # Agents

    def _keep_agents(self, now: float) -> None:
        assert self._cluster is not None
        hosts = [
            node.host for node in usable(tuple(self._nodes.values()), label=self._settings.label)
        ]
        for step in steps(hosts, self._agents, self._cluster.registered(), now):
            agent = self._agents.get(step.host, AgentContainer())
            if isinstance(step, AskForAgent):
                ask = self._new_ask(step.host, AGENT_MEMORY_MB, 1, _AGENT)
                self._asks[ask.id] = step.host
                self._agents[step.host] = replace(agent, asked=True)
            else:
                LOG.warning("the agent of %s isn't heard, and is started anew", step.host)
                self._agents[step.host] = replace(agent, stopping=True)
                if agent.container in self._containers:
                    self._stop(self._containers[agent.container])

    def _launch(self, host: str, *, agent: bool) -> Launch:
        assert self._cluster is not None
        directory = f"{self._filled(self._settings.node_directory, host)}/{self._settings.job}"
        arguments = ["--directory", directory]
        if agent:
            node = self._nodes[host]
            arguments += [
                *("--wardens", "outside", "--host", host),
                *("--memory-mb", str(node.memory_mb), "--cores", str(node.cores)),
                *("--coordinator-url", self._cluster.url),
            ]
            if self._settings.node_state_directory:
                state = self._filled(self._settings.node_state_directory, host)
                arguments += ["--state-dir", state]
        text = "".join(f"{each}\n" for each in arguments).encode()
        page = f"/yarn/{hashlib.sha256(text).hexdigest()[:16]}/arguments"
        self._cluster.add_page(page, "text/plain", lambda: text)
        url = self._cluster.url
        role = "" if agent else " --hold"
        return Launch(
            f"exec {self._settings.python} -I agent.pyz{role} @arguments 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr",
            {"agent.pyz": url + self._agent_page, "arguments": url + page},
            {SECRET: self._session.agents_token.encode()} if agent else {},
        )

    def _filled(self, directory: str, host: str) -> str:
        return directory.replace("{host}", host).rstrip("/")


def _is_away(error: BaseException) -> bool:
    """Whether nobody answered, so that the same may be said again."""
    words = java_words(error)
    away = ("ConnectException", "SocketTimeout", "EOFException", "NoRouteToHost", "StandbyException", "Retriable", "ConnectTimeout", "SocketException")  # fmt: skip
    return any(each in words for each in away)
