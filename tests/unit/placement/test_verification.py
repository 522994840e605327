"""What an audit record is, and what `verify` finds in a history of them, those of `histories.txt` too."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.audit_log import decode_entry, encode_entry
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement.certificates import (
    AuditRecord,
    audit_from_json,
    audit_to_json,
    digest_of,
)
from samza_dagster.placement.state import End
from samza_dagster.placement.verification import Head, Rule, Verdict, verify
from tests.rig.pace import PACE
from tests.unit.placement.chronicle import TICK_MS, Chronicle, chained, moved

pytestmark = pytest.mark.unit

RECORD = AuditRecord(
    number=7,
    kind="start",
    at_ms=1_795_264_716_232,
    deployment_id="1795264716232-abcdef01",
    group_id="0",
    processor_id="0",
    role="Active",
    execution_id="0-17",
    epoch=17,
    host="host-1",
    previous_hash="a" * 64,
    why="failover",
    fencing="lease",
    predecessor=End("0-3", 3, "host-2", "dead", 5, "exit 143"),
    others=(("0-0", "host-3"),),
    lag_records=12,
)

ASLEEP = {"execution_id": "0-3", "epoch": 3, "host": "h", "how": "asleep", "at_ms": 5}


def changed(**fields: Any) -> dict[str, Any]:
    document = json.loads(json.dumps(audit_to_json(RECORD)))
    return {name: value for name, value in (document | fields).items() if value is not ...}


@given(st.from_type(AuditRecord))
def test_any_record_is_read_back(record: AuditRecord) -> None:
    """Through the bytes of the topic, to an equal record with an equal digest."""
    again = decode_entry("t", TopicRecord(*encode_entry(record), 0, 3))
    assert again == record
    assert digest_of(again) == digest_of(record)


@given(st.from_type(AuditRecord))
def test_the_digest_is_of_the_canonical_json(record: AuditRecord) -> None:
    """Anybody can compute it: as it is written but `digest` and `version`, names sorted."""
    fields = audit_to_json(record)
    del fields["digest"], fields["version"]
    assert ("left_behind" in fields) == bool(record.left_behind)
    assert ("previous_at_ms" in fields) == (record.previous_at_ms is not None)
    assert ("grouping" in fields) == bool(record.grouping)
    assert ("spun_up_by" in fields) == bool(record.spun_up_by)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert digest_of(record) == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_of_a_record_stays_what_it_is() -> None:
    """Histories are kept for years: a change here breaks every chain."""
    assert digest_of(RECORD) == "0fbb436eb38a801e388dfe68d471d8968ca6f12a86a415357503e4ff495aa566"
    assert digest_of(dataclasses.replace(RECORD, digest="x")) == digest_of(RECORD)


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        ([], "no JSON object"),
        (None, "no JSON object"),
        (changed(version=2), "field version: 2 instead of 1"),
        (changed(version=True), "field version: True instead of 1"),
        (changed(version=...), "field version: None instead of 1"),
        (changed(weight=3), "field weight: a field that this release doesn't know"),
        (changed(epoch=...), "field epoch: missing"),
        (changed(epoch="17"), "field epoch: '17', no whole number"),
        (changed(epoch=None), "field epoch: None, no whole number"),
        (changed(number=True), "field number: True, no whole number"),
        (changed(lag_records=1.5), "field lag_records: 1.5, no whole number"),
        (changed(host=None), "field host: None, no text"),
        (changed(role="Observer"), "field role: 'Observer'"),
        (changed(kind="pause"), "field kind: 'pause'"),
        (changed(fencing="Lease"), "field fencing: 'Lease'"),
        (changed(fencing=""), "field fencing: ''"),
        (changed(others=[["0-0"]]), "field others[0]: ['0-0'], no array of 2"),
        (changed(others="0-0"), "field others: '0-0', no array"),
        (changed(others=[["0-0", 3]]), "field others[0][1]: 3, no text"),
        (changed(predecessor=ASLEEP), "field predecessor.how: 'asleep'"),
        (changed(predecessor="0-3"), "field predecessor: '0-3', no JSON object"),
        (changed(predecessor={}), "field predecessor.at_ms: missing"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(document: object, seen: str) -> None:
    """Nothing is guessed: the place, the field, and what stands there."""
    with pytest.raises(MalformedRecord) as refused:
        audit_from_json(document, "topic t, offset 41")
    assert refused.value.seen.startswith("topic t, offset 41")
    assert refused.value.seen.endswith(seen)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b"\xff"])
def test_bytes_that_are_no_object_are_told_with_their_offset(value: bytes | None) -> None:
    """A stranger's record in the topic is found, not skipped."""
    with pytest.raises(MalformedRecord, match="topic t, offset 41"):
        decode_entry("t", TopicRecord(None, value, 0, 41))


# What `verify` finds in an audit history, and what it lets pass.

HOSTS = [f"host-{n}" for n in range(1, 6)]
PROCESSORS = ["0", "0-0", "0-1", "1", "1-0"]


def of(number: int, steps: list[tuple[int, int, int]]) -> Chronicle:
    """A legal history: at each step something is started, ended, or seen dead."""
    job = Chronicle()
    for what, which, where in steps[:number]:
        processor_id = PROCESSORS[which % len(PROCESSORS)]
        running = job.not_ended.get(processor_id)
        orphans = [r for r in job.undead.values() if r is not job.not_ended.get(r.processor_id)]
        if what % 4 == 3 and orphans:
            job.end(orphans[where % len(orphans)])
        elif running is not None:
            job.end(running, ("dead", "fenced", "lease")[what % 3])
        else:
            group_id = processor_id.split("-")[0]
            taken = {r.host for r in job.undead.values() if r.group_id == group_id}
            free = [host for host in HOSTS if host not in taken]
            if free:
                job.start(processor_id, free[where % len(free)])
    return job


numbers = st.integers(0, 1 << 16)
histories = st.builds(
    lambda steps: of(len(steps), steps).records,
    st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=40),
)


def head_of(records: list[AuditRecord]) -> Head:
    return Head(records[-1].number, records[-1].digest)


@given(histories)
def test_what_a_coordinator_records_is_in_order(records: list[AuditRecord]) -> None:
    """Any legal history, and any younger part of it from some record on."""
    verdict = verify(records, head_of(records))
    assert verdict.violation is None
    assert (verdict.ok, verdict.complete, verdict.records) == (True, True, len(records))
    starts = [record for record in records if record.kind == "start"]
    assert sum(verdict.starts.values()) == sum(verdict.ways.values()) == len(starts)


@given(histories, st.data())
def test_a_history_whose_oldest_records_have_aged_away_is_judged_from_there(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    """It says so, and doesn't fail for what it can't know."""
    first = data.draw(st.integers(1, len(records) - 1))
    verdict = verify(records[first:], head_of(records))
    assert verdict.violation is None
    assert (verdict.complete, verdict.first_number) == (False, first + 1)


@pytest.mark.parametrize(
    ("head", "since_ms"),
    [(None, None), (Head(0, ""), None), (Head(0, ""), 0), (Head(7, "a" * 64, 500), 501)],
)
def test_no_record_at_all_is_nothing_wrong(head: Head | None, since_ms: int | None) -> None:
    """A job that never ran, or one whose records have all aged away."""
    verdict = verify([], head, since_ms=since_ms)
    assert (verdict.ok, verdict.complete, verdict.head) == (True, False, None)


@pytest.mark.parametrize(
    ("at_ms", "since_ms", "seen"),
    [
        (500, 500, "written at 500, and the topic keeps what was written since 500"),
        (500, 0, "since 0"),
        (500, None, "that the topic keeps none so old isn't known"),
        (None, 501, "that the topic keeps none so old isn't known"),
    ],
)
def test_a_history_that_was_wiped_is_found(
    at_ms: int | None, since_ms: int | None, seen: str
) -> None:
    """The state counts 57 records, and the last isn't known to be older than the topic keeps."""
    found = verify([], Head(57, "ab" * 32, at_ms), since_ms=since_ms).violation
    assert found is not None
    assert (found.position, found.number, found.rule) == (0, 0, Rule.RETENTION)
    assert seen in found.seen
    assert "names record 57" in found.seen


@given(histories, st.data())
def test_a_beginning_that_was_cut_off_is_found(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    """The first record that is left says when the one before it was written."""
    first = data.draw(st.integers(1, len(records) - 1))
    gone_ms = records[first - 1].at_ms
    found = verify(records[first:], head_of(records), since_ms=gone_ms).violation
    assert found is not None
    assert (found.position, found.number, found.rule) == (1, first + 1, Rule.RETENTION)
    assert f"record {first}, written at {gone_ms}, isn't there" in found.seen
    assert verify(records[first:], head_of(records), since_ms=gone_ms + 1).ok
    assert verify(records, head_of(records), since_ms=0).ok


def test_what_a_record_says_of_the_one_before_is_so() -> None:
    """It can't make what is gone older, while that is still there."""
    records = moved().records
    late = replace(records[2], previous_at_ms=1)
    records[2] = replace(late, digest=digest_of(late))
    found = verify(records[:3]).violation
    assert found is not None
    assert (found.position, found.rule) == (3, Rule.CHAIN)
    first = replace(moved().records[0], previous_at_ms=1)
    found = verify([replace(first, digest=digest_of(first))]).violation
    assert found is not None
    assert (found.position, found.rule) == (1, Rule.CHAIN)


def test_the_summary_counts_starts_and_what_came_before_them() -> None:
    """By processor, and by how the incarnation before had ended."""
    assert verify(moved().records) == Verdict(
        records=4,
        first_number=1,
        head=Head(4, moved().records[-1].digest),
        starts={"0": 2, "0-0": 1},
        ways={"dead": 1, "first": 2},
    )


def test_what_an_earlier_check_saw_has_to_be_there_still() -> None:
    """A history that was written anew, or cut, since; not one that has grown or aged."""
    records = moved().records
    kept = Head(2, records[1].digest)
    assert verify(records, kept=kept).ok
    assert verify(records[2:], kept=kept).ok
    found = verify(records[2:], kept=Head(2, "told otherwise")).violation
    assert found is not None
    assert (found.position, found.number, found.rule) == (1, 3, Rule.HEAD)
    anew = chained([replace(record, why="told anew") for record in records])
    found = verify(anew, head_of(anew), kept=kept).violation
    assert found is not None
    assert (found.position, found.number, found.rule) == (2, 2, Rule.HEAD)
    assert verify([], kept=Head(0, "0" * 64)).ok
    for cut in (records[:1], []):
        found = verify(cut, kept=kept).violation
        assert found is not None
        assert (found.number, found.rule) == (len(cut), Rule.HEAD)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_each_record_that_is_left_is_as_an_earlier_check_saw_it(number: int) -> None:
    """From the one before the first that is left to the last."""
    job = moved()
    job.end(job.not_ended["0"])
    part = job.records[3:]
    assert verify(part, kept=Head(number, job.records[number - 1].digest)).ok
    violation = verify(part, kept=Head(number, "told otherwise")).violation
    assert violation is not None
    assert (violation.number, violation.rule) == (max(4, number), Rule.HEAD)
    assert violation.position == max(1, number - 3)


@pytest.mark.parametrize("missed", [{}, {"head": "told otherwise"}, {"kept": "told otherwise"}])
def test_the_first_thing_that_is_wrong_is_told(missed: dict[str, str]) -> None:
    """Whatever is missed besides: its beginning, its head, or what an earlier check saw."""
    job = moved()
    job.start("0", "host-4")
    part = job.records[1:]
    heads = {name: Head(5, missed.get(name, part[-1].digest)) for name in ("head", "kept")}
    for since_ms in (None, 0):
        violation = verify(part, heads["head"], kept=heads["kept"], since_ms=since_ms).violation
        assert violation is not None
        assert (violation.number, violation.rule) == (5, Rule.ONE_OWNER)
    (no_first,) = chained([part[0]], 0)
    violation = verify([no_first], heads["head"], kept=heads["kept"]).violation
    assert violation is not None
    assert (violation.position, violation.rule) == (1, Rule.NUMBER)


# --- what somebody does to a history afterwards ---------------------------------------


def other_value(value: Any, draw: Any) -> Any:
    if isinstance(value, int):
        return value + draw(st.integers(1, 9)) * draw(st.sampled_from([1, -1]))
    if isinstance(value, str):
        return value + draw(st.text(min_size=1, max_size=3))
    if isinstance(value, tuple):
        return (*value, ("9", "host-9"))
    if isinstance(value, End):
        name = draw(st.sampled_from([f.name for f in dataclasses.fields(End)]))
        return replace(value, **{name: other_value(getattr(value, name), draw)})
    return 5 if value is None else None


@given(histories, st.data())
def test_no_field_of_any_record_can_be_changed(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    """The changed one is named, and it is the first."""
    place = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from([f.name for f in dataclasses.fields(AuditRecord)]))
    value = other_value(getattr(records[place], name), data.draw)
    if name == "predecessor" and value == 5:
        value = End("x", 1, "host-1", "dead", 1, "")
    tampered = list(records)
    tampered[place] = replace(records[place], **{name: value})
    verdict = verify(tampered)
    assert verdict.violation is not None
    assert verdict.violation.position == place + 1


@given(histories, st.data())
def test_no_record_can_be_taken_out(records: list[AuditRecord], data: st.DataObject) -> None:
    """The last one is missed by the state's head; without the first it isn't complete."""
    place = data.draw(st.integers(0, len(records) - 1))
    verdict = verify(records[:place] + records[place + 1 :], head_of(records))
    if place == 0:
        assert not verdict.complete
    else:
        assert verdict.violation is not None
        expected = Rule.HEAD if place == len(records) - 1 else Rule.NUMBER
        assert verdict.violation.rule is expected


@given(histories, st.data())
def test_no_two_records_can_change_places(records: list[AuditRecord], data: st.DataObject) -> None:
    """Nor can any record be moved elsewhere."""
    one, other = data.draw(
        st.lists(st.integers(0, len(records) - 1), min_size=2, max_size=2, unique=True)
    )
    swapped, shifted = list(records), list(records)
    swapped[one], swapped[other] = records[other], records[one]
    shifted.insert(other, shifted.pop(one))
    assert not verify(swapped).ok
    assert not verify(shifted).ok


@given(histories, st.data())
def test_no_record_counts_twice(records: list[AuditRecord], data: st.DataObject) -> None:
    """Wherever the copy is put."""
    place = data.draw(st.integers(0, len(records) - 1))
    where = data.draw(st.integers(0, len(records)))
    verdict = verify([*records[:where], records[place], *records[where:]])
    assert verdict.violation is not None
    assert verdict.violation.rule is Rule.NUMBER


@given(histories, st.data())
def test_nothing_can_be_put_in_by_one_who_knows_the_hash(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    """A forged record, its number, chain and digest right: the one after it doesn't fit any more."""
    where = data.draw(st.integers(1, len(records)))
    forged = replace(records[where - 1], evidence="forged", why="forged")
    (forged,) = chained([forged], where + 1)
    forged = replace(forged, previous_hash=records[where - 1].digest)
    forged = replace(forged, digest=chained([forged], where + 1)[0].digest)
    assert not verify([*records[:where], forged, *records[where:]], head_of(records)).ok


def test_the_work_grows_with_the_history_not_with_its_square() -> None:
    """Ten thousand records take 0.4 s; squared it would be minutes."""
    began = time.monotonic()
    job = Chronicle()
    for turn in range(5_000):
        started = job.start(str(turn % 50), HOSTS[turn % 5])
        job.end(started)
    verdict = verify(job.records)
    assert verdict.ok
    assert verdict.records == 10_000
    assert time.monotonic() - began < 10 * PACE


# Every history of `histories.txt`. Its records have the numbers, hashes and digests that they
# should: a forger who knows the rules.

LEFT = 9
"""The number of the first record of a history that is cut."""
GONE = End("0_3", 3, "host-1", "dead", 20, "seen dead")


class Told(NamedTuple):
    """A history as it stands in the file."""

    promise: str
    steps: str
    found: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.steps}"


def told_histories() -> Iterator[Told]:
    """All of them: a promise, and a history in each indented line below it."""
    promise = ""
    for line in Path(__file__).with_name("histories.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            yield Told(promise, *line.strip().split(" | "))
        elif line and not line.startswith("#"):
            promise = line


class History(Chronicle):
    """A chronicle that is told in words."""

    number = 1

    def take(self, step: str) -> None:
        """What the step tells is on record."""
        told, _, given = step.partition(" with ")
        fields = {k.arg: ast.literal_eval(k.value) for k in call(given).keywords if k.arg}
        match told.split(" "):
            case ["moved"]:
                self.__dict__ |= moved().__dict__
            case ["cut"]:
                self.epoch, self.number = 5, LEFT
            case ["epochs", "go", "on", "from", epoch]:
                self.epoch = int(epoch)
            case ["the", "first", count, "are", "gone"]:
                self.records, self.number = self.records[int(count) :], LEFT
            case ["at", at_ms]:
                self.now_ms = int(at_ms) - TICK_MS
            case [processor_id, "on", host]:
                self.start(processor_id, **{"host": host, **self.named(processor_id, fields)})
            case [execution_id, "ends", *by]:
                ended, how = self.started(execution_id), by[1] if by else "dead"
                self.end(ended, how, **self.named(ended.processor_id, fields))
            case _:
                raise LookupError(f"no step reads {step!r}")

    def named(self, processor_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        """A predecessor is told by what differs from the one before, or from one that is gone."""
        if (changed := fields.get("predecessor")) is not None:
            before = self.predecessor.get(processor_id, GONE)
            fields["predecessor"] = replace(before, **changed)
        return fields

    def started(self, execution_id: str) -> AuditRecord:
        """Its start, also one that has aged away."""
        for record in self.records:
            if record.execution_id == execution_id:
                return record
        processor_id, _, epoch = execution_id.rpartition("_")
        before = Chronicle().start(processor_id, "host-1")
        return replace(before, execution_id=execution_id, epoch=int(epoch))


def call(arguments: str) -> ast.Call:
    """These arguments, given to anything."""
    made = ast.parse(f"it({arguments})", mode="eval").body
    assert isinstance(made, ast.Call)
    return made


@pytest.mark.parametrize("told", told_histories(), ids=str)
def test_what_is_found_in_a_history_is_what_is_told(told: Told) -> None:
    """Nothing, or the first record that breaks a rule, and that rule."""
    history = History()
    for step in told.steps.split("; "):
        history.take(step)
    violation = verify(chained(history.records, history.number)).violation
    where, _, words = told.found.partition(": ")
    assert (violation and f"{violation.position} {violation.rule}") == (
        None if where == "fine" else where
    )
    if violation is not None:
        assert violation.seen
        assert [word for word in words.split(", ") if word not in violation.seen] == []


ENDS = [hows for count in (1, 2, 3) for hows in product(("dead", "fenced", "lease"), repeat=count)]


@pytest.mark.parametrize("hows", ENDS, ids="-".join)
@pytest.mark.parametrize("started_before", [False, True], ids=["known", "started before"])
def test_an_incarnation_ends_in_one_way_and_is_then_seen_dead(
    hows: tuple[str, ...], started_before: bool
) -> None:
    """By a fence once, by its lease again and again, dead once and after all else."""
    job = moved()
    standby = job.not_ended["0-0"]
    for how in hows:
        job.end(standby, how)
    records = chained(job.records[4:], 9) if started_before else job.records
    legal = re.fullmatch(r"(fenced|(lease ?)*) ?(dead)?", " ".join(hows)) is not None
    violation = verify(records).violation
    assert (violation is None) is legal
    assert violation is None or violation.rule is Rule.ENDS
