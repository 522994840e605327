"""The job's state as records of the state topic, and back.

One record per container group, host and remembered request, one for the job itself.
A step writes the records that it changed and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samza_dagster.cluster.interface import HostResources
from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement.state import Host, JobState

LEADER, DEPLOYMENT, JOB = "leader", "deployment", "job"
HOST, GROUP, UUID = "host/", "group/", "uuid/"

Record = tuple[str, dict[str, Any] | None]


def changed(old: JobState, new: JobState, *, leader_epoch: int) -> list[Record]:
    """Key and value (None: deleted) of every record that differs between two states."""
    records: list[Record] = []
    if codec.encode_job(old) != codec.encode_job(new):
        records.append((JOB, {"state": codec.encode_job(new)}))
    for name, group in new.groups.items():
        if old.groups.get(name) != group:
            value = {"epoch": leader_epoch, "group": codec.encode_group(group)}
            records.append((GROUP + name, value))
    records += [(GROUP + name, None) for name in old.groups if name not in new.groups]
    before, after = set(old.uuids), set(new.uuids)
    records += [(UUID + uuid, {"at_ms": new.now_ms}) for uuid in new.uuids if uuid not in before]
    records += [(UUID + uuid, None) for uuid in old.uuids if uuid not in after]
    return records


def restore(records: Mapping[str, Mapping[str, Any]], job: str) -> JobState:
    """The state that the records hold; a new job's state when there are none.

    `records` come in order of offset, which is the order of the remembered requests.
    Raises `MalformedRecord` for a form that this release doesn't know: a coordinator
    must not lead on half a state.
    """
    try:
        state = codec.decode_job(records[JOB]["state"]) if JOB in records else JobState(job=job)
        return codec.with_parts(
            state,
            groups=[
                codec.decode_group(v["group"]) for k, v in records.items() if k.startswith(GROUP)
            ],
            hosts=[codec.decode_host(v) for k, v in records.items() if k.startswith(HOST)],
            uuids=tuple(k.removeprefix(UUID) for k in records if k.startswith(UUID)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedRecord("the state topic", seen=repr(error)) from error


def host_record(host: Host, resources: HostResources | None) -> Record:
    """A host as clients see it before they ask: is it there, and what has it in all."""
    value: dict[str, Any] = {**codec.encode_host(host)}
    if resources is not None:
        value |= {"memory_mb": resources.memory_mb, "cores": resources.cores}
        value |= {
            "free_memory_mb": resources.free_memory_mb,
            "free_cores": resources.free_cores,
        }
    return (HOST + host.host, value)
