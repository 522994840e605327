"""What `verify` finds in a history whose oldest records have aged away, and what it lets pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.audit_rules import CLOCKS_DIFFER_MS
from samza_dagster.placement.certificates import AuditRecord, Predecessor
from samza_dagster.placement.verification import verify
from tests.unit.placement.chronicle import Chronicle, chained, found, moved

pytestmark = pytest.mark.unit

FIRST = 9
"""The number of the first record that is left."""
GONE = Predecessor("0_3", 3, "host-1", "dead", 20, "seen dead")


def cut() -> Chronicle:
    """A job whose first five epochs are gone."""
    job = Chronicle()
    job.epoch = 5
    return job


def is_fine(job: Chronicle) -> bool:
    return verify(chained(job.records, FIRST)).ok


def rule_of(job: Chronicle) -> Rule:
    """The rule that the last record breaks."""
    violation = found(job.records, FIRST)
    assert violation.position == len(job.records)
    return violation.rule


def end_of_gone(job: Chronicle, **fields: Any) -> AuditRecord:
    """The end of an incarnation whose start has aged away."""
    gone = replace(Chronicle().start("0", "host-1"), execution_id="0_3", epoch=3)
    return job.end(replace(gone, **fields))


@pytest.mark.parametrize(
    "wrong",
    [
        {"how": "asleep"},
        {"how": ""},
        {"epoch": 6},
        {"epoch": 77},
        {"evidence": ""},
        {"how": "lease", "evidence": "its lease ended at 99, it is 20"},
        {"how": "lease"},
    ],
)
def test_a_predecessor_that_has_aged_away_is_judged_by_what_its_successor_says(
    wrong: dict[str, Any],
) -> None:
    """It is older, and has ended in a known way, with evidence: the record of that is gone."""
    job = cut()
    job.start("0", "host-2", predecessor=GONE)
    assert is_fine(job)
    job = cut()
    job.start("0", "host-2", predecessor=replace(GONE, **wrong))
    assert rule_of(job) is Rule.PREDECESSOR
    assert GONE.execution_id in found(job.records, FIRST).seen


def test_a_start_is_dated_after_the_end_that_has_aged_away() -> None:
    """But for how far leaders' clocks may differ."""
    for late_ms, fine in ((CLOCKS_DIFFER_MS, True), (CLOCKS_DIFFER_MS + 1, False)):
        job = cut()
        job.start("0", "host-2", predecessor=replace(GONE, at_ms=job.now_ms + 7 + late_ms))
        assert is_fine(job) is fine
    assert rule_of(job) is Rule.TIME


def test_others_that_started_before_pass() -> None:
    """In a whole history they are made up; in both none that is there is left out."""
    job = cut()
    job.start("0", "host-1", others=(("0-0", "host-2"),))
    assert is_fine(job)
    assert found(job.records).rule is Rule.OTHERS
    job.start("0-1", "host-3", others=(("0-0", "host-2"),))
    assert rule_of(job) is Rule.OTHERS


def test_no_member_starts_beside_one_that_started_before() -> None:
    """Only the record itself knows of that one."""
    job = cut()
    job.start("0", "host-2", others=(("0-0", "host-2"),))
    assert rule_of(job) is Rule.SAME_HOST


@pytest.mark.parametrize(("epoch", "fine"), [(5, True), (6, False), (7, False)])
def test_an_end_without_a_start_is_older_than_every_start_that_is_left(
    epoch: int, fine: bool
) -> None:
    """What is younger would have its start here."""
    job = cut()
    job.start("1", "host-1")
    end_of_gone(job, epoch=epoch)
    assert is_fine(job) is fine
    if not fine:
        assert rule_of(job) is Rule.ENDS


def test_what_has_ended_before_every_start_counts_as_given() -> None:
    """Neither its epoch nor its execution id is given again."""
    job = cut()
    end_of_gone(job, epoch=6)
    job.start("1", "host-1")
    assert rule_of(job) is Rule.EPOCH
    job = cut()
    end_of_gone(job)
    job.start("1", "host-1", execution_id="0_3")
    assert rule_of(job) is Rule.EXECUTION
    job = cut()
    end_of_gone(job, epoch=5)
    end_of_gone(job, execution_id="0_2", epoch=2)
    job.start("1", "host-1", epoch=4)
    assert rule_of(job) is Rule.EPOCH


def test_a_whole_history_has_the_start_of_every_end() -> None:
    """Also before its first start."""
    job = Chronicle()
    end_of_gone(job)
    assert found(job.records).rule is Rule.ENDS


def test_the_part_of_a_move_that_is_left_is_fine() -> None:
    """An end, its successor, and a standby's lease."""
    job = moved()
    job.end(job.not_ended["0-0"], "lease")
    job.start("0-0", "host-4")
    job.records = job.records[2:]
    assert is_fine(job)
