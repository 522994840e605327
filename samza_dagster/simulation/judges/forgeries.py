"""Ways to tamper with an audit trail, each with the rule that finds it.

A forger who can't hash breaks the chain. One who can writes all digests anew, and is
found by what the records say of each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from samza_dagster.placement.certificates import AuditRecord, Predecessor

_HOUR_MS = 3_600_000
"""How far clocks may differ, as docs/audit.md has it."""


@dataclass(frozen=True, slots=True)
class Forgery:
    """Tampered records: the `rules` any of which finds it, at which place, and what it names."""

    what: str
    records: Sequence[AuditRecord]
    position: int
    rules: frozenset[str]
    names: tuple[str, ...] = ()


def forgeries(records: Sequence[AuditRecord]) -> Iterator[Forgery]:
    """Forgeries of a true history, some of each kind."""
    places = sorted({0, len(records) // 2, len(records) - 1}) if records else []
    for place in places:
        yield from _unhashed(records, place)
        yield from _misshapen(records, place)
    starts = [n for n, record in enumerate(records) if record.kind == "start"]
    for place in _some(starts):
        yield from _false_start(records, place)
        yield from _regrouped_beside(records, place)
    for place in [n for n in starts if _after_a_lease(records[n])][:1]:
        yield from _renewed_beside(records, place)
    ends = [n for n, record in enumerate(records) if record.kind == "end"]
    for place in _some(ends):
        yield from _false_end(records, place)
    yield from _cut(records)


def _some(places: list[int]) -> list[int]:
    return sorted({places[0], places[len(places) // 2], places[-1]}) if places else []


def hash_of(record: AuditRecord) -> str:
    """The digest as docs/audit.md has it."""
    content = asdict(record)
    del content["digest"]
    if not record.left_behind:
        del content["left_behind"]
    if record.previous_at_ms is None:
        del content["previous_at_ms"]
    if not record.grouping:
        del content["grouping"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _chained(records: Sequence[AuditRecord], first: int) -> list[AuditRecord]:
    """The records, numbered and hashed anew from a place on."""
    made = list(records[:first])
    number = made[-1].number + 1 if made else records[0].number
    before = made[-1].digest if made else records[0].previous_hash
    before_ms = made[-1].at_ms if made else records[0].previous_at_ms
    for record in records[first:]:
        placed = replace(record, number=number, previous_hash=before, previous_at_ms=before_ms)
        placed = replace(placed, digest=hash_of(placed))
        made.append(placed)
        number, before, before_ms = number + 1, placed.digest, placed.at_ms
    return made


def _with(records: Sequence[AuditRecord], place: int, **changes: Any) -> list[AuditRecord]:
    changed = [*records]
    changed[place] = replace(changed[place], **changes)
    return _chained(changed, place)


def _rules(*names: str) -> frozenset[str]:
    return frozenset(names)


def _unhashed(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    record, at = records[place], place + 1

    def changed(**changes: Any) -> list[AuditRecord]:
        made = [*records]
        made[place] = replace(record, **changes)
        return made

    for name, value in (
        ("at_ms", record.at_ms + 1),
        ("evidence", record.evidence + "!"),
        ("why", record.why + "!"),
        ("deployment_id", "run-0"),
        ("host", "host-0"),
        ("digest", "0" * 64),
    ):
        yield Forgery(f"{name} changed", changed(**{name: value}), at, _rules("digest"))
    if place:
        said = (f"{record.number + 1} ", f" {record.number} ")
        yield Forgery("a number", changed(number=record.number + 1), at, _rules("number"), said)
        when = records[place - 1].at_ms + 1
        yield Forgery("a time", changed(previous_at_ms=when), at, _rules("chain"), (str(when),))
        yield Forgery("a link", changed(previous_hash="0" * 64), at, _rules("chain"))
        left = [*records[:place], *records[place + 1 :]]
        if place + 1 < len(records):
            yield Forgery("one taken out", left, at, _rules("number"))
            swapped = [*records]
            swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
            yield Forgery("two swapped", swapped, at, _rules("number"))
            yield Forgery("renumbered", _renumbered(left), at, _rules("chain"))
        doubled = [*records[: place + 1], *records[place:]]
        yield Forgery("one twice", doubled, at + 1, _rules("number"))
    elif record.number == 1:
        yield Forgery("another beginning", changed(previous_hash="1" * 64), at, _rules("chain"))
        yield Forgery("numbered from 0", changed(number=0), at, _rules("number"))


def _renumbered(records: Sequence[AuditRecord]) -> list[AuditRecord]:
    first = records[0].number
    return [replace(record, number=first + n) for n, record in enumerate(records)]


def _misshapen(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    record, at = records[place], place + 1
    for name, value in (
        ("kind", "begin"),
        ("role", "Leader"),
        ("epoch", 0),
        ("execution_id", ""),
        ("host", ""),
        ("processor_id", ""),
        ("group_id", ""),
        ("how", "first" if record.kind == "end" else "dead"),
        ("group_id", f"{record.group_id}7"),
        ("role", _other_role(record)),
        ("fencing", ""),
        ("fencing", "nonsense"),
    ):
        forged = _with(records, place, **{name: value})
        names = (name, repr(value))
        yield Forgery(f"{name} {value!r}", forged, at, _rules("form"), names)
    for version in (0, 2):
        forged = _with(records, place, rules_version=version)
        yield Forgery(f"rules {version}", forged, at, _rules("rules-version"), (str(version), "1"))
    if record.kind == "end":
        yield from _without_evidence(records, place)
        named = Predecessor(record.execution_id, record.epoch, record.host, "dead", 1, "")
        forged = _with(records, place, predecessor=named)
        yield Forgery("an end with a predecessor", forged, at, _rules("form"), ("predecessor",))
        forged = _with(records, place, grouping="theirs")
        yield Forgery("an end with a grouping", forged, at, _rules("form"), ("'theirs'",))


def _other_role(record: AuditRecord) -> str:
    return "Active" if record.role != "Active" else "Standby"


def _without_evidence(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    now_ms = records[place].at_ms
    for how, evidence in (
        ("dead", ""),
        ("fenced", ""),
        ("lease", ""),
        ("lease", "somebody said so"),
        ("lease", f"its lease ended at {now_ms + 1}, it is {now_ms}"),
        ("lease", f"its lease ended at {now_ms}, it is {now_ms - 1}"),
        ("lease", f"its lease ended at {now_ms}, it is {now_ms + 1}"),
    ):
        forged = _with(records, place, how=how, evidence=evidence, fencing="broker")
        names = ("evidence", repr(evidence))
        yield Forgery(f"{how} by {evidence!r}", forged, place + 1, _rules("form"), names)
    forged = _with(records, place, how="fenced", evidence="it is refused", fencing="lease")
    names = ("'fenced'", "'lease'")
    yield Forgery("fenced without a fence", forged, place + 1, _rules("form"), names)


def _false_start(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    record, at = records[place], place + 1
    host, named = record.host, record.predecessor
    earlier = [r for r in records[:place] if r.kind == "start"]
    if earlier:
        last = earlier[-1]
        for epoch in {last.epoch, max(1, last.epoch - 1)}:
            forged = _with(records, place, epoch=epoch)
            names = (f"epoch {epoch} ", f"epoch {last.epoch} ")
            yield Forgery("an epoch again", forged, at, _rules("epoch"), names)
        forged = _with(records, place, execution_id=last.execution_id)
        yield Forgery("it started", forged, at, _rules("execution"), (last.execution_id,))
    if named is None:
        first = Predecessor("demo-0-000000", 1, host, "dead", 1, "")
        if all(r.processor_id != record.processor_id for r in earlier):
            forged = _with(records, place, predecessor=first)
            names = (first.execution_id, record.processor_id)
            yield Forgery("it never was", forged, at, _rules("predecessor"), names)
    else:
        for name, value in (
            ("execution_id", "demo-0-000000"),
            ("epoch", named.epoch + 1),
            ("host", "host-0"),
            ("how", "fenced" if named.how != "fenced" else "lease"),
            ("at_ms", named.at_ms + 1),
            ("evidence", named.evidence + "!"),
        ):
            false = replace(named, **{name: value})
            forged = _with(records, place, predecessor=false)
            yield Forgery(f"predecessor {name}", forged, at, _rules("predecessor"), (str(value),))
        before = [r for r in earlier if r.processor_id == record.processor_id][-1]
        if before.deployment_id == record.deployment_id and record.role == "Active":
            forged = _with(records, place, predecessor=None)
            names = (before.execution_id, before.host)
            yield Forgery("no predecessor", forged, at, _rules("predecessor"), names)
    for other_id, other in record.others:
        left = tuple(o for o in record.others if o != (other_id, other))
        forged = _with(records, place, others=left)
        yield Forgery("one unnamed", forged, at, _rules("others"), (other_id, other))
        if other == host:
            continue  # it was left behind there
        neighbour = replace(record, host=other)
        forged = _chained([*records[:place], neighbour, *records[place + 1 :]], place)
        names = (other, record.execution_id)
        yield Forgery("two on a host", forged, at, _rules("same-host"), names)
    for left_id, execution_id in record.left_behind:
        rest = tuple(pair for pair in record.left_behind if pair != (left_id, execution_id))
        forged = _with(records, place, left_behind=rest)
        yield Forgery("one isn't left", forged, at, _rules("same-host"), (execution_id, host))
    forged = _with(records, place, left_behind=(*record.left_behind, ("9-9", "demo-x-9")))
    yield Forgery("one left, never there", forged, at, _rules("same-host"), ("demo-x-9", host))
    # Named after the others it sorts behind them.
    forged = _with(records, place, others=(*record.others, ("9-9", "host-99")))
    yield Forgery("one invented", forged, at, _rules("others"), ("9-9", "host-99"))
    forged = _with(records, place, others=(*record.others, ("9-9", host)))
    yield Forgery("one on its host", forged, at, _rules("same-host"), ("9-9", host))
    forged = _chained(
        [*records[: place + 1], replace(record, epoch=10**6), *records[place + 1 :]], at
    )
    yield Forgery("twice", forged, at + 1, _rules("execution"), (record.execution_id,))
    alike = replace(record, epoch=10**6, execution_id="demo-x-1000000", host="host-98")
    forged = _chained([*records[: place + 1], alike], at)
    names = ("demo-x-1000000", record.execution_id)
    yield Forgery("while it runs", forged, at + 1, _rules("one-owner"), names)


def _regrouped_beside(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    """A start of a new group that has tasks of one which hasn't ended, as its deployment says."""
    record = records[place]
    before = list(records[: place + 1])
    if not record.grouping:
        before = [replace(r, grouping="theirs") if r.kind == "start" else r for r in before]
    alien = replace(
        record,
        epoch=10**6,
        execution_id="demo-999-1000000",
        processor_id="999",
        group_id="999",
        role="Active",
        host="host-97",
        grouping="regrouped",
        predecessor=None,
        others=(),
        left_behind=(),
    )
    forged = _chained([*before, alien], 0)
    yield Forgery("regrouped", forged, place + 2, _rules("regrouped"), (alien.execution_id,))


def _after_a_lease(record: AuditRecord) -> bool:
    return record.predecessor is not None and record.predecessor.how == "lease"


def _is_end_of(record: AuditRecord, named: Predecessor) -> bool:
    return record.kind == "end" and record.execution_id == named.execution_id


def _renewed_beside(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    """A lease that ends once more after its successor has started."""
    record, named = records[place], records[place].predecessor
    before = [r for r in records[:place] if named is not None and _is_end_of(r, named)]
    if not before or before[-1].how != "lease":
        return
    ended = before[-1]
    forged = _chained([*records[: place + 1], ended], place + 1)
    names = (ended.execution_id, record.execution_id)
    yield Forgery("renewed beside", forged, place + 2, _rules("one-owner"), names)


def _false_end(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    record, at = records[place], place + 1
    group_id = record.group_id
    other_id = f"{group_id}-99" if record.role == "Active" else group_id
    changes: tuple[dict[str, Any], ...] = (
        {"processor_id": "9-9", "group_id": "9", "role": "Standby"},
        {"processor_id": other_id, "role": _other_role(record)},
        {"epoch": record.epoch + 1},
        {"host": "host-0"},
    )
    for changed in changes:
        forged = _with(records, place, **changed)
        names = (record.execution_id, *(str(value) for value in changed.values()))
        yield Forgery(f"an end as {changed}", forged, at, _rules("ends"), names)
    yield from _early(records, place)
    forged = _with(records, place, execution_id="demo-x-000000")
    yield Forgery("an end of nobody", forged, at, _rules("ends"), ("demo-x-000000",))
    for how in ("dead", "lease", "fenced"):
        if record.how != "dead" and how in ("dead", record.how if record.how == "lease" else ""):
            continue  # seen dead later, or leased anew while its host was back
        again = replace(record, how=how, fencing="broker", evidence=_evidence(how, record))
        forged = _chained([*records[:at], again, *records[at:]], at)
        names = (record.execution_id, how, record.how)
        yield Forgery(f"{record.how}, then {how}", forged, at + 1, _rules("ends"), names)


def _evidence(how: str, record: AuditRecord) -> str:
    at_ms = record.at_ms
    return f"its lease ended at {at_ms}, it is {at_ms}" if how == "lease" else f"seen {how}"


def _early(records: Sequence[AuditRecord], place: int) -> Iterator[Forgery]:
    """An end dated before its start, and a successor before that end."""
    record, at = records[place], place + 1
    started = next((r for r in records[:place] if r.execution_id == record.execution_id), None)
    if started is not None:
        early_ms = started.at_ms - _HOUR_MS - 1
        early = replace(record, at_ms=early_ms)
        early = replace(early, evidence=_evidence(record.how, early))
        forged = _chained([*records[:place], early, *records[at:]], place)
        names = (str(early_ms), str(started.at_ms))
        yield Forgery("ended before it began", forged, at, _rules("time"), names)
    for n, later in enumerate(records[at:], at):
        named = later.predecessor
        if named is not None and named.execution_id == record.execution_id:
            early_ms = record.at_ms - _HOUR_MS - 1
            forged = _with(records, n, at_ms=early_ms)
            names = (str(early_ms), str(record.at_ms))
            yield Forgery("begun before that ended", forged, n + 1, _rules("time"), names)
            break


def _cut(records: Sequence[AuditRecord]) -> Iterator[Forgery]:
    """What age left, with a record that could only follow from those that it took."""
    for first in sorted({1, len(records) // 2}):
        left = records[first:]
        starts = [n for n, r in enumerate(left) if r.kind == "start"]
        if not left or not starts or left[0].number == 1:
            continue
        place = starts[0]
        record = left[place]
        for name, value in (("how", "asleep"), ("epoch", record.epoch)):
            named = Predecessor("demo-0-000000", 1, record.host, "dead", 1, "seen dead")
            forged = _with(left, place, predecessor=replace(named, **{name: value}))
            names = ("demo-0-000000", str(value))
            yield Forgery(f"older {name}", forged, place + 1, _rules("predecessor"), names)
        for how, evidence in (("dead", ""), ("lease", "its lease ended at 2, it is 1")):
            named = Predecessor("demo-0-000000", 0, record.host, how, 1, evidence)
            forged = _with(left, place, predecessor=named)
            names = ("demo-0-000000", repr(evidence))
            yield Forgery("older evidence", forged, place + 1, _rules("predecessor"), names)
        named = Predecessor("demo-0-000000", 0, record.host, "dead", 1, "seen dead")
        late = replace(named, at_ms=record.at_ms + _HOUR_MS + 1)
        forged = _with(left, place, predecessor=late)
        yield Forgery("older, later", forged, place + 1, _rules("time"), (str(late.at_ms),))
        unknown = replace(
            record,
            kind="end",
            how="dead",
            evidence="seen dead",
            execution_id="demo-x-9",
            predecessor=None,
            others=(),
            left_behind=(),
            grouping="",
        )
        for epoch in (record.epoch, record.epoch + 1):
            forged = _chained([*left[: place + 1], replace(unknown, epoch=epoch)], place + 1)
            yield Forgery("an end", forged, place + 2, _rules("ends"), ("demo-x-9",))
        earlier = [*left[:place], replace(unknown, epoch=record.epoch), *left[place:]]
        forged, names = _chained(earlier, place), (f"epoch {record.epoch} after",)
        yield Forgery("an older end's epoch", forged, place + 2, _rules("epoch"), names)
        if record.epoch > 1:
            older = replace(unknown, epoch=record.epoch - 1)
            again = replace(record, execution_id="demo-x-9", epoch=10**6)
            forged = _chained([*left[: place + 1], older, again], place + 1)
            rules = _rules("execution")
            yield Forgery("it ended before", forged, place + 3, rules, ("demo-x-9",))
            twice = [*left[: place + 1], older, replace(older, evidence="again")]
            forged = _chained(twice, place + 1)
            yield Forgery("ends again", forged, place + 3, _rules("ends"), ("demo-x-9",))
