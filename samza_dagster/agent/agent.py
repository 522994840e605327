"""The agent of one host: serves its containers, watches them, talks to the coordinator.

Ended by SIGTERM or killed, it leaves its containers alone: they live on their wardens and
their lease, and the next agent of the same directory adopts them.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Tuple

from samza_dagster.agent import (
    container_log,
    container_server,
    hosts_file,
    metrics,
    procfs,
    program,
)
from samza_dagster.agent.files import read_json, write_json
from samza_dagster.agent.link import CoordinatorLink
from samza_dagster.agent.parking import PARKED_S
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor
from samza_dagster.version import __version__

LOG = logging.getLogger("samza_dagster.agent")
_END_S = 3.0
"""An agent that is told to end has ended by then, or is killed."""


class AgentSettings(NamedTuple):
    """Settings that an agent starts with."""

    host: str
    directory: Path
    state_dir: Path
    memory_mb: int
    cores: int
    coordinator_url_file: Path
    token_file: Path
    longest_lease_s: float = 3600.0
    fault_domain: str = ""
    parked_s: float = PARKED_S
    container_log_mb: int = container_log.KEPT_MB
    metrics_listen: Optional[Tuple[str, int]] = None


class AlreadyRunning(Exception):
    """Another agent has the directory."""


class ThreadDied(Exception):
    """A thread that an agent can't do without has ended; its text names it."""


class Threads:
    """Threads that run for the life of the agent. `on_death` is called when one ends."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self.died: Optional[str] = None
        self._on_death = on_death

    def start(self, target: Callable[[], None], name: str) -> None:
        """Run `target` in a thread of its own."""
        threading.Thread(target=self._run, args=(target, name), name=name, daemon=True).start()

    def _run(self, target: Callable[[], None], name: str) -> None:
        try:
            target()
        except Exception:
            LOG.exception("the thread %s", name)
        finally:
            self.died = self.died or name
            self._on_death()


def run(settings: AgentSettings) -> None:
    """Run an agent until SIGTERM or SIGINT.

    Raises `AlreadyRunning`, `program.Replaced` and `ThreadDied`.

    In a container of the cluster's engine it ends another agent that has the directory: the engine
    may have lost sight of that one, which then calls a coordinator that leads no more, for ever.
    """
    directory = settings.directory
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    other = running(directory)
    if other is not None and "CONTAINER_ID" in os.environ:
        LOG.warning("another agent, pid %s, has %s: it is ended", other.pid, directory)
        _end(procfs.ProcessHandle(other))
    lock = _claim(directory)
    wardens = program.of_wardens(directory)
    program.keep_source()
    kept = read_json(directory / "port.json") or {}
    port = kept.get("port")
    server = container_server.bind(port if isinstance(port, int) else None)
    bound: int = server.server_address[1]
    write_json(directory / "port.json", {"version": 1, "port": bound})
    if port is not None and port != bound:
        LOG.warning("port %s is taken, containers that run know no other; now %s", port, bound)
    if not hosts_file.write(directory / "hosts", settings.host):
        LOG.warning("no address but loopback: containers report %s as host", os.uname().nodename)
    supervisor = Supervisor(
        directory,
        settings.state_dir,
        settings.host,
        ResourceLedger(settings.memory_mb, settings.cores),
        url_of=lambda execution_id: "http://127.0.0.1:{}/c/{}/".format(bound, execution_id),
        parked_s=settings.parked_s,
        wardens=wardens,
    )
    supervisor.adopt()
    server.gate = supervisor.gate
    link = CoordinatorLink(
        supervisor,
        url_file=settings.coordinator_url_file,
        token_file=settings.token_file,
        longest_lease_s=settings.longest_lease_s,
        fault_domain=settings.fault_domain,
    )
    if settings.metrics_listen is not None:
        metrics.offer(
            settings.metrics_listen,
            lambda: metrics.render(
                {"host": settings.host}, metrics.metrics_of(metrics.seen(supervisor, link))
            ),
        )
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        supervisor.watch.wake()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def keep_logs() -> None:
        container_log.keep_bounded(directory / "incarnations", settings.container_log_mb)

    threads = Threads(on_death=stop)
    for target, name in (
        (server.serve_forever, "containers"),
        (link.poll, "poll"),
        (link.push, "push"),
        (link.watch_url, "url"),
        (keep_logs, "logs"),
    ):
        threads.start(target, name)
    supervisor.holds.listen()
    threads.start(supervisor.holds.serve, "holds")
    me = procfs.name_of(os.getpid())
    assert me is not None  # this process runs
    write_json(
        directory / "agent.json",
        {
            "version": 1,
            "program": __version__,
            "host": settings.host,
            "port": bound,
            "agent": me.to_json(),
        },
    )
    LOG.info(
        "agent %s of %s, pid %s, containers ask port %s",
        *(__version__, settings.host, os.getpid(), bound),
    )
    supervisor.watch.run(stopping.is_set)
    if threads.died is not None:
        raise ThreadDied(threads.died)
    LOG.info("agent of %s ends, its containers run on", settings.host)
    os.close(lock)


def _end(agent: procfs.ProcessHandle) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        agent.send(number)
        if agent.wait(_END_S):
            return


def _claim(directory: Path) -> int:
    descriptor = os.open(str(directory / "agent.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyRunning(str(directory)) from None
    return descriptor


def running(directory: Path) -> Optional[procfs.ProcessName]:
    """Return the live agent of the directory, or None."""
    name = procfs.ProcessName.from_json((read_json(directory / "agent.json") or {}).get("agent"))
    return name if name is not None and name.is_alive() else None
