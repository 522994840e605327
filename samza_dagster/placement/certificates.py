"""The audit trail of a job: a record for each start and each end, chained by hash.

A start says which of the three ways of invariant 3 allowed it, and what else was
known; `verify` checks a whole history without the cluster.
"""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring_ascii as _text

from samza_dagster.placement.record import Evolving, record

RULES_VERSION = 1
FIRST_HASH = ""


@record
class Predecessor:
    """The incarnation that owned the tasks before. `how` is a value of `state.Ended`."""

    execution_id: str
    epoch: int
    host: str
    how: str
    at_ms: int
    evidence: str


@record
class AuditRecord(Evolving):
    """A start or an end of an incarnation (`kind` "start" or "end").

    Of a start: `why` names what caused it, `predecessor` what it replaces (None for a
    processor's first), `others` the group's other members as processor → host (processes
    not known dead, orphans included), and the lag known of the standby whose place it takes;
    `left_behind` those of the group that were started on this host, have ended, and are on
    another machine than the one that bears its name now, as processor → execution id;
    `grouping` is equal for starts under which each group has the same tasks ("" of a start that
    an older release recorded); `spun_up_by` is the request that this standby was started for,
    of its first start.
    Of an end: `how` is a value of `state.Ended`, `evidence` what was seen.
    `number` counts from 1 over the job's life. `previous_hash` and `digest` chain them;
    `previous_at_ms` is when the record before was written, which stays known when that one is
    gone (None of the first, and of one that follows a record of an older release).
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
    left_behind: tuple[tuple[str, str], ...] = ()
    previous_at_ms: int | None = None
    grouping: str = ""
    spun_up_by: str = ""


def digest_of(record: AuditRecord) -> str:
    """SHA-256 of the record in canonical JSON, `digest` itself left out.

    Canonical: all fields by their names, sorted, tuples as arrays, no spaces, ASCII;
    `left_behind`, `previous_at_ms`, `grouping` and `spun_up_by` only if they say anything.
    """
    return hashlib.sha256(_canonical(record).encode()).hexdigest()


def _canonical(record: AuditRecord) -> str:
    """As `json` writes it, spelled out: every start and end is hashed within a step.

    2.9 µs against 9 µs of the encoder, 2 µs of a mean step.
    """
    predecessor = "null"
    before = record.predecessor
    if before is not None:
        predecessor = (
            f'{{"at_ms":{before.at_ms},"epoch":{before.epoch},"evidence":{_text(before.evidence)},'
            f'"execution_id":{_text(before.execution_id)},"host":{_text(before.host)},'
            f'"how":{_text(before.how)}}}'
        )
    left = f'"left_behind":[{_pairs(record.left_behind)}],' if record.left_behind else ""
    grouping = f'"grouping":{_text(record.grouping)},' if record.grouping else ""
    spun_up = f'"spun_up_by":{_text(record.spun_up_by)},' if record.spun_up_by else ""
    previous = ""
    if record.previous_at_ms is not None:
        previous = f'"previous_at_ms":{record.previous_at_ms},'
    return (
        f'{{"at_ms":{record.at_ms},"deployment_id":{_text(record.deployment_id)},'
        f'"epoch":{record.epoch},"evidence":{_text(record.evidence)},'
        f'"execution_id":{_text(record.execution_id)},"fencing":{_text(record.fencing)},'
        f'"group_id":{_text(record.group_id)},{grouping}"host":{_text(record.host)},'
        f'"how":{_text(record.how)},"kind":{_text(record.kind)},'
        f'"lag_records":{_number(record.lag_records)},{left}"number":{record.number},'
        f'"others":[{_pairs(record.others)}],"predecessor":{predecessor},'
        f'{previous}"previous_hash":{_text(record.previous_hash)},'
        f'"processor_id":{_text(record.processor_id)},'
        f'"ready_in_ms":{_number(record.ready_in_ms)},"role":{_text(record.role)},'
        f'"rules_version":{record.rules_version},{spun_up}"why":{_text(record.why)}}}'
    )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ",".join([f"[{_text(one)},{_text(other)}]" for one, other in pairs])


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
