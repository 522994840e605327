"""Turn the cluster's reports into events of the reducer, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.cluster.interface import HostResources, ObservedContainer
from samza_dagster.coordinator.status import Processes
from samza_dagster.placement import events


@dataclass(frozen=True)
class HostTold:
    """The end of a registration: the events before it are all that the host has."""

    host: str


@dataclass(frozen=True)
class Rival:
    """A report that another coordinator acts for this job at the cluster."""

    why: str


class ClusterEvents:
    """Implements `ClusterCallbacks`: stamps the time and hands events on.

    After a registration the cluster reports the state of each container again, so a
    coordinator that was away learns everything.
    """

    def __init__(
        self,
        emit: Callable[[events.Event | HostTold | Rival], None],
        *,
        now_ms: Callable[[], int],
        processes: Processes,
        heed_fault_domains: bool = True,
    ) -> None:
        self._heed_fault_domains = heed_fault_domains
        self._emit = emit
        self._now_ms = now_ms
        self._processes = processes

    def on_host_registered(
        self, host: HostResources, containers: tuple[ObservedContainer, ...]
    ) -> None:
        """See `ClusterCallbacks`."""
        ids = frozenset(container.execution_id for container in containers)
        domain = host.fault_domain if self._heed_fault_domains else ""
        now = self._now_ms()
        self._emit(events.HostRegistered(now, host.host, ids, domain, host.journal, host.boot_id))

    def on_host_told(self, host: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(HostTold(host))

    def on_host_lost(self, host: str, granted_ago_s: float) -> None:
        """See `ClusterCallbacks`."""
        now = self._now_ms()
        self._emit(events.HostLost(now, host, now - int(granted_ago_s * 1000)))

    def on_rival(self, why: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(Rival(why))

    def on_resource_allocated(self, request_id: str, host: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(events.ResourceAllocated(self._now_ms(), request_id, host))

    def on_request_expired(self, request_id: str, why: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(events.RequestExpired(self._now_ms(), request_id, why))

    def on_container_launched(self, execution_id: str, host: str, pid: int) -> None:
        """See `ClusterCallbacks`."""
        self._processes.note(execution_id, pid)
        self._emit(events.ContainerLaunched(self._now_ms(), execution_id, host))

    def on_container_checked_in(self, execution_id: str, host: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(events.ContainerCheckedIn(self._now_ms(), execution_id, host))

    def on_start_failed(self, execution_id: str, host: str, why: str) -> None:
        """See `ClusterCallbacks`."""
        self._processes.note(execution_id, None)
        self._emit(events.StartFailed(self._now_ms(), execution_id, host, why))

    def on_container_stopped(self, execution_id: str, host: str, exit_status: int | None) -> None:
        """See `ClusterCallbacks`."""
        self._processes.note(execution_id, None)
        self._emit(events.ContainerStopped(self._now_ms(), execution_id, host, exit_status))

    def on_stop_failed(self, execution_id: str, host: str, why: str) -> None:
        """See `ClusterCallbacks`."""
        self._emit(events.StopFailed(self._now_ms(), execution_id, host, why))
