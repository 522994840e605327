"""The audit history as an outsider reads it, and what it says of who followed whom."""

from __future__ import annotations

import json

from samza_dagster.client.audit_history import read_history
from samza_dagster.metadata.connection import Connection
from samza_dagster.placement.certificates import AuditRecord, audit_from_json
from samza_dagster.placement.verification import verify
from tests.rig.topic_records import records_of


def read_verified(connection: Connection) -> tuple[list[AuditRecord], str]:
    """All of it, by a consumer that knows nothing of ours; and what is wrong with it, or "" ."""
    history = [
        audit_from_json(json.loads(value), f"record {number}")
        for number, (_, value) in enumerate(records_of(connection, connection.audit_topic))
        if value is not None
    ]
    verdict = verify(history, read_history(connection).head)
    whole = verdict.ok and verdict.complete
    return history, "" if whole else str(verdict.violation or "incomplete")


def followers(connection: Connection, execution_id: str) -> dict[str, tuple[str, str]]:
    """Execution id of each start that this incarnation's end allowed → fencing, and how it was over."""
    return {
        record.execution_id: (record.fencing, record.predecessor.how)
        for record in read_history(connection).records
        if record.kind == "start"
        and record.predecessor is not None
        and record.predecessor.execution_id == execution_id
    }
