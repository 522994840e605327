"""What `verify` finds in an audit history, and what it lets pass."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.placement.certificates import AuditRecord, digest_of
from samza_dagster.placement.state import End
from samza_dagster.placement.verification import Head, Rule, Verdict, verify
from tests.rig.pace import PACE
from tests.unit.placement.chronicle import Chronicle, chained, moved

pytestmark = pytest.mark.unit

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
