"""Reading a history that goes on while it is read, and one from a file."""

from __future__ import annotations

import dataclasses
import json

import pytest

from samza_dagster.client.audit_history import (
    AuditHistory,
    consistent,
    head_of_state,
    history_of_lines,
    lines_of,
)
from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.audit_log import AuditEntry
from samza_dagster.placement.audit_codec import audit_to_json
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.verification import Head, verify
from tests.unit.placement.chronicle import Chronicle

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

    topic = "audit"

    def __init__(self, *seen: int) -> None:
        self.seen = list(seen)

    def entries(self) -> list[AuditEntry]:
        number = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        return [AuditEntry(2 * n, 0, audit_to_json(r)) for n, r in enumerate(records(number))]


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
    """Their topic keeps them for a time, the state counts them for ever."""
    found = consistent(Topic(0), lambda: head(3))
    assert found == AuditHistory((), head(3))
    assert verify(found.records, found.head).ok


def test_a_record_that_the_state_doesnt_know_is_too_many() -> None:
    """It was there before the state was read: somebody else wrote it."""
    found = consistent(Topic(4), lambda: head(3))
    assert not verify(found.records, found.head).ok


def test_without_a_state_the_history_stands_alone() -> None:
    """It is judged by itself."""
    assert consistent(Topic(4), lambda: None) == AuditHistory(tuple(records(4)))


def test_the_head_is_in_the_states_job_record() -> None:
    """Absent in a state that an older release wrote."""
    assert head_of_state({"state": {"certificates": 3, "certificate_hash": "ab"}}) == Head(3, "ab")
    for job in (None, {}, {"state": []}, {"state": {}}, {"state": {"certificates": "3"}}):
        assert head_of_state(job) is None


def test_an_exported_history_is_read_back() -> None:
    """A record a line; empty lines don't count."""
    lines = list(lines_of(records(3)))
    assert history_of_lines([*lines, "\n"], "f") == AuditHistory(tuple(records(3)))


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

    class Bad(Topic):
        def entries(self) -> list[AuditEntry]:
            value = json.loads(json.dumps(dataclasses.asdict(records(1)[0])))
            return [AuditEntry(41, 0, {"version": 1, **value, "epoch": "1"})]

    with pytest.raises(MalformedRecord, match="topic audit, offset 41, field epoch"):
        consistent(Bad(1), lambda: None)
