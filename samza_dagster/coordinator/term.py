"""One term of leadership: take over, deploy or recover, then one event after another.

Each step of the heart that changes anything is one transaction (state, responses,
localities, tombstones of taken requests); its effects leave only after the commit.
A term ends by `Fenced` (another coordinator leads: the process ends), by
`Unreachable` (the broker is away: a new term begins when it is back) or by `stop`.
Containers run on in every case.
"""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.cluster.interface import ClusterResourceManager, HostResources
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.callbacks import ClusterEvents
from samza_dagster.coordinator.deployment import Deployment, limits_of
from samza_dagster.coordinator.effects import EffectRunner, response_of
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.coordinator.ports import CoordinatorLog, RequestSource
from samza_dagster.coordinator.status import Processes, status_document
from samza_dagster.errors import Fenced, Unreachable
from samza_dagster.model import PlacementRequest
from samza_dagster.placement import commands, events
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import Host, JobState, PlacementAsk

log = logging.getLogger(__name__)


@dataclass
class Term:
    """Everything that one leader needs; made anew for every term."""

    log: CoordinatorLog
    requests: RequestSource
    cluster: ClusterResourceManager
    deployment: Deployment
    launcher: Launcher
    state: JobState
    leader_epoch: int
    now_ms: Callable[[], int]
    processes: Processes = field(default_factory=Processes)
    counters: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self._events: queue.Queue[events.Event | None] = queue.Queue()
        self._hosts_written: dict[str, tuple[Host, HostResources | None]] = {}
        self._effects = EffectRunner(self.cluster, lambda: self.launcher, self.counters)

    def stop(self) -> None:
        """Ends the term after the step in hand; safe from any thread and from a signal."""
        self._events.put(None)

    def observe(self, event: events.LagObserved) -> None:
        """Takes lag samples; safe from any thread."""
        self._events.put(event)

    def status(self) -> dict[str, Any]:
        """The document of `GET /status`."""
        document = status_document(
            self.state, self.processes, leader_epoch=self.leader_epoch, counters=self.counters
        )
        for host in self.cluster.hosts():
            document["hosts"].setdefault(host.host, {"state": "alive"}).update(
                memory_mb=host.memory_mb,
                cores=host.cores,
                free_memory_mb=host.free_memory_mb,
                free_cores=host.free_cores,
            )
        return document

    def lead(self, last_seen_hosts: Mapping[str, str], *, resumed: bool) -> None:
        """Runs until stopped; raises `Fenced` or `Unreachable`.

        Requests that were already in the stream are read before those that come
        later, so that none is missed; one that is read twice is known by its UUID.
        """
        if resumed:
            self._take(events.CoordinatorRestarted(self.now_ms()))
        else:
            self._take(
                events.JobDeployed(
                    self.now_ms(),
                    self.deployment.deployment_id,
                    self.deployment.groups(),
                    dict(last_seen_hosts),
                    limits_of(self.deployment.config),
                )
            )
        self.cluster.start(
            ClusterEvents(
                self._events.put,
                now_ms=self.now_ms,
                processes=self.processes,
            )
        )
        with self.requests.tail(self._on_request):
            self._loop()

    def _loop(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=self._seconds_to_deadline())
            except queue.Empty:
                event = events.TimePassed(self.now_ms())
            if event is None:
                return
            self._end_if_deposed()
            self._take(event)

    def _end_if_deposed(self) -> None:
        """An agent that follows a higher epoch proves that another coordinator leads."""
        if self.cluster.deposed_by is not None:
            raise Fenced(
                f"lead in epoch {self.leader_epoch}",
                seen=f"an agent follows epoch {self.cluster.deposed_by}",
                fix="end this process; the newer leader goes on",
            )

    def _seconds_to_deadline(self) -> float | None:
        due = next_deadline_ms(self.state)
        # A deadline that lies behind is looked at again soon, not in a busy loop.
        return None if due is None else max(0.05, (due - self.now_ms()) / 1000)

    def _take(self, event: events.Event) -> None:
        """One step: decide, commit, then act."""
        result = step(self.state, event)
        records = durable.changed(self.state, result.state, leader_epoch=self.leader_epoch)
        records += self._host_records(result.state)
        projections = [c for c in result.commands if isinstance(c, commands.Projection)]
        if records or projections:
            self.log.commit(records, projections)
        self.state = result.state
        for command in result.commands:
            if isinstance(command, commands.WriteResponse):
                answer = response_of(command)
                log.info(
                    "%s %s %s: %s",
                    answer.uuid,
                    answer.processor_id,
                    answer.status_code,
                    answer.response_message,
                )
            if not isinstance(command, commands.Projection):
                self._effects.run(command)

    def _on_request(self, request: PlacementRequest) -> None:
        self._events.put(
            events.RequestArrived(
                self.now_ms(),
                PlacementAsk(
                    uuid=request.uuid,
                    deployment_id=request.deployment_id,
                    processor_id=request.processor_id,
                    destination_host=request.destination_host,
                    timestamp_ms=request.timestamp,
                    expiry_ms=request.request_expiry,
                ),
                self._no_start_because(),
            )
        )

    def _no_start_because(self) -> str:
        try:
            return self.requests.no_start_because()
        except Unreachable as error:
            return f"the coordinator stream can't be read: {error.seen}; ask again"

    def _host_records(self, new: JobState) -> list[durable.Record]:
        resources = {host.host: host for host in self.cluster.hosts()}
        records: list[durable.Record] = []
        for name, host in new.hosts.items():
            seen = (host, resources.get(name))
            if self._hosts_written.get(name) != seen:
                self._hosts_written[name] = seen
                records.append(durable.host_record(host, resources.get(name)))
        return records
