"""Reads YARN's ResourceManager: its nodes, and the application of a Samza job.

It uses the REST API of Hadoop 2.10 and 3.3 (`/ws/v1/cluster`), and the page `/am` of Samza's own
Application Master at the address that the ResourceManager names. Reads alone. Parts that it
doesn't understand are named, and have no other effect.
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
"""YARN's state of a node that takes containers, and of an application with a master."""
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
    """A node by its NodeManager; memory is MiB, None where unknown. `state` is YARN's term."""

    host: str
    state: str
    memory_mb: int | None = None
    free_memory_mb: int | None = None
    cores: int | None = None
    free_cores: int | None = None

    @property
    def is_gone(self) -> bool:
        """Return whether YARN counts its containers as ended."""
        return self.state in _GONE


@dataclass(frozen=True)
class Application:
    """A Samza job on YARN. `state` and `final_status` are YARN's terms, times ms since the epoch.

    `master_host` is the host of its Application Master, `rpc_address` the master's `host:port`;
    both are empty without one.
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
        """Return whether nothing of it runs any more."""
        return self.state in _ENDED

    def __str__(self) -> str:
        status = f", final status {self.final_status}" if self.has_ended else ""
        why = f": {self.diagnostics}" if self.diagnostics else ""
        return f"{self.id} is {self.state}{status}{why}"


@dataclass(frozen=True)
class Cluster:
    """The report of one ResourceManager."""

    url: str
    nodes: Mapping[str, YarnNode]  # by host
    application: Application | None  # the job's; None when the ResourceManager knows none
    odd: tuple[str, ...] = ()  # names of unreadable parts


def fetch(url: str) -> bytes:
    """Return the answer to a GET; raise `OSError`, `ValueError`, `HTTPException`."""
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310 - the scheme was looked at
        return answer.read(_MOST_BYTES)


class ResourceManager:
    """Queries the first of its addresses (`http://host:port`) that answers as active.

    An answer, or its absence, holds for `HOLDS_S`, because a sensor looks twice a second.
    Thread-safe.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        fetch: Callable[[str], bytes] = fetch,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = tuple(addresses)
        self._fetch = fetch
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, tuple[str, object] | Unreachable]] = {}

    def cluster(self, job_name: str, job_id: str) -> Cluster:
        """Return everything about a job; raise `Unreachable` with the reason of each address."""
        url, said = self._answer(_NODES)
        nodes, odd = parse_nodes(said)
        _, said = self._answer(_APPLICATIONS)
        application, more = parse_application(said, f"{job_name}_{job_id}")
        return Cluster(url, nodes, application, (*odd, *more))

    def containers(self, application: Application) -> dict[str, tuple[str, str]]:
        """Return the containers of the application's own Application Master: see `parse_master`.

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
        """Return container → host for the application's newest attempt; see `parse_containers`.

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
        """Return the address that answered, and its document."""
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
            except (ValueError, RecursionError):  # a standby ResourceManager answers with a text
                said = " ".join(raw[:_MOST_CHARACTERS].decode(errors="replace").split())
                reasons.append(f"{address} is no active ResourceManager: {said[:100]}")
        return Unreachable(
            "ask YARN's ResourceManager",
            seen="; ".join(reasons),
            fix="name one that answers: yarn_resource_manager, --yarn-resource-manager",
        )


@lru_cache(maxsize=64)
def resource_manager(addresses: tuple[str, ...]) -> ResourceManager:
    """Return this process's ResourceManager of these addresses."""
    # A sensor's client lasts for a tick, the answers for longer.
    return ResourceManager(addresses)


def parse_nodes(document: object) -> tuple[dict[str, YarnNode], tuple[str, ...]]:
    """Return host → its node, and the unreadable parts."""
    # A NodeManager restarted on another port is a node beside its former one, which stays LOST. So
    # of several nodes on a host a running one counts, else the newest.
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
    """Return the Samza application of that name or None, and the unreadable parts."""
    # Samza calls it `<job.name>_<job.id>` (`YarnJob`), which two jobs may share. A running
    # application counts before an ended one, then the one that started last.
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
    """Return processor → YARN container and host, by the page `/am` of Samza's master."""
    found: dict[str, tuple[str, str]] = {}
    for container, fields in _object(_object(document).get("containers")).items():
        processor, node = _text(fields, "container-id"), _text(fields, "yarn-address")
        if processor:
            found[processor] = (container, node.rpartition(":")[0] or node)
    return found


def parse_attempt(document: object) -> str:
    """Return the id of an application's newest attempt; empty without one."""
    attempts = (
        (_count(fields, "id") or 0, _text(fields, "appAttemptId"))
        for fields in _each(document, "appAttempt")
    )
    return max(attempts, default=(0, ""))[1]


def parse_containers(document: object) -> dict[str, str]:
    """Return YARN container → host, without containers that have ended."""
    found: dict[str, str] = {}
    for fields in _each(document, "container"):
        container, node = _text(fields, "containerId"), _text(fields, "assignedNodeId")
        if container and _text(fields, "containerState") != "COMPLETE":
            found[container] = node.rpartition(":")[0] or node
    return found


def _each(document: object, kind: str) -> list[object]:
    """Return the `kind`s of `{"<kind>s": {"<kind>": […]}}`, or the one of `{"<kind>": {…}}`."""
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
    """Return a count, at least 0: nothing is free on a node that gave more than it has."""
    value = _object(fields).get(name)
    return 0 if isinstance(value, int) and value < 0 else long_or_none(value)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _in_words(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
