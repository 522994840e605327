"""The job's state as records of the state topic; `placement/restoring.py` reads them back.

There is one record per container group, host and remembered request, and one for the job itself.
A step writes the records that it changed and no other. Requests of our own and their
answers are in the same topic and no part of the state (`metadata/own_requests.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from samza_dagster.cluster.interface import HostResources
from samza_dagster.metadata import state_topic
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import RESPONSE_PREFIX, response_value
from samza_dagster.placement.codec import group_to_json, job_to_json
from samza_dagster.placement.restoring import GROUP, HOST, JOB, REFUSED, UUID
from samza_dagster.placement.state import Host, JobState

LEADER, DEPLOYMENT = state_topic.LEADER, state_topic.DEPLOYMENT
Record = tuple[str, dict[str, Any] | None]


def shown_ms(records: Mapping[str, Mapping[str, Any]], stored: JobState) -> int:
    """Return the latest time of a leader's clock by the state topic."""
    beat_ms = records.get(LEADER, {}).get("beat_ms")
    known_ms = max(stored.now_ms, stored.certificate_at_ms)
    return max(known_ms, beat_ms) if isinstance(beat_ms, int) else known_ms


def touched_groups(old: JobState, new: JobState) -> list[str]:
    """Return the names of the groups that a step has added, removed or changed, in order."""
    if old.groups is new.groups:
        return []
    put = [name for name, group in new.groups.items() if old.groups.get(name) is not group]
    return sorted([*put, *(name for name in old.groups if name not in new.groups)])


def changed(
    old: JobState, new: JobState, *, leader_epoch: int, touched: Iterable[str] | None = None
) -> list[Record]:
    """Return key and value (None: deleted) of every record that differs between two states.

    `touched` are the groups to look at, when that is known.
    """
    records: list[Record] = []
    # The time of the last event changes with every step; restoring needs none of it.
    if job_to_json(replace(old, now_ms=0)) != job_to_json(replace(new, now_ms=0)):
        records.append((JOB, {"state": job_to_json(new)}))
    for name in touched_groups(old, new) if touched is None else touched:
        group = new.groups.get(name)
        if group is None:
            records.append((GROUP + name, None))
        elif old.groups.get(name) != group:
            value = {"epoch": leader_epoch, "group": group_to_json(group)}
            records.append((GROUP + name, value))
    at_ms = new.now_ms
    if (first := old.next_uuid) != (end := new.next_uuid):
        arrived = range(first, end), new.index.uuid_order
        forgotten = range(first - len(old.uuids), end - len(new.uuids)), old.index.uuid_order
        records += _memory(UUID, at_ms, arrived, forgotten)
    if (first := old.next_refused) != (end := new.next_refused):
        arrived = range(first, end), new.index.refused_order
        forgotten = range(first - len(old.refused), end - len(new.refused)), old.index.refused_order
        records += _memory(REFUSED, at_ms, arrived, forgotten)
    return records


_Places = tuple[range, Mapping[int, str]]


def _memory(prefix: str, at_ms: int, arrived: _Places, forgotten: _Places) -> list[Record]:
    """Return records of newly remembered requests, and deletions of forgotten ones."""
    places, order = arrived
    records: list[Record] = [(prefix + order[n], {"at_ms": at_ms}) for n in places if n in order]
    places, order = forgotten
    return records + [(prefix + order[n], None) for n in places if n in order]


def response_record(response: PlacementResponse) -> Record:
    """Return the record of the answer to a request of our own."""
    return (f"{RESPONSE_PREFIX}{response.uuid}", response_value(response))


def host_record(host: Host, resources: HostResources | None) -> Record:
    """Return the record of a host for clients: its state and its resources in all."""
    value: dict[str, Any] = {
        "host": host.host,
        "alive": host.alive,
        "fault_domain": host.fault_domain,
    }
    if resources is not None:
        value |= {"memory_mb": resources.memory_mb, "cores": resources.cores}
        value |= {
            "free_memory_mb": resources.free_memory_mb,
            "free_cores": resources.free_cores,
        }
        if resources.yarn_state:
            value["yarn_state"] = resources.yarn_state
    return (HOST + host.host, value)


class HostRecords:
    """A memory of each host's last record, so that only changes are written again."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[Host, HostResources | None]] = {}

    def changed(self, state: JobState, resources: Iterable[HostResources]) -> list[Record]:
        """Return the records of hosts that differ from the last written ones."""
        by_name = {host.host: host for host in resources}
        records: list[Record] = []
        for name, host in state.hosts.items():
            seen = (host, by_name.get(name))
            if self._written.get(name) != seen:
                self._written[name] = seen
                records.append(host_record(host, by_name.get(name)))
        return records
