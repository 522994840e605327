"""What is read back of a job: its state by a successor, its audit trail by whoever verifies it.

As `coordinator/durable.py` groups it: a record for the job, for each container group and
host, and one for each remembered request, all of them as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rpds import HashTrieMap

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.certificates import AuditRecord, audit_from_json, audit_to_json
from samza_dagster.placement.codec import group_to_json, host_to_json, job_to_json
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.restoring import GROUP, HOST, JOB, REFUSED, UUID, restore
from samza_dagster.placement.state import Host, JobState
from samza_dagster.placement.verification import Head, verify
from tests.simulation.judges.violation import (
    AUDIT_VERIFIES,
    RECORDS_RESTORE,
    InvariantViolated,
)


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


def judge_index(state: JobState) -> None:
    """A coordinator that reads the state back has the same index. Costs as much as the whole job."""
    known, anew = state.index, rebuilt(state).index
    for name, found, expected in zip(known._fields, known, anew, strict=True):
        if not found == expected:  # of equal maps of rpds `!=` is true, too
            raise InvariantViolated(RECORDS_RESTORE, f"index.{name} is {found}, anew {expected}")


def judge_trail(records: Sequence[AuditRecord], state: JobState) -> None:
    """The whole trail verifies up to the state's own head, and so does what age has left of it."""
    read = [_read_back(record) for record in records]
    if read != list(records):
        raise InvariantViolated(AUDIT_VERIFIES, "a record isn't read as it was written")
    head = Head(state.certificates, state.certificate_hash, state.certificate_at_ms or None)
    for first in sorted({0, 1, len(read) // 3, len(read) // 2, len(read) - 1} - {len(read)}):
        verdict = verify(read[max(first, 0) :], head)
        if not verdict.ok:
            raise InvariantViolated(AUDIT_VERIFIES, f"a true history: {verdict.violation}")


def _read_back(record: AuditRecord) -> AuditRecord:
    text = json.dumps(audit_to_json(record))
    try:
        return audit_from_json(json.loads(text), f"record {record.number}")
    except MalformedRecord as error:
        raise InvariantViolated(AUDIT_VERIFIES, f"{text} is refused: {error}") from error
