"""Judges a job's audit history without the cluster: whether it is whole, and what it shows.

Pure. A history may begin later than record 1, because its topic drops records by age. A rule
isn't judged where it would need earlier records, and `complete` is then False. Each record has
the time of the one before, and the state has the time of the last. So a missing record is either
known to be old enough, or not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from samza_dagster.placement.certificates import (
    FIRST_HASH,
    RULES_VERSION,
    AuditRecord,
    Kind,
    digest_of,
)
from samza_dagster.placement.state import End, Ended, Fencing, Role

CLOCKS_DIFFER_MS = 3_600_000
"""The assumed bound on the difference of the clocks of leaders, brokers and readers."""
_LEASE_ENDED = re.compile(r"its lease ended at (-?\d+), it is (-?\d+)")
_OF_A_START = ("predecessor", "left_behind", "grouping", "spun_up_by")
_NEEDED = ("execution_id", "host", "processor_id", "group_id")
_IDENTITY = ("processor_id", "group_id", "role", "epoch", "host")
_WAYS = frozenset(Ended)
_NO_PREDECESSOR = "first"


class Rule(StrEnum):
    """The rules that a record may break."""

    NUMBER = "number"  # counted by one, in order
    CHAIN = "chain"  # names the digest of the record before it
    DIGEST = "digest"  # is the hash of the record's content
    RULES_VERSION = "rules-version"  # written by rules that this release knows
    FORM = "form"  # has fields that a start or an end of its group's member can have
    EPOCH = "epoch"  # grows with every start of the job
    EXECUTION = "execution"  # every incarnation starts once
    PREDECESSOR = "predecessor"  # names the processor's incarnation before, by its recorded end
    ONE_OWNER = "one-owner"  # no incarnation starts before its predecessor has ended
    REGROUPED = "regrouped"  # where tasks changed groups, none starts before the earlier have ended
    SAME_HOST = "same-host"  # no member of a group where another isn't known dead, or left behind
    TIME = "time"  # dated after its predecessor, within the clocks' bound
    OTHERS = "others"  # the group's other members, as the history has them
    ENDS = "ends"  # of a known start, and once dead
    HEAD = "head"  # the last record is the one that the coordinator's state names
    RETENTION = "retention"  # every record that the topic still has to keep is there


_Found = tuple[Rule, str]


@dataclass(frozen=True, slots=True)
class Head:
    """Number and digest of the last record, from the coordinator's state.

    Two heads of one record are equal.
    """

    number: int
    digest: str
    # The leader's time of writing; None from a release without it, or from a person's head.
    at_ms: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


@dataclass(frozen=True, slots=True)
class AuditViolation:
    """The first violation of a history. `position` is the record's place, counted from 1."""

    position: int
    number: int
    rule: Rule
    seen: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The content of a history up to its first violation."""

    records: int
    first_number: int | None
    # The last record; kept elsewhere, it shows later whether the history was cut or rewritten.
    head: Head | None
    starts: Mapping[str, int] = field(default_factory=dict[str, int])  # by processor
    # How the replaced incarnations had ended: a value of `state.Ended`, or `first`.
    ways: Mapping[str, int] = field(default_factory=dict[str, int])
    violation: AuditViolation | None = None

    @property
    def ok(self) -> bool:
        """Return whether no rule is broken."""
        return self.violation is None

    @property
    def complete(self) -> bool:
        """Return whether the history begins with the job's first record."""
        return self.first_number == 1


def verify(
    records: Sequence[AuditRecord],
    head: Head | None = None,
    *,
    kept: Head | None = None,
    since_ms: int | None = None,
) -> Verdict:
    """Judge a whole history, in the order of its recording.

    `head` is the last record by the coordinator's state, `kept` the head of an earlier check,
    which has to be among the records. Without either, a history that was cut at its end looks
    like a younger one.

    Its topic must still have every record written at `since_ms` or later; None: the topic's
    retention is unknown, and a cut beginning passes. An empty history passes only if all records
    that `head` counts are known to be older.
    """
    history = _History(complete=bool(records) and records[0].number == 1)
    found = next(_violations(records, history, head, kept, since_ms), None)
    return Verdict(
        records=len(records),
        first_number=records[0].number if records else None,
        head=Head(records[-1].number, records[-1].digest) if records else None,
        starts=dict(sorted(history.starts.items())),
        ways=dict(sorted(history.ways.items())),
        violation=found,
    )


def _violations(
    records: Sequence[AuditRecord],
    history: _History,
    head: Head | None,
    kept: Head | None,
    since_ms: int | None,
) -> Iterator[AuditViolation]:
    """Yield the violations. Only the first counts, because later checks trust earlier records."""
    before: AuditRecord | None = None
    for position, record in enumerate(records, start=1):
        for rule, seen in (*_chain(record, before), *_form(record)):
            yield AuditViolation(position, record.number, rule, seen)
        for rule, seen in history.follow(record):
            yield AuditViolation(position, record.number, rule, seen)
        before = record
    if records:
        yield from _missing_ends(records, head, since_ms)
    elif head is not None and head.number:
        why = "that the topic keeps none so old isn't known"
        if since_ms is not None and head.at_ms is not None:
            why = f"written at {head.at_ms}, and the topic keeps what was written since {since_ms}"
        if since_ms is None or head.at_ms is None or head.at_ms >= since_ms:
            seen = f"no record is there, the coordinator's state names record {head.number}, {why}"
            yield AuditViolation(0, 0, Rule.RETENTION, seen)
    if kept is not None:
        yield from _changed_since(records, kept)


def _missing_ends(
    records: Sequence[AuditRecord], head: Head | None, since_ms: int | None
) -> Iterator[AuditViolation]:
    """Yield the records that are missing before the first and after the last."""
    first, last = records[0], Head(records[-1].number, records[-1].digest)
    at_ms = first.previous_at_ms
    if at_ms is not None and since_ms is not None and at_ms >= since_ms:
        seen = (
            f"record {first.number - 1}, written at {at_ms}, isn't there, and the topic keeps "
            f"what was written since {since_ms}"
        )
        yield AuditViolation(1, first.number, Rule.RETENTION, seen)
    if head is not None and head != last:
        seen = (
            f"it ends with record {last.number} ({last.digest:.12}), the coordinator's state "
            f"names record {head.number} ({head.digest:.12})"
        )
        yield AuditViolation(len(records), last.number, Rule.HEAD, seen)


def _changed_since(records: Sequence[AuditRecord], kept: Head) -> Iterator[AuditViolation]:
    """Yield a violation when the record of an earlier check is missing or changed."""
    # A record that is older than the whole history passes. The records have no gap.
    last = records[-1].number if records else 0
    if kept.number > last:
        seen = f"it ends with record {last}, an earlier check saw record {kept.number}"
        yield AuditViolation(len(records), last, Rule.HEAD, seen)
    elif records:
        first = records[0]
        digests = [first.previous_hash, *(record.digest for record in records)]
        place = kept.number - first.number + 1
        if place >= 0 and digests[place] != kept.digest:
            seen = f"digest {digests[place]:.12}, an earlier check saw {kept.digest:.12}"
            number = max(kept.number, first.number)
            yield AuditViolation(max(place, 1), number, Rule.HEAD, seen)


def _chain(record: AuditRecord, before: AuditRecord | None) -> Iterator[_Found]:
    expected = before.number + 1 if before else max(record.number, 1)
    if record.number != expected:
        yield Rule.NUMBER, f"number {record.number} where {expected} comes next"
    found = (record.previous_hash, record.previous_at_ms)
    if before is not None:
        due = (before.digest, before.at_ms)
    else:
        due = (FIRST_HASH, None) if record.number == 1 else found
    if found != due:
        was = f"the one before is {due[0]:.12} of {due[1]}"
        yield Rule.CHAIN, f"follows {found[0]:.12} of {found[1]}, {was}"
    content = digest_of(record)
    if record.digest != content:
        yield Rule.DIGEST, f"digest {record.digest:.12}, what it says has {content:.12}"


def _form(record: AuditRecord) -> Iterator[_Found]:
    """Yield fields that no release would write, whatever came before."""
    if record.rules_version != RULES_VERSION:
        known = f"this release knows {RULES_VERSION}"
        yield Rule.RULES_VERSION, f"{record.rules_version}; {known}"
    wrong = [name for name in _NEEDED if not getattr(record, name)]
    if record.kind == Kind.END:
        wrong += [name for name in _OF_A_START if getattr(record, name)]
        if not _is_end(record.how, record.at_ms, record.evidence):
            wrong += ["how", "evidence"]
        # A deployment or a term without fencing gives up a fence that is under way.
        if record.how == Ended.FENCED and record.fencing != Fencing.BROKER:
            wrong += ["how", "fencing"]
    elif record.how:
        wrong.append("how")
    # A group is named for its active.
    if (record.role == Role.ACTIVE) != (record.processor_id == record.group_id):
        wrong += ["role", "processor_id", "group_id"]
    if record.epoch <= 0:
        wrong.append("epoch")
    if wrong:
        told = ", ".join(f"{name} {str(getattr(record, name))!r}" for name in wrong)
        yield Rule.FORM, f"{told} in a record of kind {str(record.kind)!r}"


def _is_end(how: str, at_ms: int, evidence: str) -> bool:
    """Return whether this is a known way to end, with evidence."""
    # The evidence of a lease is that it had run out by the time of its end.
    if how != Ended.LEASE:
        return how in _WAYS and bool(evidence)
    said = _LEASE_ENDED.fullmatch(evidence)
    return said is not None and int(said[1]) <= int(said[2]) == at_ms


@dataclass(slots=True)
class _Life:
    """An incarnation: its start, and its ends in order, an end by death last."""

    start: AuditRecord
    ends: list[End] = field(default_factory=list[End])

    def __str__(self) -> str:
        return f"{self.start.execution_id} on {self.start.host}"


@dataclass(slots=True)
class _History:
    """The content of the records so far."""

    complete: bool  # the history began with the job's first record
    starts: Counter[str] = field(default_factory=Counter[str])
    ways: Counter[str] = field(default_factory=Counter[str])
    # Lives by execution id; the newest by processor; those not seen dead by group; those that
    # may own tasks by the grouping of their start.
    _lives: dict[str, _Life] = field(default_factory=dict[str, _Life])
    _newest: dict[str, _Life] = field(default_factory=dict[str, _Life])
    _undead: dict[str, dict[str, _Life]] = field(default_factory=lambda: defaultdict(dict))
    _owners: dict[str, dict[str, _Life]] = field(default_factory=lambda: defaultdict(dict))
    # Execution id → its end, for incarnations that started before the first record.
    _older_ends: dict[str, str] = field(default_factory=dict[str, str])
    _highest_epoch: int = 0
    _first_epoch: int | None = None

    def follow(self, record: AuditRecord) -> Iterator[_Found]:
        """Yield what a record breaks after its predecessors; accept it when that is nothing."""
        return self._end(record) if record.kind == Kind.END else self._start(record)

    def _start(self, record: AuditRecord) -> Iterator[_Found]:
        execution_id = record.execution_id
        starts = f"{execution_id} starts on {record.host}"
        if execution_id in self._lives or execution_id in self._older_ends:
            yield Rule.EXECUTION, f"{execution_id} was there before"
        if record.epoch <= self._highest_epoch:
            yield Rule.EPOCH, f"epoch {record.epoch} after epoch {self._highest_epoch} of the job"
        before = self._newest.get(record.processor_id)
        if before is not None:
            yield from _successor(record, before)
        elif record.predecessor is not None:
            yield from self._unknown_predecessor(record, record.predecessor)
        # Its tasks may have been those of any processor that was started under other groups.
        for grouping, owners in self._owners.items():
            if owners and record.grouping != grouping:
                owner = f"{next(iter(owners.values()))} hasn't ended"
                was = f"whose tasks were grouped as {grouping:.12}"
                now = f"its tasks grouped as {record.grouping:.12}"
                yield Rule.REGROUPED, f"{starts}, {now}, while {owner}, {was}"
        yield from self._beside_others(record, starts)
        life = _Life(record)
        self._lives[execution_id] = self._newest[record.processor_id] = life
        self._undead[record.group_id][execution_id] = life
        self._owners[record.grouping][execution_id] = life
        self._highest_epoch = record.epoch
        self._first_epoch = self._first_epoch or record.epoch
        self.starts[record.processor_id] += 1
        self.ways[record.predecessor.how if record.predecessor else _NO_PREDECESSOR] += 1

    def _unknown_predecessor(self, record: AuditRecord, named: End) -> Iterator[_Found]:
        if self.complete:
            never = f"{record.processor_id} never started before"
            yield Rule.PREDECESSOR, f"{named.execution_id} is named, but {never}"
        is_older = named.epoch < record.epoch
        if not is_older or not _is_end(named.how, named.at_ms, named.evidence):
            yield Rule.PREDECESSOR, f"{_describe(named)}, is named"
        yield from _time(record, named.at_ms, f"the end of {named.execution_id}")

    def _beside_others(self, record: AuditRecord, starts: str) -> Iterator[_Found]:
        """Yield members of its group on its host, and false or missing names of other members."""
        undead = self._undead[record.group_id]
        here = {
            (life.start.processor_id, execution_id): life
            for execution_id, life in undead.items()
            if life.start.host == record.host
        }
        left, others = set(record.left_behind), set(record.others)
        for _, execution_id in sorted(here.keys() - left):
            seen = f"{starts}, where {execution_id} of its group isn't known dead"
            yield Rule.SAME_HOST, seen
        for member in sorted(left):
            life, is_known = here.get(member), self.complete or member[1] in self._lives
            if is_known and (life is None or not life.ends):
                lost = f"{member[1]}, named as left behind on another machine of that name"
                yield Rule.SAME_HOST, f"{starts}, and {lost}, wasn't there, or hasn't ended"
        on_record = {(life.start.processor_id, life.start.host) for life in undead.values()}
        left_processors = {processor_id for processor_id, _ in left}
        for processor_id, host in record.others:
            if host == record.host and processor_id not in left_processors:
                seen = f"{starts}, and names {processor_id} of its group there, not known dead"
                yield Rule.SAME_HOST, seen
        for processor_id, host in sorted(on_record - others):
            yield Rule.OTHERS, f"{processor_id} on {host} isn't known dead, and isn't named"
        for processor_id, host in sorted(others - on_record if self.complete else ()):
            yield Rule.OTHERS, f"{processor_id} on {host} is named, but nothing of it runs there"

    def _end(self, record: AuditRecord) -> Iterator[_Found]:
        execution_id, how = record.execution_id, record.how
        life = self._lives.get(execution_id)
        if life is None:
            is_older = self._first_epoch is None or record.epoch < self._first_epoch
            if self.complete or not is_older:
                yield Rule.ENDS, f"{execution_id} ends, and never started"
            yield from _once(record, self._older_ends.get(execution_id))
            self._older_ends[execution_id] = how
            self._highest_epoch = max(self._highest_epoch, record.epoch)
            return
        start, newest = life.start, self._newest[life.start.processor_id]
        for name in _IDENTITY:
            was, now = str(getattr(start, name)), str(getattr(record, name))
            if was != now:
                yield Rule.ENDS, f"{execution_id} ends with {name} {now!r}, it started with {was!r}"
        yield from _once(record, life.ends[-1].how if life.ends else None)
        yield from _time(record, start.at_ms, f"the start of {life}")
        # A lease that ends twice was renewed in between, which can't happen beside a successor.
        if how == Ended.LEASE and newest is not life and not newest.ends:
            anew = f"ends again, it ran anew while {newest} hadn't ended"
            yield Rule.ONE_OWNER, f"the lease of {execution_id} on {record.host} {anew}"
        life.ends.append(
            End(execution_id, start.epoch, start.host, Ended(how), record.at_ms, record.evidence)
        )
        self._owners[start.grouping].pop(execution_id, None)
        if how == Ended.DEAD:
            del self._undead[start.group_id][execution_id]


def _successor(record: AuditRecord, before: _Life) -> Iterator[_Found]:
    """Yield what is wrong with the start of a processor that was started before."""
    start, named = before.start, record.predecessor
    is_redeployed = record.deployment_id != start.deployment_id
    if record.group_id != start.group_id and not is_redeployed:
        has = f"{record.processor_id!r}, which has {start.group_id!r} in this deployment"
        yield Rule.FORM, f"group_id {record.group_id!r} of processor {has}"
    if not before.ends:
        hosts = f"{record.execution_id} starts on {record.host}"
        yield Rule.ONE_OWNER, f"{hosts} while {before} hasn't ended"
    # An incarnation seen dead later may be named by either end; the last end by lease counts.
    by_death = [end for end in before.ends if end.how == Ended.DEAD]
    leased = [end for end in before.ends if end.how != Ended.DEAD]
    ends = [*leased[-1:], *by_death]
    if named is not None and named not in ends:
        recorded = " | ".join(_describe(end) for end in ends)
        yield Rule.PREDECESSOR, f"{_describe(named)}, is named; recorded: {recorded}"
    # A removed standby, or a processor of an older deployment, returns without a predecessor.
    if named is None and record.role == Role.ACTIVE and not is_redeployed:
        yield Rule.PREDECESSOR, f"none is named, it was {before}"
    for end in before.ends:
        yield from _time(record, end.at_ms, f"the end of {before}")


def _once(record: AuditRecord, known: str | None) -> Iterator[_Found]:
    # An incarnation that lost its tasks by fence or lease may be seen dead later, and a lease may
    # be renewed when its host returns. Nothing else ends twice.
    leased = known == record.how == Ended.LEASE
    if known is not None and not leased and (known == Ended.DEAD or record.how != Ended.DEAD):
        yield Rule.ENDS, f"{record.execution_id} ends by {record.how}, it had ended by {known}"


def _time(record: AuditRecord, after_ms: int, what: str) -> Iterator[_Found]:
    if record.at_ms < after_ms - CLOCKS_DIFFER_MS:
        dated = f"the {record.kind} of {record.execution_id} is dated {record.at_ms}"
        yield Rule.TIME, f"{dated}, {what} {after_ms}"


def _describe(end: End) -> str:
    ended = f"ended by {end.how} at {end.at_ms} ({end.evidence!r})"
    return f"{end.execution_id} on {end.host} of epoch {end.epoch}, which {ended}"
