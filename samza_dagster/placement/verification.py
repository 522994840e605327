"""Judges a job's audit history without the cluster: that it is whole, and what it shows.

Pure. A history may begin later than record 1, because its topic drops records by age;
what a rule would have to know of before isn't judged then, and `complete` says so. Each
record tells when the one before it was written, and the state when the last one was: so
what is missing at the beginning, or altogether, is known to be old enough, or it isn't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from samza_dagster.placement.audit_form import Broken, Rule
from samza_dagster.placement.audit_rules import CheckedHistory
from samza_dagster.placement.certificates import FIRST_HASH, AuditRecord, digest_of


@dataclass(frozen=True, slots=True)
class Head:
    """Number and digest of the last record, as the coordinator's state names them.

    `at_ms` is when it was written, by the leader's clock; None: a release that didn't
    keep it, or a head that a person gave. Two heads of one record are equal.
    """

    number: int
    digest: str
    at_ms: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


@dataclass(frozen=True, slots=True)
class AuditViolation:
    """The first thing that is wrong. `position` is the record's place, counted from 1."""

    position: int
    number: int
    rule: Rule
    seen: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history shows, up to its first violation.

    `starts` counts by processor, `ways` how what they replaced had ended (a value of
    `state.Ended`, or `first`). `head` is its last record: kept elsewhere, it tells later
    whether the history was cut or written anew since.
    """

    records: int
    first_number: int | None
    head: Head | None
    starts: Mapping[str, int] = field(default_factory=dict[str, int])
    ways: Mapping[str, int] = field(default_factory=dict[str, int])
    violation: AuditViolation | None = None

    @property
    def ok(self) -> bool:
        """No rule is broken."""
        return self.violation is None

    @property
    def complete(self) -> bool:
        """It begins with the job's first record."""
        return self.first_number == 1


def verify(
    records: Sequence[AuditRecord],
    head: Head | None = None,
    *,
    kept: Head | None = None,
    since_ms: int | None = None,
) -> Verdict:
    """Judges a whole history, in the order in which it was recorded.

    `head` is what the coordinator's state says of the last record, `kept` the head of an
    earlier check, which has to be among the records. Without either a history that was
    cut at its end looks like one that is younger.

    What was written at `since_ms` or later its topic must still have; None: how long it
    keeps records isn't known. Then a cut beginning passes. That no record at all is left
    of those that `head` counts passes only where all are known to be older.
    """
    history = CheckedHistory(complete=bool(records) and records[0].number == 1)
    violation: AuditViolation | None = None
    before: AuditRecord | None = None
    for position, record in enumerate(records, start=1):
        try:
            _check_chain(record, before)
            history.take(record)
        except Broken as broken:
            violation = AuditViolation(position, record.number, broken.rule, broken.seen)
            break
        before = record
    last = records[-1] if records else None
    if violation is None and records:
        violation = _beginning_missed(records[0], since_ms)
    if violation is None and head is not None:
        violation = _head_missed(last, head, len(records)) if last else _all_missed(head, since_ms)
    if violation is None and kept is not None:
        violation = _kept_missed(records, kept)
    return Verdict(
        records=len(records),
        first_number=records[0].number if records else None,
        head=Head(last.number, last.digest) if last else None,
        starts=dict(sorted(history.starts.items())),
        ways=dict(sorted(history.ways.items())),
        violation=violation,
    )


def _check_chain(record: AuditRecord, before: AuditRecord | None) -> None:
    expected = before.number + 1 if before else max(record.number, 1)
    if record.number != expected:
        raise Broken(Rule.NUMBER, f"number {record.number} where {expected} comes next")
    if before is not None and record.previous_hash != before.digest:
        raise Broken(
            Rule.CHAIN, f"follows {record.previous_hash:.12}, the one before is {before.digest:.12}"
        )
    if record.number == 1 and record.previous_hash != FIRST_HASH:
        raise Broken(Rule.CHAIN, f"the first record follows {record.previous_hash:.12}")
    if before is not None and record.previous_at_ms != before.at_ms:
        raise Broken(
            Rule.CHAIN,
            f"the one before was written at {before.at_ms}, not at {record.previous_at_ms}",
        )
    if record.number == 1 and record.previous_at_ms is not None:
        raise Broken(Rule.CHAIN, f"the first record follows one of {record.previous_at_ms}")
    content = digest_of(record)
    if record.digest != content:
        raise Broken(Rule.DIGEST, f"digest {record.digest:.12}, what it says has {content:.12}")


def _beginning_missed(first: AuditRecord, since_ms: int | None) -> AuditViolation | None:
    at_ms = first.previous_at_ms
    if at_ms is None or since_ms is None or at_ms < since_ms:
        return None
    return AuditViolation(
        1,
        first.number,
        Rule.RETENTION,
        f"record {first.number - 1}, written at {at_ms}, isn't there, and the topic keeps "
        f"what was written since {since_ms}",
    )


def _all_missed(head: Head, since_ms: int | None) -> AuditViolation | None:
    if head.number == 0:
        return None
    if since_ms is None or head.at_ms is None:
        why = "that the topic keeps none so old isn't known"
    elif head.at_ms >= since_ms:
        why = f"written at {head.at_ms}, and the topic keeps what was written since {since_ms}"
    else:
        return None
    seen = f"no record is there, the coordinator's state names record {head.number}, {why}"
    return AuditViolation(0, 0, Rule.RETENTION, seen)


def _head_missed(last: AuditRecord, head: Head, records: int) -> AuditViolation | None:
    found = Head(last.number, last.digest)
    if found == head:
        return None
    return AuditViolation(
        records,
        found.number,
        Rule.HEAD,
        f"it ends with record {found.number} ({found.digest:.12}), the coordinator's state "
        f"names record {head.number} ({head.digest:.12})",
    )


def _kept_missed(records: Sequence[AuditRecord], kept: Head) -> AuditViolation | None:
    """Called for records that are numbered without a gap."""
    last = records[-1].number if records else 0
    if kept.number > last:
        seen = f"it ends with record {last}, an earlier check saw record {kept.number}"
        return AuditViolation(len(records), last, Rule.HEAD, seen)
    if not records:
        return None  # there was none either
    place = kept.number - records[0].number
    if place == -1 and records[0].previous_hash != kept.digest:
        seen = f"follows {records[0].previous_hash:.12}, an earlier check saw {kept.digest:.12}"
        return AuditViolation(1, records[0].number, Rule.HEAD, seen)
    if place < 0 or records[place].digest == kept.digest:
        return None  # older than what is left, or as it was
    return AuditViolation(
        place + 1,
        kept.number,
        Rule.HEAD,
        f"digest {records[place].digest:.12}, an earlier check saw {kept.digest:.12}",
    )
