"""The state as a coordinator's records hold it: what its successor reads back.

As `coordinator/durable.py` groups it: a record for the job, for each container group and
host, and one for each remembered request, all of them as JSON text.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rpds import HashTrieMap

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.codec import group_to_json, host_to_json, job_to_json
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.restoring import GROUP, HOST, JOB, REFUSED, UUID, restore
from samza_dagster.placement.state import Host, JobState
from tests.simulation.judges.violation import RECORDS_RESTORE, InvariantViolated


def passed_on(state: JobState) -> JobState:
    """What a coordinator that takes over from this state goes by.

    Raises `InvariantViolated` unless that is the state again. Lags are measured anew, and of a
    host its records keep whether it is alive and its fault domain: it has to register in any case.
    """
    hosts = {
        h.host: Host(h.host, h.alive, fault_domain=h.fault_domain) for h in state.hosts.values()
    }
    try:
        restored = restore(json.loads(json.dumps(_in_the_topic(state))), state.job)
    except MalformedRecord as error:
        raise InvariantViolated(RECORDS_RESTORE, f"refused what was written: {error}") from error
    expected = rebuilt(replace(state, hosts=HashTrieMap(hosts), lags=restored.lags))
    if restored != expected:
        raise InvariantViolated(RECORDS_RESTORE, f"restored: {restored}\nwritten: {expected}")
    return restored


def _in_the_topic(state: JobState) -> dict[str, Any]:
    """Every record of a state, the requests in order of arrival."""
    records: dict[str, Any] = {JOB: {"state": job_to_json(state)}}
    for name, group in state.groups.items():
        records[GROUP + name] = {"group": group_to_json(group)}
    for name, host in state.hosts.items():
        records[HOST + name] = host_to_json(host)
    for prefix, known in ((UUID, state.uuids), (REFUSED, state.refused)):
        for uuid in sorted(known, key=known.__getitem__):
            records[prefix + uuid] = {"at_ms": state.now_ms}
    return records
