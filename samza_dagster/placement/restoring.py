"""Restores the state from a predecessor's records.

The records are those of the state topic (`coordinator/durable.py` writes them): one for the job,
one per container group, host and remembered request. A log of events begins each term with them,
so that a replay restores the state as production does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rpds import HashTrieMap

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.codec import group_from_json, job_from_json
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.state import Group, Host, JobState

JOB = "job"
HOST, GROUP, UUID, REFUSED = "host/", "group/", "uuid/", "refused/"

Values = Mapping[str, Mapping[str, Any]]
T = TypeVar("T")


def restore(records: Values, job: str) -> JobState:
    """Return the state of the records; a new job's state when there are none.

    `job` is its name from now on: an earlier release may have recorded a name that two jobs
    share. Recorded requests and incarnations keep their ids. `records` come in order of offset,
    which is the order of the remembered requests. Raises `MalformedRecord` that names the key of
    an unknown form: a coordinator must not lead on half a state.
    """
    state = _read(records, JOB, _job) if JOB in records else JobState(job=job)
    groups = [_read(records, key, _group) for key in records if key.startswith(GROUP)]
    hosts = [_read(records, key, _host) for key in records if key.startswith(HOST)]
    return rebuilt(
        replace(
            state,
            job=job,
            groups=HashTrieMap({group.group_id: group for group in groups}),
            hosts=HashTrieMap({host.host: host for host in hosts}),
            uuids=_places(records, UUID, state.next_uuid),
            refused=_places(records, REFUSED, state.next_refused),
        )
    )


def _read(records: Values, key: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    asked, fix = "read the coordinator's state", "the samza_dagster that wrote it"
    try:
        return read(records[key])
    except KeyError as error:
        seen = f"key {key}: field {error.args[0]}: it is missing"
        raise MalformedRecord(asked, seen=seen, fix=fix) from error
    except MalformedRecord as error:
        raise MalformedRecord(asked, seen=f"key {key}: {error.seen}", fix=error.fix) from error


def _job(value: Mapping[str, Any]) -> JobState:
    return job_from_json(value["state"])


def _group(value: Mapping[str, Any]) -> Group:
    return group_from_json(value["group"])


def _host(value: Mapping[str, Any]) -> Host:
    domain = str(value.get("fault_domain", ""))
    return Host(str(value["host"]), bool(value["alive"]), fault_domain=domain)


def _places(records: Iterable[str], prefix: str, end: int) -> HashTrieMap[str, int]:
    """Return remembered requests in the order of their records, the newest just before `end`."""
    uuids = [key.removeprefix(prefix) for key in records if key.startswith(prefix)]
    return HashTrieMap({uuid: end - len(uuids) + place for place, uuid in enumerate(uuids)})
