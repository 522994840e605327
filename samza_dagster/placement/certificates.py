"""The audit trail of a job: a record for each start and each end, chained by hash.

A start says which of the three ways of invariant 3 allowed it, and what else was
known; `verify` checks a whole history without the cluster.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

RULES_VERSION = 1
FIRST_HASH = ""


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The incarnation that owned the tasks before. `how` is a value of `state.Ended`."""

    execution_id: str
    epoch: int
    host: str
    how: str
    at_ms: int
    evidence: str


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A start or an end of an incarnation (`kind` "start" or "end").

    Of a start: `why` names what caused it, `predecessor` what it replaces (None for a
    processor's first), `others` the group's other members as processor → host (processes
    not known dead, ghosts included), and the lag known of the standby whose place it takes.
    Of an end: `how` is a value of `state.Ended`, `evidence` what was seen.
    `number` counts from 1 over the job's life. `previous_hash` and `digest` chain them.
    """

    number: int
    kind: str
    at_ms: int
    deployment_id: str
    group_id: str
    processor_id: str
    role: str
    execution_id: str
    epoch: int
    host: str
    previous_hash: str
    digest: str = ""
    why: str = ""
    how: str = ""
    evidence: str = ""
    fencing: str = ""
    predecessor: Predecessor | None = None
    others: tuple[tuple[str, str], ...] = ()
    lag_records: int | None = None
    ready_in_ms: int | None = None
    rules_version: int = RULES_VERSION


def digest_of(record: AuditRecord) -> str:
    """SHA-256 of the record in canonical JSON, `digest` itself left out."""
    fields: dict[str, Any] = asdict(record)
    fields.pop("digest")
    return hashlib.sha256(
        json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
