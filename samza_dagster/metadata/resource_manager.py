"""YARN's ResourceManager: its nodes, and the application of a Samza job.

Its REST API as Hadoop 2.10 and 3.3 serve it (`/ws/v1/cluster`), and the page `/am` of Samza's own
Application Master, whose address it names. Read alone; what isn't understood is named, and costs
nothing else.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from samza_dagster.errors import Unreachable
from samza_dagster.model.numbers import long_or_none

RUNNING = "RUNNING"
"""YARN's word on a node that takes containers, and on an application that has an Application Master."""
_GONE = frozenset({"LOST", "UNHEALTHY", "DECOMMISSIONED", "REBOOTED", "SHUTDOWN"})
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
_TYPE = "Samza"
_NODES = "nodes"
_APPLICATIONS = f"apps?applicationTypes={_TYPE}&deSelects=resourceRequests"
ANSWER_S = 2.0
HOLDS_S = 5.0
_MOST_BYTES = 64_000_000
_MOST_CHARACTERS = 300


@dataclass(frozen=True)
class YarnNode:
    """A node by its NodeManager; memory is MiB, None where it isn't told. `state` is YARN's word."""

    host: str
    state: str
    memory_mb: int | None = None
    free_memory_mb: int | None = None
    cores: int | None = None
    free_cores: int | None = None

    @property
    def is_gone(self) -> bool:
        """YARN counts its containers as ended."""
        return self.state in _GONE


@dataclass(frozen=True)
class Application:
    """A Samza job as YARN runs it. `state` and `final_status` are YARN's words, times ms since the epoch.

    `master_host` is where its Application Master is, `rpc_address` that one's `host:port`; empty
    while there is none.
    """

    id: str
    state: str
    final_status: str = ""
    diagnostics: str = ""
    master_host: str = ""
    rpc_address: str = ""
    tracking_url: str = ""
    started_ms: int | None = None

    @property
    def has_ended(self) -> bool:
        """Nothing of it runs any more."""
        return self.state in _ENDED

    def __str__(self) -> str:
        status = f", final status {self.final_status}" if self.has_ended else ""
        why = f": {self.diagnostics}" if self.diagnostics else ""
        return f"{self.id} is {self.state}{status}{why}"


@dataclass(frozen=True)
class Cluster:
    """A ResourceManager's answer: nodes by host, a job's application (None: it knows none).

    `odd` names what couldn't be read of it.
    """

    url: str
    nodes: Mapping[str, YarnNode]
    application: Application | None
    odd: tuple[str, ...] = ()


def fetched(url: str) -> bytes:
    """The answer to a GET; raises `OSError`, `ValueError`, `HTTPException`."""
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310 - the scheme was looked at
        return answer.read(_MOST_BYTES)


class ResourceManager:
    """A ResourceManager by its addresses (`http://host:port`); the first that answers as active is asked.

    What it says, or that it doesn't answer, holds for `HOLDS_S`: a sensor looks twice a second.
    Thread-safe.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        fetch: Callable[[str], bytes] = fetched,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = tuple(addresses)
        self._fetch = fetch
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, tuple[str, object] | Unreachable]] = {}

    def cluster(self, job_name: str, job_id: str) -> Cluster:
        """All of it that concerns a job; raises `Unreachable` that says why each has no answer."""
        url, said = self._answer(_NODES)
        nodes, odd = parse_nodes(said)
        _, said = self._answer(_APPLICATIONS)
        application, more = parse_application(said, f"{job_name}_{job_id}")
        return Cluster(url, nodes, application, (*odd, *more))

    def containers(self, application: Application) -> dict[str, tuple[str, str]]:
        """Return the containers by the application's own Application Master: see `parse_master`.

        Raises `Unreachable` also where its random port can't be reached from here.
        """
        asked = f"ask the Application Master of {application.id} what it runs"
        if not application.rpc_address:
            raise Unreachable(asked, seen=f"{application.id} has none now")
        url = f"http://{application.rpc_address}/am"
        try:
            return parse_master(json.loads(self._fetch(url)))
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise Unreachable(asked, seen=f"{url}: {_in_words(error)}") from error

    def running(self, application: Application) -> dict[str, str]:
        """Container → host of all that the application's newest attempt has; see `parse_containers`.

        Raises `Unreachable`.
        """
        of = f"apps/{application.id}/appattempts"
        _, said = self._answer(of)
        attempt = parse_attempt(said)
        if not attempt:
            raise Unreachable(f"ask what runs of {application.id}", seen="it has no attempt")
        _, said = self._answer(f"{of}/{attempt}/containers")
        return parse_containers(said)

    def _answer(self, what: str) -> tuple[str, object]:
        """The address that answered, and its document."""
        with self._lock:
            until_s, said = self._known.get(what, (0.0, None))
            if said is None or self._monotonic() >= until_s:
                said = self._ask(what)
                self._known[what] = (self._monotonic() + HOLDS_S, said)
        if isinstance(said, Unreachable):
            raise said
        return said

    def _ask(self, what: str) -> tuple[str, object] | Unreachable:
        reasons: list[str] = []
        for address in self._addresses:
            try:
                raw = self._fetch(f"{address}/ws/v1/cluster/{what}")
            except (OSError, ValueError, http.client.HTTPException) as error:
                reasons.append(f"{address}: {_in_words(error)}")
                continue
            try:
                return address, json.loads(raw)
            except (ValueError, RecursionError):  # one that isn't active answers with a text
                said = " ".join(raw[:_MOST_CHARACTERS].decode(errors="replace").split())
                reasons.append(f"{address} is no active ResourceManager: {said[:100]}")
        return Unreachable(
            "ask YARN's ResourceManager",
            seen="; ".join(reasons),
            fix="name one that answers: yarn_resource_manager, --yarn-resource-manager",
        )


@lru_cache(maxsize=64)
def resource_manager(addresses: tuple[str, ...]) -> ResourceManager:
    """This process's one of these addresses: a sensor's client lasts for a tick, answers for longer."""
    return ResourceManager(addresses)


def parse_nodes(document: object) -> tuple[dict[str, YarnNode], tuple[str, ...]]:
    """Host → its node, and what couldn't be read.

    A NodeManager that was started anew on another port is a node beside its former one, which
    stays LOST: of several on a host one that runs counts, else the newest.
    """
    found: dict[str, tuple[tuple[bool, int], YarnNode]] = {}
    odd: list[str] = []
    for number, fields in enumerate(_each(document, "node")):
        host, state = _text(fields, "nodeHostName"), _text(fields, "state")
        if not host or not state:
            odd.append(f"node {host or number}: no {'state' if host else 'nodeHostName'}")
            continue
        free_mb, used_mb = _count(fields, "availMemoryMB"), _count(fields, "usedMemoryMB")
        free, used = _count(fields, "availableVirtualCores"), _count(fields, "usedVirtualCores")
        node = YarnNode(host, state, _sum(free_mb, used_mb), free_mb, _sum(free, used), free)
        rank = (state == RUNNING, _count(fields, "lastHealthUpdate") or 0)
        if host not in found or rank > found[host][0]:
            found[host] = (rank, node)
    return {host: node for host, (_, node) in sorted(found.items())}, tuple(odd)


def parse_application(document: object, name: str) -> tuple[Application | None, tuple[str, ...]]:
    """The Samza application of that name, and what couldn't be read; None: there is none.

    Samza calls it `<job.name>_<job.id>` (`YarnJob`), which two jobs may share. One that hasn't
    ended counts before one that has, then the one that was started last.
    """
    found: list[tuple[tuple[bool, int], Application]] = []
    odd: list[str] = []
    for number, fields in enumerate(_each(document, "app")):
        kind = _text(fields, "applicationType")
        if _text(fields, "name") != name or kind.lower() != _TYPE.lower():
            continue
        ident, state = _text(fields, "id"), _text(fields, "state")
        if not ident or not state:
            odd.append(f"application {ident or number}: no {'state' if ident else 'id'}")
            continue
        rpc = _text(fields, "amRPCAddress")
        application = Application(
            id=ident,
            state=state,
            final_status=_text(fields, "finalStatus"),
            diagnostics=" ".join(_text(fields, "diagnostics").split())[:_MOST_CHARACTERS],
            master_host=_text(fields, "amHostHttpAddress").rpartition(":")[0],
            rpc_address="" if rpc.endswith(":-1") or ":" not in rpc else rpc,
            tracking_url=_text(fields, "trackingUrl"),
            started_ms=_count(fields, "startedTime"),
        )
        found.append(((not application.has_ended, application.started_ms or 0), application))
    newest = max(found, key=lambda each: each[0], default=None)
    return (newest[1] if newest else None), tuple(odd)


def parse_master(document: object) -> dict[str, tuple[str, str]]:
    """Processor → YARN container and host, by the page `/am` of Samza's Application Master."""
    found: dict[str, tuple[str, str]] = {}
    for container, fields in _object(_object(document).get("containers")).items():
        processor, node = _text(fields, "container-id"), _text(fields, "yarn-address")
        if processor:
            found[processor] = (container, node.rpartition(":")[0] or node)
    return found


def parse_attempt(document: object) -> str:
    """The id of an application's newest attempt; empty where none is told."""
    attempts = (
        (_count(fields, "id") or 0, _text(fields, "appAttemptId"))
        for fields in _each(document, "appAttempt")
    )
    return max(attempts, default=(0, ""))[1]


def parse_containers(document: object) -> dict[str, str]:
    """YARN container → host; one that has ended is left out."""
    found: dict[str, str] = {}
    for fields in _each(document, "container"):
        container, node = _text(fields, "containerId"), _text(fields, "assignedNodeId")
        if container and _text(fields, "containerState") != "COMPLETE":
            found[container] = node.rpartition(":")[0] or node
    return found


def _each(document: object, kind: str) -> list[object]:
    """The `kind`s of `{"<kind>s": {"<kind>": […]}}`, or the one of `{"<kind>": {…}}`."""
    fields = _object(document)
    one = (_object(fields[f"{kind}s"]) if f"{kind}s" in fields else fields).get(kind)
    if one is None:
        return []
    return cast("list[object]", one) if isinstance(one, list) else [one]


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _text(fields: object, name: str) -> str:
    value = _object(fields).get(name)
    return value if isinstance(value, str) else ""


def _count(fields: object, name: str) -> int | None:
    """From 0 on: of a node that gave more than it has nothing is free."""
    value = _object(fields).get(name)
    return 0 if isinstance(value, int) and value < 0 else long_or_none(value)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _in_words(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
