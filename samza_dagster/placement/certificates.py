"""The audit trail of a job: a record for each start and each end, chained by hash.

The record of a start names the way of invariant 3 that allowed it and the evidence.
`verification.verify` checks a whole history without the cluster.
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
    """The kinds of audit records."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A start or an end of an incarnation.

    `digest` and `previous_hash` chain the records. Fields below `evidence` belong to starts,
    except `fencing`, `rules_version` and `previous_at_ms`.
    """

    number: int  # counts from 1 over the job's life
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
    why: str = ""  # the cause of a start
    how: str = ""  # a value of `state.Ended`, for an end
    evidence: str = ""  # the observation that proves an end
    fencing: Fencing = Fencing.LEASE
    # The end of the incarnation that this one replaces; None for a processor's first.
    predecessor: End | None = None
    # Other members of the group that aren't known dead, orphans included: processor, host.
    others: tuple[tuple[str, str], ...] = ()
    lag_records: int | None = None  # the lag of the standby that gives its place to this start
    ready_in_ms: int | None = None
    rules_version: int = RULES_VERSION
    # Members that started on this host, have ended, and are on another machine than the one that
    # bears the host's name now, as (processor, execution id).
    left_behind: tuple[tuple[str, str], ...] = ()
    # When the record before was written. Stays known after the topic drops that record; None for
    # the first.
    previous_at_ms: int | None = None
    grouping: str = ""  # equal for starts under which each group has the same tasks
    # The request that started this standby; set on the standby's first start alone.
    spun_up_by: str = ""


_LEFT_OUT = ("left_behind", "previous_at_ms", "grouping", "spun_up_by")
"""JSON and digest omit these fields when they are empty."""


def digest_of(record: AuditRecord) -> str:
    """Return the SHA-256 of the record in canonical JSON, without `digest` itself.

    Canonical JSON has all fields by name, sorted, tuples as arrays, no spaces, ASCII. Empty
    fields of `_LEFT_OUT` are omitted.
    """
    content = _content(record)
    del content["digest"]
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def audit_to_json(record: AuditRecord) -> dict[str, Any]:
    """Return the record as the JSON object of the audit topic and of an exported history."""
    return {"version": VERSION, **_content(record)}


def audit_from_json(value: object, where: str) -> AuditRecord:
    """Return the record that `audit_to_json` wrote.

    `where` names the record for a person (topic and offset, file and line). Raises
    `MalformedRecord` with that name, the field and the fault: an unknown version, an unknown or
    missing field, a wrong type or value. `verification` judges the content.
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
