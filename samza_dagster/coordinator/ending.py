"""The orderly end of a job: every container is stopped, then what the cluster keeps for it is given back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from samza_dagster.cluster.interface import (
    ClusterResourceManager,
    HostResources,
    ObservedContainer,
)
from samza_dagster.errors import ActionFailed, some_of

log = logging.getLogger(__name__)
_LIVE = frozenset({"launching", "running", "stopping"})


@dataclass
class JobEnd:
    """Implements `ClusterCallbacks`: stops whatever a host tells of, and starts nothing."""

    cluster: ClusterResourceManager
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _registered: set[str] = field(default_factory=set[str])
    _live: dict[str, str] = field(default_factory=dict[str, str])
    _stopped: int = 0
    _failed: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, hosts: Iterable[str], *, lease_s: float, stop_s: float) -> int:
        """Returns how many containers were stopped, once none of the job runs.

        `hosts` may have containers. One that doesn't call within `lease_s` has none any more: nobody
        renews its lease. Raises `ActionFailed` that names what isn't dead `stop_s` after it was told.
        """
        expected, began = set(hosts), time.monotonic()
        self.cluster.start(self)
        with self._changed:
            while True:
                now = time.monotonic() - began
                absent = expected - self._registered
                if not self._live and (not absent or now > lease_s):
                    break
                if now > lease_s + stop_s:
                    break
                log.info(
                    "%d containers stopped, %d to go%s",
                    self._stopped,
                    len(self._live),
                    f"; not heard yet: {some_of(sorted(absent))}" if absent else "",
                )
                self._changed.wait(1.0)
            if self._live:
                left = [f"{eid} on {host} {self._failed.get(eid, '')}" for eid, host in self._live.items()]  # fmt: skip
                raise ActionFailed(
                    "stop every container", seen=some_of(sorted(left)), fix="run it again"
                )
            return self._stopped

    def on_host_registered(
        self, host: HostResources, containers: tuple[ObservedContainer, ...]
    ) -> None:
        """Stops each that lives."""
        with self._changed:
            self._registered.add(host.host)
            for each in containers:
                if each.state in _LIVE:
                    self._live[each.execution_id] = host.host
                    self.cluster.stop_container(each.execution_id, host.host)
            self._changed.notify_all()

    def on_container_stopped(self, execution_id: str, host: str, exit_status: int | None) -> None:
        """It was seen dead."""
        self._gone(execution_id, host)

    def on_start_failed(self, execution_id: str, host: str, why: str) -> None:
        """No process of it exists."""
        self._gone(execution_id, host)

    def on_stop_failed(self, execution_id: str, host: str, why: str) -> None:
        """It lives on, and may still end."""
        with self._changed:
            self._failed[execution_id] = why

    def on_resource_allocated(self, request_id: str, host: str) -> None:
        """What an earlier leader reserved is given back."""
        self.cluster.release_resource(request_id)

    def on_rival(self, why: str) -> None:
        """The brokers refuse its next commit, if there is one."""

    def on_host_told(self, host: str) -> None:
        """Nothing is admitted: leases end when those end that the host had before."""

    def on_host_lost(self, host: str, granted_ago_s: float) -> None:
        """Its containers end with their lease."""

    def on_request_expired(self, request_id: str, why: str) -> None:
        """Nothing was asked for."""

    def on_container_launched(self, execution_id: str, host: str, pid: int) -> None:
        """An earlier leader's start, which is being stopped."""

    def on_container_checked_in(self, execution_id: str, host: str) -> None:
        """As `on_container_launched`."""

    def _gone(self, execution_id: str, host: str) -> None:
        with self._changed:
            if self._live.pop(execution_id, None) is not None:
                self._stopped += 1
            self.cluster.forget_container(execution_id, host)
            self._changed.notify_all()
