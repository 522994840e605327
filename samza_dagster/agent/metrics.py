"""Metrics of a host's agent for Prometheus, at an address of its own.

Standalone processors use it, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from samza_dagster.agent.incarnation import DEAD, FAILED, LAUNCHING, RUNNING, STOPPING
from samza_dagster.agent.link import CoordinatorLink
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor
from samza_dagster.version import __version__

LOG = logging.getLogger("samza_dagster.agent")
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_PREFIX = "samza_dagster_agent_"
_STATES = (LAUNCHING, RUNNING, STOPPING, DEAD, FAILED)
_MIB = 1024 * 1024


class Metric(NamedTuple):
    """A family: its samples are pairs of labels beside those that all have and a value.

    `counting_since_s` is when a counter was 0, in seconds of the epoch.
    """

    family: str
    kind: str
    text: str
    samples: List[Tuple[str, float]]
    counting_since_s: float = 0.0

    @property
    def name(self) -> str:
        """Return the name of its samples."""
        return self.family + {"counter": "_total", "info": "_info"}.get(self.kind, "")


class Seen(NamedTuple):
    """An agent at one time; `lease_left_s` is None where it has no lease."""

    ledger: ResourceLedger
    states: Dict[str, int]
    parked: int
    ended: Dict[bool, int]
    lease_left_s: Optional[float] = None
    silent_s: float = 0.0
    highest_epoch: int = 0
    syncs: int = 0
    failed_syncs: int = 0
    counting_since_s: float = 0.0


def seen(
    supervisor: Supervisor, link: CoordinatorLink, monotonic: Callable[[], float] = time.monotonic
) -> Seen:
    """Return the agent's state now."""
    with supervisor.roster.changed:
        return Seen(
            supervisor.holdings.ledger,
            Counter(found.state for found in supervisor.roster.incarnations.values()),
            len(supervisor.roster.lot.parked),
            dict(supervisor.watch.ended),
            supervisor.lease.left_s(),
            max(0.0, monotonic() - link.heard_at),
            link.highest_epoch,
            link.syncs,
            link.failed_syncs,
            link.counting_since_s,
        )


def metrics_of(look: Seen) -> List[Metric]:
    """Return every family, those without a sample too. Pure."""

    def gauge(name: str, text: str, value: Optional[float]) -> Metric:
        return Metric(_PREFIX + name, "gauge", text, [] if value is None else [("", value)])

    def counter(name: str, text: str, samples: List[Tuple[str, float]]) -> Metric:
        return Metric(_PREFIX + name, "counter", text, samples, look.counting_since_s)

    return [
        Metric(
            _PREFIX + "build",
            "info",
            "the agent's release",
            [('version="{}"'.format(__version__), 1)],
        ),
        Metric(
            _PREFIX + "containers",
            "gauge",
            "incarnations on record by state; parked: launched ahead of its start",
            [
                *(('state="{}"'.format(state), look.states.get(state, 0)) for state in _STATES),
                ('state="parked"', look.parked),
            ],
        ),
        counter(
            "container_ends",
            "incarnations that ended, by whether that was asked for",
            [('asked="{}"'.format(k), look.ended.get(k == "yes", 0)) for k in ("yes", "no")],
        ),
        gauge(
            "memory_bytes", "memory that the host has for containers", look.ledger.memory_mb * _MIB
        ),
        gauge("free_memory_bytes", "memory that nobody holds", look.ledger.free_memory_mb * _MIB),
        gauge("cores", "cores that the host has for containers", look.ledger.cores),
        gauge("free_cores", "cores that nobody holds", look.ledger.free_cores),
        gauge(
            "lease_left_seconds",
            "until the containers of this host end, unless a coordinator renews their lease",
            look.lease_left_s,
        ),
        gauge(
            "coordinator_silence_seconds",
            "since a coordinator's last answer that could be used, or since the agent began",
            look.silent_s,
        ),
        gauge("leader_epoch", "the highest epoch that a coordinator has shown", look.highest_epoch),
        counter("syncs", "answers of a coordinator that were taken", [("", look.syncs)]),
        counter(
            "failed_syncs",
            "asks of a coordinator without an answer that could be used",
            [("", look.failed_syncs)],
        ),
    ]


def render(labels: Dict[str, str], metrics: List[Metric]) -> bytes:
    """Return the page in OpenMetrics text.

    Every sample has these labels, empty families are left out.
    """
    lines: List[str] = []
    shared = ['{}="{}"'.format(*each) for each in zip(labels, map(_escaped, labels.values()))]
    for metric in metrics:
        if not metric.samples:
            continue
        family = metric.family
        lines += [
            "# HELP {} {}".format(family, metric.text),
            "# TYPE {} {}".format(family, metric.kind),
        ]
        for own, value in metric.samples:
            every = ",".join(filter(None, (*shared, own)))
            lines.append("{}{{{}}} {}".format(metric.name, every, value))
            if metric.kind == "counter":
                lines.append("{}_created{{{}}} {}".format(family, every, metric.counting_since_s))
    return ("\n".join([*lines, "# EOF"]) + "\n").encode("utf-8")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def address_of(text: str) -> Tuple[str, int]:
    """Parse `host:port`; raises `ValueError` for another text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("{!r} is no host:port".format(text))
    return host.strip("[]"), int(port)


def offer(address: Tuple[str, int], page: Callable[[], bytes]) -> None:
    """Serve the page, or log why not: containers don't depend on it."""
    try:
        serve(address, page)
    except OSError as error:
        LOG.warning("no metrics at %s:%s: %s", *address, error)


def serve(address: Tuple[str, int], page: Callable[[], bytes]) -> ThreadingHTTPServer:
    """Serve `page` at `/metrics` from a thread of its own.

    Raises `OSError` where nothing can listen.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = page()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server has it
            """Log nothing: a scrape every few seconds would fill the log."""

    server = ThreadingHTTPServer(address, Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
