"""The audit trail of a job: a record for each start and each end, chained by hash.

A start says which of the three ways of invariant 3 allowed it, and what else was
known; `verify` checks a whole history without the cluster.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from operator import attrgetter
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


@dataclass(frozen=True)
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
    """SHA-256 of the record in canonical JSON, `digest` itself left out.

    Canonical: all fields by their names, sorted, tuples as arrays, no spaces, ASCII.
    """
    content: dict[str, Any] = dict(zip(_NAMES, _values_of(record), strict=True))
    predecessor = record.predecessor
    if predecessor is not None:
        content["predecessor"] = dict(
            zip(_PREDECESSOR_NAMES, _predecessor_values_of(predecessor), strict=True)
        )
    return hashlib.sha256(_encode(content).encode()).hexdigest()


# Every start and end is hashed within a step of the heart: the names are sorted once, and
# nothing is copied as `dataclasses.asdict` would.
_NAMES = tuple(sorted(field.name for field in fields(AuditRecord) if field.name != "digest"))
_PREDECESSOR_NAMES = tuple(sorted(field.name for field in fields(Predecessor)))
_values_of = attrgetter(*_NAMES)
_predecessor_values_of = attrgetter(*_PREDECESSOR_NAMES)
_encode = json.JSONEncoder(separators=(",", ":")).encode
