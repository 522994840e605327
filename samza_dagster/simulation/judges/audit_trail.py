"""A history's audit trail as an auditor gets it: read back, and verified whole and cut by age.

That the verifier finds what was tampered with is shown beside it (`tests/unit/placement`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.audit_codec import audit_from_json, audit_to_json
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import JobState
from samza_dagster.placement.verification import Head, verify
from samza_dagster.simulation.judges.violation import AUDIT_VERIFIES, InvariantViolated


def judge_trail(records: Sequence[AuditRecord], state: JobState) -> None:
    """The whole history verifies up to the state's own head, and so does what age has left."""
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
