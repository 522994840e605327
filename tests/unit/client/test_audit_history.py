"""Reading a history that goes on while it is read, and one from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client.audit_history import (
    AuditHistory,
    consistent,
    exported,
    head_of_state,
    history_of_lines,
    lines_of,
)
from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.audit_log import decode_entry
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.certificates import AuditRecord, audit_to_json
from samza_dagster.placement.commands import RecordCertificate
from samza_dagster.placement.verification import Head, verify
from tests.unit.placement.chronicle import Chronicle
from tests.unit.placement.scenes import own, running

pytestmark = pytest.mark.unit


def records(number: int) -> list[AuditRecord]:
    job = Chronicle()
    for turn in range(number):
        job.start(str(turn), "host-1")
    return job.records


def head(number: int) -> Head:
    return Head(number, records(number)[-1].digest)


class Topic:
    """Each reading sees so many records; the last number stays."""

    def __init__(self, *seen: int) -> None:
        self.seen = list(seen)

    def records(self) -> tuple[AuditRecord, ...]:
        number = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        return tuple(records(number))


@pytest.mark.parametrize("readings", [(3,), (2, 3), (2, 2, 3), (2, 5), (0, 3)])
def test_a_record_that_comes_late_is_waited_for(readings: tuple[int, ...]) -> None:
    """The state was committed with it; what comes after the state was read isn't judged."""
    found = consistent(Topic(*readings), lambda: head(3))
    assert len(found.records) == 3
    assert verify(found.records, found.head).ok


def test_a_record_that_never_comes_is_missed() -> None:
    """Cut at its end: the state names more than there is."""
    found = consistent(Topic(2), lambda: head(3))
    verdict = verify(found.records, found.head)
    assert verdict.violation is not None
    assert "names record 3" in verdict.violation.seen


def test_records_that_have_all_aged_away_are_not_missed() -> None:
    """Their topic keeps them for a time, the state counts them for ever, and says how old they are."""
    old = replace(head(3), at_ms=1_021)
    found = consistent(Topic(0), lambda: old)
    assert found == AuditHistory((), old)
    assert verify(found.records, found.head, since_ms=1_022).ok
    assert not verify(found.records, found.head, since_ms=1_021).ok


def test_a_record_that_the_state_doesnt_know_is_too_many() -> None:
    """It was there before the state was read: somebody else wrote it."""
    found = consistent(Topic(4), lambda: head(3))
    assert not verify(found.records, found.head).ok


def test_without_a_state_the_history_stands_alone() -> None:
    """It is judged by itself."""
    assert consistent(Topic(4), lambda: None) == AuditHistory(tuple(records(4)))


def test_the_head_is_in_the_states_job_record() -> None:
    """None where the state names none."""
    assert head_of_state({"state": {"certificates": 3, "certificate_hash": "ab"}}) == Head(3, "ab")
    state: dict[str, object] = {"certificates": 3, "certificate_hash": "ab"}
    for at_ms, told in ((5, 5), (0, None), ("5", None)):
        found = head_of_state({"state": {**state, "certificate_at_ms": at_ms}})
        assert found is not None
        assert found.at_ms == told
    for job in (None, {}, {"state": []}, {"state": {}}, {"state": {"certificates": "3"}}):
        assert head_of_state(job) is None


def test_an_exported_history_is_read_back() -> None:
    """A record a line; empty lines don't count."""
    lines = list(lines_of(records(3)))
    assert history_of_lines([*lines, "\n"], "f") == AuditHistory(tuple(records(3)))


@pytest.mark.parametrize("named", [None, Head(0, ""), Head(3, "ab"), Head(3, "ab", 77)])
@pytest.mark.parametrize("since_ms", [None, 0, 1_000])
def test_an_export_says_what_the_state_named_and_how_far_it_goes_back(
    named: Head | None, since_ms: int | None
) -> None:
    """In its last line, behind which nothing comes."""
    history = AuditHistory(tuple(records(3)), named, since_ms)
    lines = list(exported(history))
    read = history_of_lines(lines, "f")
    assert read == history
    assert named is None or (read.head is not None and read.head.at_ms == named.at_ms)
    with pytest.raises(MalformedRecord, match="f, line 5: a line behind the closing one"):
        history_of_lines([*lines, lines[0]], "f")


@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        ({"version": 2}, "field version: 2"),
        ({"at_ms": "1"}, "field at_ms: '1', no whole number"),
        ({"since_ms": True}, "field since_ms: True, no whole number"),
        ({"digest": None}, "fields number and digest: no head"),
        ({"number": 1.5}, "field number: 1.5, no whole number"),
    ],
)
def test_a_closing_line_that_isnt_understood_is_refused(wrong: dict[str, Any], seen: str) -> None:
    """By line and field."""
    (line,) = exported(AuditHistory((), Head(3, "ab", 5), 1))
    with pytest.raises(MalformedRecord, match=f"f, line 1: {seen}"):
        history_of_lines([json.dumps({**json.loads(line), **wrong})], "f")


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("{", "f, line 2: no JSON"),
        ("[]", "f, line 2: [], no JSON object"),
        ('{"version":9}', "f, line 2, field version: 9"),
    ],
)
def test_a_line_that_is_no_record_is_told_by_its_number(line: str, seen: str) -> None:
    """Nothing is skipped."""
    with pytest.raises(MalformedRecord, match=seen.replace("[", r"\[")):
        history_of_lines([*lines_of(records(1)), line], "f")


def test_a_field_in_the_topic_is_told_with_its_offset() -> None:
    """So that it can be looked at with any consumer."""

    value = {**audit_to_json(records(1)[0]), "epoch": "1"}
    with pytest.raises(MalformedRecord, match="topic audit, offset 41, field epoch"):
        decode_entry("audit", TopicRecord(None, json.dumps(value).encode(), 0, 41))


def test_the_request_that_has_spun_up_a_standby_is_known_by_its_first_start() -> None:
    """Not by later ones, nor of the job's own; an id that was free again is the newest request's."""
    world = running()
    world.submit(own(RequestKind.START_STANDBY, "0", "host-3", uuid="first"))
    world.until_all_run()
    world.crash("0-1")
    world.until_all_run()

    def origins() -> dict[str, str]:
        records = [command.record for command in world.sent(RecordCertificate)]
        return {one.processor_id: one.spun_up_by for one in records if one.spun_up_by}

    assert origins() == {"0-1": "first"}
    world.submit(own(RequestKind.STOP_STANDBY, "0-1", uuid="gone"))
    world.until_all_run()
    world.submit(own(RequestKind.START_STANDBY, "0", "ANY_HOST", uuid="second", at_ms=20))
    world.until_all_run()
    assert origins() == {"0-1": "second"}
