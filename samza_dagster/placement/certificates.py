"""The audit trail of a job: a record for each start and each end, chained by hash.

A start says which of the three ways of invariant 3 allowed it, and what else was
known; `verification.verify` checks a whole history without the cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from json import JSONEncoder
from typing import Any, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.codec import Misfit, decode, encode
from samza_dagster.placement.state import End, Fencing, Role

VERSION = 1
RULES_VERSION = 1
FIRST_HASH = ""
_CANONICAL = JSONEncoder(sort_keys=True, separators=(",", ":"))


class Kind(StrEnum):
    """What an audit record is about."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A start or an end of an incarnation.

    Of a start: `why` names what caused it, `predecessor` what it replaces (None for a
    processor's first), `others` the group's other members as processor → host (processes
    not known dead, orphans included), and the lag known of the standby whose place it takes;
    `left_behind` those of the group that were started on this host, have ended, and are on
    another machine than the one that bears its name now, as processor → execution id;
    `grouping` is equal for starts under which each group has the same tasks; `spun_up_by` is the
    request that this standby was started for, of its first start.
    Of an end: `how` is a value of `state.Ended`, `evidence` what was seen.
    `number` counts from 1 over the job's life. `previous_hash` and `digest` chain them;
    `previous_at_ms` is when the record before was written, which stays known when that one is
    gone (None of the first).
    """

    number: int
    kind: Kind
    at_ms: int
    deployment_id: str
    group_id: str
    processor_id: str
    role: Role
    execution_id: str
    epoch: int
    host: str
    previous_hash: str
    digest: str = ""
    why: str = ""
    how: str = ""
    evidence: str = ""
    fencing: Fencing = Fencing.LEASE
    predecessor: End | None = None
    others: tuple[tuple[str, str], ...] = ()
    lag_records: int | None = None
    ready_in_ms: int | None = None
    rules_version: int = RULES_VERSION
    left_behind: tuple[tuple[str, str], ...] = ()
    previous_at_ms: int | None = None
    grouping: str = ""
    spun_up_by: str = ""


_LEFT_OUT = ("left_behind", "previous_at_ms", "grouping", "spun_up_by")
"""Fields that JSON and digest are without unless they say anything."""


def digest_of(record: AuditRecord) -> str:
    """Return the SHA-256 of the record in canonical JSON, `digest` itself left out.

    Canonical: all fields by their names, sorted, tuples as arrays, no spaces, ASCII; those of
    `_LEFT_OUT` only if they say anything.
    """
    content = _content(record)
    del content["digest"]
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def audit_to_json(record: AuditRecord) -> dict[str, Any]:
    """Return the record as the JSON object of the audit topic and of an exported history."""
    return {"version": VERSION, **_content(record)}


def audit_from_json(value: object, where: str) -> AuditRecord:
    """Return the record of `audit_to_json`.

    `where` says for a person which one it is (topic and offset, file and line). Raises
    `MalformedRecord` that names it, the field, and what is wrong: an unknown version, an
    unknown or missing field, a wrong type or word. What the record means `verification` judges.
    """
    if not isinstance(value, Mapping):
        raise _malformed(where, f"{value!r:.40}, no JSON object")
    fields = dict(cast("Mapping[str, Any]", value))
    version = fields.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise _malformed(where, f"{version!r:.40} instead of {VERSION}", ", field version")
    try:
        return decode(AuditRecord, fields, "")
    except Misfit as error:
        raise _malformed(where, error.seen, f", field {error.path.removeprefix('.')}") from error


def _content(record: AuditRecord) -> dict[str, Any]:
    content = encode(record)
    for name in _LEFT_OUT:
        if content[name] in ("", [], None):
            del content[name]
    return content


def _malformed(where: str, seen: str, field: str = "") -> MalformedRecord:
    return MalformedRecord(
        "read an audit record",
        seen=f"{where}{field}: {seen}",
        fix=f"a record of version {VERSION} as this release writes it",
    )
