"""What `verify` finds in the records of a coordinator that has decided, or written, wrongly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.certificates import AuditRecord, Predecessor
from samza_dagster.placement.verification import verify
from tests.unit.placement.chronicle import Chronicle, broken, chained, found, moved

pytestmark = pytest.mark.unit

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("processor_id", "wrong"),
    [
        ("0", {"group_id": "7"}),
        ("0-0", {"group_id": "0-0"}),
        ("0", {"role": "Standby"}),
        ("0-0", {"role": "Active"}),
    ],
)
@pytest.mark.parametrize("kind", ["start", "end"])
def test_a_group_is_named_for_its_active(
    kind: str, processor_id: str, wrong: dict[str, str]
) -> None:
    """Under another group it could start beside its own active."""
    job = Chronicle()
    started = job.start(processor_id, "host-1", **(wrong if kind == "start" else {}))
    job.end(started, **wrong)
    violation = found(job.records)
    assert (violation.position, violation.rule) == (1 if kind == "start" else 2, Rule.FORM)
    assert repr(*wrong.values()) in violation.seen


def test_a_processor_stays_in_its_group_while_its_deployment_lasts() -> None:
    """In another one it would start where its own active runs."""
    job = Chronicle()
    job.end(job.start("0-0", "host-1"))
    job.start("0-0", "host-1", group_id="7")
    violation = found(job.records)
    assert (violation.position, violation.rule) == (3, Rule.FORM)
    assert "'7'" in violation.seen
    assert "'0'" in violation.seen


@pytest.mark.parametrize("fencing", ["nonsense", "", "Lease"])
def test_only_a_known_setting_takes_tasks_away(fencing: str) -> None:
    """`lease` or `broker`, in starts and ends alike."""
    job = Chronicle()
    started = job.start("0", "host-1", fencing=fencing)
    violation = found(job.records)
    assert (violation.position, violation.rule) == (1, Rule.FORM)
    assert f"fencing {fencing!r}" in violation.seen
    job = Chronicle()
    started = job.start("0", "host-1")
    job.end(started, fencing=fencing)
    assert found(job.records).rule is Rule.FORM


def early(which: str, by_ms: int) -> list[AuditRecord]:
    """An active is moved; its end, or its successor, is dated so much before what it follows."""
    job = Chronicle()
    job.now_ms = 100 * HOUR_MS
    started = job.start("0", "host-1")
    if which == "end":
        job.now_ms = started.at_ms - by_ms - 7
    ended = job.end(started)
    if which == "successor":
        job.now_ms = ended.at_ms - by_ms - 7
    job.start("0", "host-2")
    return job.records


@pytest.mark.parametrize(("which", "position"), [("end", 2), ("successor", 3)])
def test_nothing_is_dated_before_what_it_follows(which: str, position: int) -> None:
    """No two leaders' clocks are taken to differ by more than an hour."""
    assert verify(early(which, HOUR_MS)).ok
    records = early(which, HOUR_MS + 1)
    violation = found(records)
    assert (violation.position, violation.rule) == (position, Rule.TIME)
    assert str(records[position - 1].at_ms) in violation.seen
    assert str(records[position - 2].at_ms) in violation.seen


def test_a_processor_that_comes_back_without_a_predecessor_is_dated_after_its_last_end() -> None:
    """Also a standby that was removed, whose start names nobody."""
    job = Chronicle()
    job.now_ms = 100 * HOUR_MS
    job.end(job.start("0-0", "host-1"))
    job.now_ms = 5 * HOUR_MS
    job.start("0-0", "host-2", predecessor=None)
    assert found(job.records).rule is Rule.TIME


def test_a_lease_that_was_renewed_ended_when_it_ran_out_again() -> None:
    """Its successor rests on the second end; of the first nobody could know any more."""
    job = Chronicle()
    lost = job.start("0", "host-1")
    job.end(lost, "lease")
    renewed = job.predecessor["0"]
    job.end(lost, "lease")
    job.start("0", "host-2", predecessor=renewed)
    violation = found(job.records)
    assert (violation.position, violation.rule) == (4, Rule.PREDECESSOR)


def test_a_processor_that_starts_before_the_one_before_has_ended_has_two_owners() -> None:
    """Whatever the record says of its predecessor."""
    job = moved()
    named = Predecessor("0_3", 3, "host-3", "dead", 1, "")
    job.start("0", "host-4", predecessor=named)
    assert broken(job.records) == (5, Rule.ONE_OWNER)


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution_id": "0_9"},
        {"epoch": 2},
        {"host": "host-9"},
        {"how": "fenced"},
        {"at_ms": 3},
        {"evidence": "somebody said so"},
    ],
)
def test_a_predecessor_is_the_incarnation_before_as_its_end_was_recorded(
    wrong: dict[str, Any],
) -> None:
    """Which it was, where, and how it is known to have ended."""
    job = moved()
    job.end(job.not_ended["0"])
    named = replace(job.predecessor["0"], **wrong)
    job.start("0", "host-4", predecessor=named)
    assert broken(job.records) == (6, Rule.PREDECESSOR)


def test_the_predecessor_of_an_active_is_never_left_out() -> None:
    """Nor is one named that never was."""
    job = moved()
    job.end(job.not_ended["0"])
    job.start("0", "host-4", predecessor=None)
    assert broken(job.records) == (6, Rule.PREDECESSOR)
    job = moved()
    job.start("1", "host-4", predecessor=Predecessor("1_0", 0, "host-1", "dead", 1, ""))
    assert broken(job.records) == (5, Rule.PREDECESSOR)


@pytest.mark.parametrize("how", ["dead", "fenced", "lease"])
def test_a_standby_that_was_removed_comes_back_without_one(how: str) -> None:
    """It has ended, whichever way; that it was removed isn't recorded."""
    job = moved()
    job.end(job.not_ended["0-0"], how)
    job.start("0-0", "host-5", predecessor=None)
    assert verify(job.records).ok


def test_a_processor_that_only_a_later_deployment_has_again_names_none() -> None:
    """Its end is in the history all the same."""
    job = moved()
    job.end(job.not_ended["0"], "lease")
    job.start("0", "host-4", predecessor=None, deployment_id="2-b")
    assert verify(job.records).ok
    job.start("0", "host-5", predecessor=None, deployment_id="3-c")
    assert broken(job.records) == (7, Rule.ONE_OWNER)


@pytest.mark.parametrize("others", [(), (("0-0", "host-2"),)])
def test_no_member_starts_beside_another(others: tuple[tuple[str, str], ...]) -> None:
    """Whether the record names the other or hides it."""
    job = moved()
    job.end(job.not_ended["0"])
    job.start("0", "host-2", others=others)
    assert broken(job.records) == (6, Rule.SAME_HOST)


def test_a_orphan_keeps_its_host_until_it_is_seen_dead() -> None:
    """Its lease has run out, so its successor starts elsewhere; the host is free after its death."""
    job = Chronicle()
    lost = job.start("0", "host-1")
    job.start("0-0", "host-2")
    job.end(lost, "lease")
    job.start("0", "host-3")
    job.end(job.not_ended["0-0"])
    wrong = job.start("0-0", "host-1")
    assert wrong.others == (("0", "host-1"), ("0", "host-3"))
    assert broken(job.records) == (6, Rule.SAME_HOST)
    del job.records[-1], job.undead[wrong.execution_id]
    job.end(lost)
    job.start("0-0", "host-1")
    assert verify(chained(job.records)).ok


def test_the_others_are_those_that_the_history_has() -> None:
    """None left out, none made up."""
    job = moved()
    job.end(job.not_ended["0"])
    job.start("0", "host-4", others=())
    assert broken(job.records) == (6, Rule.OTHERS)
    job = moved()
    job.end(job.not_ended["0"])
    job.start("0", "host-4", others=(("0-0", "host-2"), ("0-1", "host-5")))
    assert broken(job.records) == (6, Rule.OTHERS)


def test_an_epoch_is_never_given_twice() -> None:
    """It grows over the whole job, not by processor."""
    job = moved()
    job.start("1", "host-1", epoch=3)
    assert broken(job.records) == (5, Rule.EPOCH)


def test_an_execution_id_is_never_given_twice() -> None:
    """Agents tell incarnations apart by it."""
    job = moved()
    job.start("1", "host-1", execution_id="0_1")
    assert broken(job.records) == (5, Rule.EXECUTION)


def test_whoever_was_seen_dead_later_may_be_named_by_either_end() -> None:
    """The successor rests on what was known as it started."""
    for named in (0, 1):
        job = moved()
        lost = job.not_ended["0"]
        job.end(lost, "fenced")
        ends = [job.predecessor["0"]]
        job.end(lost)
        dead = job.records[-1]
        ends.append(replace(ends[0], how="dead", at_ms=dead.at_ms, evidence=dead.evidence))
        job.start("0", "host-4", predecessor=ends[named])
        assert verify(job.records).ok


def test_another_deployment_may_have_a_processor_in_another_group() -> None:
    """Its groups are its own."""
    job = Chronicle()
    job.end(job.start("0-0", "host-1"))
    job.start("0-0", "host-1", group_id="7", deployment_id="2-b")
    assert verify(job.records).ok


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "pause"},
        {"role": "Observer"},
        {"how": "dead"},
        {"epoch": 0},
        {"host": ""},
        {"execution_id": ""},
    ],
)
def test_a_record_says_what_a_record_can_say(wrong: dict[str, Any]) -> None:
    """Any other word is of no release."""
    job = moved()
    job.records.append(replace(Chronicle().start("1", "host-1"), **({"epoch": 9} | wrong)))
    assert broken(job.records) == (5, Rule.FORM)


def test_a_record_of_other_rules_is_not_judged_by_these() -> None:
    """A newer release may allow what this one doesn't know."""
    job = moved()
    job.start("1", "host-1", rules_version=2)
    assert broken(job.records) == (5, Rule.RULES_VERSION)
