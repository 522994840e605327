"""A group without a leader, a version that isn't agreed on, a task without a copy, a processor that flaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samza_dagster.client import JobView
from samza_dagster.client.views import LeaderView
from samza_dagster.orchestration.watch.findings import CheckMemory, looked
from samza_dagster.orchestration.watch.invariants import STAYS, coordinated, live_copies, none_flaps
from samza_dagster.orchestration.watch.settings import Invariants
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView
from tests.rig.standalone_job import StandaloneJob, settled

pytestmark = pytest.mark.unit


def view(group: GroupView) -> JobView:
    return StandaloneJob(group).reader().view("j", "1", 0)


def test_a_settled_group_is_well() -> None:
    """Nobody is told anything."""
    seen = view(settled())
    assert (coordinated(seen), live_copies(seen), none_flaps(seen, {})) == ([], [], [])


def test_a_group_without_a_leader_is_named_and_who_is_to_lead() -> None:
    """And no task of it has a live copy."""
    seen = view(replace(settled(), members=()))
    (finding,) = coordinated(seen)
    assert (finding.subject, finding.severity) == ("leader", "ERROR")
    assert "processor run" in finding.fix
    assert [finding.subject for finding in live_copies(seen)] == ["P 0", "P 1"]


@pytest.mark.parametrize("state", [BarrierState.NEW, BarrierState.TIMED_OUT])
def test_a_version_that_is_not_agreed_on_is_named_with_whom_it_waits_for(
    state: BarrierState,
) -> None:
    """Given up or not: as long as it is so, who is to change nothing goes on with the former."""
    stuck = replace(settled(), version=4, barrier=Barrier(state, frozenset("ab")))
    (finding,) = coordinated(view(stuck))
    assert finding.subject == "version"
    assert ("waits for c" in finding.seen) is (state is BarrierState.NEW)


def test_two_processors_of_one_id_are_named() -> None:
    """No version is made until one of them has ended."""
    group = settled()
    again = group.members[0]._replace(sequence="0000000009")
    (finding,) = coordinated(view(replace(group, members=(*group.members, again))))
    assert finding.subject == "processor id a"


def test_a_coordinator_that_ended_in_order_is_named_until_another_leads() -> None:
    """The same check in a cluster."""
    leader = LeaderView(3, "host-1", "http://host-1:1/", 1, 2, ended=True)
    of_cluster = replace(view(settled()), agreement=None, coordinator="samza_dagster")
    (finding,) = coordinated(replace(of_cluster, leader=leader))
    assert "host-1 ended in order" in finding.seen
    assert coordinated(replace(of_cluster, leader=replace(leader, ended=False))) == []


def test_a_task_whose_standby_is_alive_has_a_live_copy() -> None:
    """One whose last copy went with its location hasn't."""
    group = settled()
    assert live_copies(view(replace(group, members=group.members[1:]))) == []
    (finding,) = live_copies(view(replace(group, members=group.members[2:])))
    assert finding.subject == "P 0"
    assert "host-a" in finding.seen


def test_a_processor_that_registers_anew_three_times_in_ten_minutes_flaps() -> None:
    """A restart or two are none; it is over after five quiet minutes."""
    settings = Invariants()
    rule = {STAYS: settings.patience()[STAYS]}
    seen = view(settled())
    memory, now_ms, result = CheckMemory("j/1"), 0, None
    for looks, number in ((1, "1"), (20, "1"), (1, "2"), (20, "2")):
        for _ in range(looks):
            now_ms += 10_000
            known = {**seen.agreement.registrations, "a": number} if seen.agreement else {}
            found = none_flaps(seen, known if looks == 1 else {})
            memory, (result,) = looked(memory, {STAYS: found}, rule, now_ms)
            assert result.passed
    now_ms += 10_000
    found = none_flaps(seen, {"a": "3"})
    memory, (result,) = looked(memory, {STAYS: found}, rule, now_ms)
    assert [one.subject for one in result.failing] == ["a"]
    for _ in range(30):
        now_ms += 10_000
        memory, (result,) = looked(memory, {STAYS: []}, rule, now_ms)
    assert result.passed
