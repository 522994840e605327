"""A history's audit trail, as an auditor gets it: read back, verified, and tampered with.

What the records of a history show is counted a second time here; each way to tamper with
them must be found, at its place, and by the rule that it breaks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.audit_codec import audit_from_json, audit_to_json
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import JobState
from samza_dagster.placement.verification import Head, Verdict, verify
from samza_dagster.simulation.judges.forged_json import forged_records
from samza_dagster.simulation.judges.forgeries import Forgery, forgeries
from samza_dagster.simulation.judges.violation import AUDIT_VERIFIES, InvariantViolated

_ODD: tuple[Any, ...] = (None, 1, True, "text", 2.5, {"no": 1}, [["one"]], [[1, "two"]], "ab")


def judge_trail(records: Sequence[AuditRecord], state: JobState) -> None:
    """The whole history verifies, and so does what age has left of it."""
    read = [_read_back(record) for record in records]
    if read != list(records):
        raise InvariantViolated(AUDIT_VERIFIES, "a record isn't read as it was written")
    head = Head(state.certificates, state.certificate_hash, state.certificate_at_ms or None)
    _judge_verdict(read, head)
    _judge_heads(read, head)
    if not read:
        return
    for first in {1, len(read) // 3, len(read) // 2, len(read) - 1} - {0, len(read)}:
        _judge_verdict(read[first:], head)
        _judge_beginning(read, first)
    middle = read[len(read) // 2]
    kept = Head(middle.number, middle.digest)
    for left in (read, read[len(read) // 2 :], read[len(read) // 2 + 1 :]):
        if (left or middle is read[-1]) and not verify(left, kept=kept if left else None).ok:
            raise InvariantViolated(AUDIT_VERIFIES, f"an earlier check's head {kept} is missed")


def judge_tampering(records: Sequence[AuditRecord]) -> int:
    """Every forgery is found; returns how many there were. Reads the history once for each."""
    count = 0
    for forgery in forgeries(records):
        count += 1
        _judge_forgery(forgery)
    for value, path in forged_records(audit_to_json(records[-1])) if records else ():
        count += 1
        _must_refuse(value, path)
    return count


def _read_back(record: AuditRecord) -> AuditRecord:
    text = json.dumps(audit_to_json(record))
    try:
        return audit_from_json(json.loads(text), f"record {record.number}")
    except MalformedRecord as error:
        raise InvariantViolated(AUDIT_VERIFIES, f"{text} is refused: {error}") from error


def _judge_verdict(records: Sequence[AuditRecord], head: Head) -> None:
    """Numbers that anybody can count."""
    verdict = verify(records, head)
    if not verdict.ok or verdict.violation is not None:
        raise InvariantViolated(AUDIT_VERIFIES, f"a true history: {verdict.violation}")
    starts: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    for record in records:
        if record.kind == "start":
            starts[record.processor_id] += 1
            ways["first" if record.predecessor is None else record.predecessor.how] += 1
    last = records[-1] if records else None
    expected = Verdict(
        records=len(records),
        first_number=records[0].number if records else None,
        head=Head(last.number, last.digest) if last else None,
        starts=dict(sorted(starts.items())),
        ways=dict(sorted(ways.items())),
    )
    if (
        verdict != expected
        or list(verdict.starts) != sorted(starts)
        or list(verdict.ways) != sorted(ways)
    ):
        raise InvariantViolated(AUDIT_VERIFIES, f"{verdict}, by count {expected}")
    if verdict.complete != (bool(records) and records[0].number == 1):
        raise InvariantViolated(AUDIT_VERIFIES, f"complete is {verdict.complete}")
    if str(head) != f"{head.number}:{head.digest}":
        raise InvariantViolated(AUDIT_VERIFIES, f"a head reads {head}")


def _judge_heads(records: Sequence[AuditRecord], head: Head) -> None:
    """An end that was cut off is found by whoever knows the head; so is an empty topic."""
    if not verify([]).ok or not verify([], Head(0, ""), since_ms=0).ok:
        raise InvariantViolated(AUDIT_VERIFIES, "no record yet isn't a violation")
    if head.number and head.at_ms is not None:
        for since_ms in (None, 0, head.at_ms):
            _expect(verify([], head, since_ms=since_ms), "retention", 0, 0)
        _expect(verify([], replace(head, at_ms=None), since_ms=head.at_ms + 1), "retention", 0, 0)
        if not verify([], head, since_ms=head.at_ms + 1).ok:
            raise InvariantViolated(AUDIT_VERIFIES, "no record left by age isn't a violation")
    _expect(verify([], kept=Head(3, "abc")), "head", 0, 0)
    if not records:
        return
    last, count = records[-1], len(records)
    other = "0" * 64
    _expect(verify(records, Head(last.number, other)), "head", count, last.number)
    _expect(verify(records, Head(last.number + 1, last.digest)), "head", count, last.number)
    _expect(verify(records, kept=Head(last.number + 1, other)), "head", count, last.number)
    first = records[0].number
    _expect(verify(records, kept=Head(first, other)), "head", 1, first)
    _expect(verify(records, kept=Head(last.number, other)), "head", count, last.number)
    _expect(verify(records, kept=Head(first - 1, "f" * 64)), "head", 1, first)
    if not verify(records, kept=Head(first - 2, other)).ok:
        raise InvariantViolated(AUDIT_VERIFIES, "an older head than what is left is no violation")
    if count > 1:
        cut = records[:-1]
        _expect(verify(cut, head), "head", count - 1, last.number - 1)
        _expect(verify(cut, kept=head), "head", count - 1, last.number - 1)


def _judge_beginning(records: Sequence[AuditRecord], first: int) -> None:
    """Records that are gone while their topic keeps what is so young."""
    at_ms, left = records[first - 1].at_ms, records[first:]
    if not verify(left, since_ms=at_ms + 1).ok:
        raise InvariantViolated(AUDIT_VERIFIES, "what aged away isn't a violation")
    if left[0].previous_at_ms is not None:
        _expect(verify(left, since_ms=at_ms), "retention", 1, left[0].number)


def _expect(verdict: Verdict, rule: str, position: int, number: int) -> None:
    found = verdict.violation
    if verdict.ok or found is None or not found.seen:
        raise InvariantViolated(AUDIT_VERIFIES, f"{rule} at {position} isn't found")
    if (found.rule.value, found.position, found.number) != (rule, position, number):
        raise InvariantViolated(
            AUDIT_VERIFIES, f"{found} instead of {rule} at {position}, record {number}"
        )


def _judge_forgery(forgery: Forgery) -> None:
    verdict = verify(forgery.records)
    found = verdict.violation
    if found is None or verdict.ok:
        raise InvariantViolated(AUDIT_VERIFIES, f"not found: {forgery.what}")
    if found.rule.value not in forgery.rules or found.position != forgery.position:
        raise InvariantViolated(
            AUDIT_VERIFIES, f"{forgery.what}: found {found}, expected at {forgery.position}"
        )
    if found.number != forgery.records[forgery.position - 1].number:
        raise InvariantViolated(AUDIT_VERIFIES, f"{forgery.what}: {found} names another record")
    for word in forgery.names:
        if word not in found.seen:
            raise InvariantViolated(
                AUDIT_VERIFIES, f"{forgery.what}: {found.seen!r} doesn't name {word}"
            )
    if sum(verdict.starts.values()) != sum(
        record.kind == "start" for record in forgery.records[: found.position - 1]
    ):
        raise InvariantViolated(AUDIT_VERIFIES, f"{forgery.what}: starts up to it are {verdict}")


def _must_refuse(value: Any, path: str) -> None:
    try:
        found = audit_from_json(value, "here")
    except MalformedRecord as refusal:
        if "here" not in refusal.seen or path not in refusal.seen:
            raise InvariantViolated(
                AUDIT_VERIFIES, f"{path} is wrong, the refusal says {refusal.seen!r}"
            ) from refusal
        return
    raise InvariantViolated(AUDIT_VERIFIES, f"{path} is wrong, and was read as {found}")


def without_digest(record: AuditRecord) -> AuditRecord:
    """What two records say apart from their place in the chain."""
    return replace(record, digest="", previous_hash="", number=0)
