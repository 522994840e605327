"""What `verify` finds in records of ends, and of which end follows which."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.certificates import AuditRecord, Predecessor
from samza_dagster.placement.verification import verify
from tests.unit.placement.chronicle import Chronicle, broken, chained, found, moved

pytestmark = pytest.mark.unit


def replaced_by_lease() -> tuple[Chronicle, AuditRecord, AuditRecord]:
    """An active whose lease has run out, and its successor on another host."""
    job = Chronicle()
    lost = job.start("0", "host-1")
    job.end(lost, "lease")
    return job, lost, job.start("0", "host-2")


def test_a_lease_that_runs_out_again_beside_a_successor_shows_two_owners() -> None:
    """It was renewed although the successor had begun: both owned the tasks."""
    job, lost, successor = replaced_by_lease()
    job.end(lost, "lease")
    violation = found(job.records)
    assert (violation.position, violation.rule) == (4, Rule.ONE_OWNER)
    assert lost.execution_id in violation.seen
    assert successor.execution_id in violation.seen


def test_a_lease_may_run_out_again_while_no_successor_owns_the_tasks() -> None:
    """Its host came back before there was one, or when that had ended."""
    job = Chronicle()
    lost = job.start("0", "host-1")
    job.end(lost, "lease")
    job.end(lost, "lease")
    successor = job.start("0", "host-2")
    job.end(successor)
    job.end(lost, "lease")
    assert verify(job.records).ok


def test_nothing_is_fenced_where_there_is_no_fence() -> None:
    """A deployment or a term without broker fencing gives up the fences of the one before."""
    job = Chronicle()
    job.end(job.start("0", "host-1", fencing="broker"), "fenced", fencing="lease")
    violation = found(job.records)
    assert (violation.position, violation.rule) == (2, Rule.FORM)
    assert "'fenced'" in violation.seen
    assert "'lease'" in violation.seen


def test_a_lease_may_run_out_where_there_are_fences_too() -> None:
    """Of an incarnation that was lost before the job had any."""
    job = Chronicle()
    job.end(job.start("0", "host-1"), "lease", fencing="broker")
    assert verify(job.records).ok


@pytest.mark.parametrize("how", ["dead", "fenced", "lease"])
def test_an_end_without_evidence_is_none(how: str) -> None:
    """Somebody saw something, or the successor wouldn't have been allowed."""
    job = Chronicle()
    job.end(job.start("0", "host-1"), how, evidence="")
    violation = found(job.records)
    assert (violation.position, violation.rule) == (2, Rule.FORM)
    assert "evidence ''" in violation.seen


@pytest.mark.parametrize(
    "evidence",
    [
        "its lease ended at 99999, it is 1014",
        "its lease ended at 1000, it is 1013",
        "its lease ended at 1000",
        "its lease ended at soon, it is 1014",
        "somebody said so",
    ],
)
def test_the_numbers_of_a_lease_agree(evidence: str) -> None:
    """It had ended by the time of the record, which is the time that it names."""
    job = Chronicle()
    ended = job.end(job.start("0", "host-1"), "lease", evidence=evidence)
    assert ended.at_ms == 1014
    violation = found(job.records)
    assert (violation.position, violation.rule) == (2, Rule.FORM)
    assert repr(evidence) in violation.seen


@pytest.mark.parametrize(
    "told",
    [
        {"predecessor": Predecessor("0_1", 1, "host-1", "fenced", 1_014, "seen fenced")},
        {"left_behind": (("0", "0_1"),)},
        {"grouping": "halves"},
        {"spun_up_by": "u7"},
    ],
)
def test_an_end_tells_nothing_that_only_a_start_can(told: dict[str, Any]) -> None:
    """What it replaces, what it leaves behind, how tasks are grouped, what it was started for."""
    job = Chronicle()
    job.end(job.start("0", "host-1"), "fenced")
    started = job.start("0", "host-1", **({"left_behind": (("0", "0_1"),)} | told))
    assert verify(job.records).ok
    job.end(started, **told)
    violation = found(job.records)
    assert (violation.position, violation.rule) == (4, Rule.FORM)
    assert violation.seen.startswith(next(iter(told)))


def test_an_end_is_of_a_known_start() -> None:
    """Of one that never started there is none."""
    job = moved()
    job.end(replace(job.not_ended["0-0"], execution_id="0-0_77"))
    assert broken(job.records) == (5, Rule.ENDS)


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"processor_id": "0-1"},
        {"processor_id": "7-0", "group_id": "7"},
        {"processor_id": "0", "role": "Active"},
        {"host": "7"},
        {"epoch": 7},
    ],
)
def test_an_end_speaks_of_what_started(wrong: dict[str, Any]) -> None:
    """The same processor, group, role, epoch and host."""
    job = moved()
    job.end(job.not_ended["0-0"], **wrong)
    assert broken(job.records) == (5, Rule.ENDS)
