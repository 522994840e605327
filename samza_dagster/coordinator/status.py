"""The coordinator's page `GET /status`, for people and the sandbox.

No decision uses it: state topic and agents are authoritative.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from samza_dagster.cluster.interface import HostResources
from samza_dagster.placement.condition import degraded, is_deployed, paused_for_ms
from samza_dagster.placement.failures import is_flapping
from samza_dagster.placement.ownership import older_owner
from samza_dagster.placement.state import JobState, Processor, Role


class Processes:
    """Execution id → process id, as agents reported them."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, execution_id: str, pid: int | None) -> None:
        """Remember a pid; None removes it."""
        with self._lock:
            if pid is None:
                self._pids.pop(execution_id, None)
            else:
                self._pids[execution_id] = pid

    def pid(self, execution_id: str) -> int | None:
        """Return the pid of a live incarnation, if an agent has reported it."""
        with self._lock:
            return self._pids.get(execution_id)


def _lag(state: JobState, processor: Processor, now_ms: int) -> dict[str, Any]:
    """Return `lag` of a standby that has a sample; `age_ms` is the sample's age."""
    sample = state.lags.get(processor.processor_id)
    if sample is None or processor.role is not Role.STANDBY:
        return {}
    return {
        "lag": {
            "records": sample.records,
            "ready_in_ms": sample.ready_in_ms,
            "age_ms": max(0, now_ms - sample.at_ms),
        }
    }


def status_document(
    state: JobState,
    processes: Processes,
    resources: Iterable[HostResources] = (),
    *,
    leader_epoch: int,
    counters: dict[str, int],
    now_ms: int,
) -> dict[str, Any]:
    """Return `{deployment_id, leader_epoch, deployed, degraded, hosts, processors, actions,
    queued, failovers, orphans, counters}`.

    `deployed`: all actives and all standbys run. `degraded`: processor → why, of those that
    have no place. `queued` are the requests that wait, whether their group has an action or not.
    `paused_for_ms` of a processor is how long it isn't started yet, null when it isn't paused.
    `orphans` are incarnations on silent hosts: it is unknown whether they live. While nothing
    starts because an incarnation of a deployment with other groups may own tasks,
    `starts_wait_for` is its execution id.
    """
    processors: dict[str, Any] = {}
    actions: dict[str, Any] = {}
    failovers: dict[str, Any] = {}
    orphans: list[dict[str, Any]] = []
    queued: list[dict[str, Any]] = []
    for group in state.groups.values():
        for processor in group.processors.values():
            incarnation = processor.incarnation
            execution_id = incarnation.execution_id if incarnation else None
            processors[processor.processor_id] = {
                "host": incarnation.host if incarnation else None,
                "pid": processes.pid(execution_id) if execution_id else None,
                "execution_id": execution_id,
                "mode": processor.role.value,
                "state": processor.phase.value,
                **_lag(state, processor, now_ms),
                "flapping": is_flapping(processor, now_ms, state.limits),
                "paused_for_ms": paused_for_ms(processor, now_ms),
            }
        if group.failover is not None:
            failovers[group.group_id] = {
                "active_id": group.failover.active_id,
                "standby_id": group.failover.standby_id,
                "host": group.failover.host,
                "since_ms": group.failover.since_ms,
                "why": group.failover.why,
            }
        orphans += [
            {
                "processor_id": orphan.processor_id,
                "execution_id": orphan.incarnation.execution_id,
                "host": orphan.incarnation.host,
                "lost_at_ms": orphan.lost_at_ms,
                "lease_ends_ms": orphan.lease_ends_ms,
                "ended": orphan.ended.value if orphan.ended else None,
            }
            for orphan in group.orphans
        ]
        queued += [
            {
                "uuid": ask.uuid,
                "processor_id": ask.processor_id,
                "destination": ask.destination_host,
            }
            for ask in group.queue
        ]
        if group.action is not None:
            actions[group.group_id] = {
                "uuid": group.action.ask.uuid,
                "processor_id": group.action.ask.processor_id,
                "destination": group.action.ask.destination_host,
                "stage": group.action.stage.value,
                "queued": [ask.uuid for ask in group.queue],
            }
    hosts: dict[str, dict[str, Any]] = {
        name: {"state": "alive" if host.alive else "lost"} for name, host in state.hosts.items()
    }
    for host in resources:
        hosts.setdefault(host.host, {"state": "alive"}).update(
            memory_mb=host.memory_mb,
            cores=host.cores,
            free_memory_mb=host.free_memory_mb,
            free_cores=host.free_cores,
            **({"yarn_state": host.yarn_state} if host.yarn_state else {}),
        )
    older = state.regrouped_epoch and older_owner(state.groups.values(), state.regrouped_epoch)
    return {
        **({"starts_wait_for": older} if older else {}),
        "deployment_id": state.deployment_id,
        "leader_epoch": leader_epoch,
        "deployed": is_deployed(state.groups.values()),
        "degraded": degraded(state.groups.values(), state.limits, now_ms),
        "hosts": hosts,
        "processors": processors,
        "actions": actions,
        "queued": queued,
        "failovers": failovers,
        "orphans": orphans,
        "counters": dict(counters),
    }
