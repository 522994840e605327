"""Starts on a host whose name another machine bears now: what ran there was left behind."""

from __future__ import annotations

import pytest

from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.verification import verify
from tests.unit.placement.chronicle import Chronicle, broken, chained, found

pytestmark = pytest.mark.unit


def left(*records: AuditRecord) -> tuple[tuple[str, str], ...]:
    return tuple((record.processor_id, record.execution_id) for record in records)


@pytest.mark.parametrize("how", ["fenced", "lease"])
def test_a_host_is_free_of_what_ended_on_the_machine_before(how: str) -> None:
    """Of all that was left there: its process may live, and can't reach the store."""
    job = Chronicle()
    active = job.start("0", "host-1")
    job.end(active, how)
    job.start("0", "host-1", left_behind=left(active))
    assert verify(job.records).ok
    job.start("0-0", "host-1", left_behind=left(active))
    assert broken(job.records) == (4, Rule.SAME_HOST)


def test_what_is_not_said_to_be_left_behind_keeps_its_host() -> None:
    """Each of those that were there is named, or none may start."""
    job = Chronicle()
    active = job.start("0", "host-1")
    job.end(active, "lease")
    job.start("0", "host-1", left_behind=())
    assert broken(job.records) == (3, Rule.SAME_HOST)


def test_what_was_left_behind_has_ended() -> None:
    """A member that still owns tasks is in the way, whichever machine has it."""
    job = Chronicle()
    standby = job.start("0-0", "host-1")
    job.start("0", "host-1", left_behind=left(standby))
    assert broken(job.records) == (2, Rule.SAME_HOST)


def test_nothing_is_left_behind_that_was_not_there() -> None:
    """Neither what runs elsewhere, nor what never was, nor what was seen dead."""
    job = Chronicle()
    standby = job.start("0-0", "host-2")
    job.end(standby, "lease")
    job.start("0", "host-1", left_behind=left(standby))
    assert broken(job.records) == (3, Rule.SAME_HOST)
    job = Chronicle()
    job.start("0", "host-1", left_behind=(("0-0", "0-0_77"),))
    assert broken(job.records) == (1, Rule.SAME_HOST)
    job = Chronicle()
    dead = job.start("0-0", "host-1")
    job.end(dead)
    job.start("0", "host-1", left_behind=left(dead))
    assert broken(job.records) == (3, Rule.SAME_HOST)


def test_what_was_left_behind_before_a_history_begins_passes() -> None:
    """Its own start is gone; of one that is there the history says where it was."""
    job = Chronicle()
    job.epoch = 5
    gone = (("0-0", "0-0_2"),)
    job.start("0", "host-1", left_behind=gone, others=(("0-0", "host-1"),))
    assert verify(chained(job.records, 9)).ok
    assert found(job.records).rule is Rule.SAME_HOST
    elsewhere = job.start("0-1", "host-2", others=(("0", "host-1"), ("0-0", "host-1")))
    job.end(elsewhere, "lease")
    job.end(job.not_ended["0"])
    others = (("0-0", "host-1"), ("0-1", "host-2"))
    job.start("0", "host-1", left_behind=(*gone, *left(elsewhere)), others=others)
    violation = found(job.records, 9)
    assert (violation.position, violation.rule) == (5, Rule.SAME_HOST)
    assert elsewhere.execution_id in violation.seen
