"""Which faults come, and that some are in force at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.sandbox.broker_settings import broker_settings
from tests.chaos.in_force import CarriedOut, Done, InForce
from tests.chaos.schedule import (
    APART_WITHOUT_A_FENCE,
    BROKER_SESSION_S,
    HOST_TIMEOUT_S,
    KEEPERLESS,
    KINDS,
    OF_SEVERAL_BROKERS,
    OUTLAST_A_LEASE,
    OUTLAST_A_SESSION,
    WORST,
    Fault,
    schedule,
)

pytestmark = pytest.mark.unit

ALL = (*OF_SEVERAL_BROKERS, *KINDS)


def test_a_seed_is_a_schedule_and_no_kind_is_left_out() -> None:
    """Each kind as often as the others, but for one."""
    faults = list(schedule(3, 50))
    assert faults == list(schedule(3, 50))
    assert faults != list(schedule(4, 50))
    counted = Counter(fault.kind for fault in faults)
    assert set(counted) == set(KINDS)
    assert max(counted.values()) - min(counted.values()) <= 1
    assert any(fault.next_after_s for fault in faults), "some begin beside the one before"


@given(st.integers(0, 10_000))
def test_the_worst_kinds_come_before_the_others_and_none_twice_before_all_came(seed: int) -> None:
    """So a short run has them all, whatever its seed: `freeze host`, `stop agent`, `cut off container`."""
    first = [fault.kind for fault in schedule(seed, len(KINDS))]
    assert sorted(first) == sorted(KINDS)
    assert set(first[:14]) == set(first[: len(WORST)]) == set(WORST)


@given(st.integers(0, 10_000))
def test_each_kind_that_can_outlasts_a_lease_once_at_least(seed: int) -> None:
    """Else no container is ever killed at its lease's end; a spare leads before a zombie thaws."""
    faults = list(schedule(seed, len(KINDS), lease_s=20.0))
    longest = {fault.kind: fault.hold_s for fault in faults}
    assert all(longest[kind] > 20.0 for kind in (*OUTLAST_A_LEASE, KEEPERLESS, "zombie leader"))
    assert longest["kill host"] > HOST_TIMEOUT_S


@given(st.integers(0, 10_000))
def test_both_fencings_have_one_schedule_but_for_what_leases_cannot_cover(seed: int) -> None:
    """The same kinds, victims and lengths, so that what differs is the fence. Nobody without
    keepers outlives a lease, and nothing else is in force when a write may come late.
    """
    fenced = list(schedule(seed, 81))
    leases = list(schedule(seed, 81, fenced=False))
    apart = {
        number
        for one, other in pairwise(leases)
        if {one.kind, other.kind} & set(APART_WITHOUT_A_FENCE)
        for number in (one.number, other.number)
    }
    for one, other in zip(fenced, leases, strict=True):
        assert (one.number, one.kind, one.victim) == (other.number, other.kind, other.victim)
        if one.kind == KEEPERLESS:
            assert other.hold_s < HOST_TIMEOUT_S
        else:
            assert one.hold_s == other.hold_s
        if other.number not in apart:
            assert one.next_after_s == other.next_after_s
    for one, other in pairwise(leases):
        if {one.kind, other.kind} & set(APART_WITHOUT_A_FENCE):
            assert one.next_after_s is None


@given(st.integers(0, 10_000))
def test_what_only_three_brokers_can_suffer_comes_first_by_turns_with_the_worst(seed: int) -> None:
    """So twenty faults have each of them, beside others; none comes again before all came."""
    first = [fault.kind for fault in schedule(seed, len(ALL), ALL)]
    assert sorted(first) == sorted(ALL)
    turns = 2 * len(OF_SEVERAL_BROKERS)
    assert turns <= 20
    assert set(first[:turns:2]) == set(OF_SEVERAL_BROKERS)
    assert set(first[1:turns:2]) <= set(WORST) <= set(first[: turns + len(WORST)])


@given(st.integers(0, 10_000))
def test_a_broker_that_is_lost_or_expires_is_away_for_longer_than_its_session(seed: int) -> None:
    """Each time, though the controller goes with it; the session is the sandbox's own."""
    session_ms = broker_settings(1, 2, Path())["broker.session.timeout.ms"]
    assert float(session_ms) == BROKER_SESSION_S * 1000
    for fault in schedule(seed, 2 * len(ALL), ALL):
        if fault.kind in OUTLAST_A_SESSION:
            assert BROKER_SESSION_S + 4.0 < fault.hold_s < 20.0


class Sandbox:
    """Keeps a time of its own, and what was done when. Hosts, and one broker."""

    def __init__(self, hosts: int = 2) -> None:
        self.now_s = 0.0
        self.done: list[tuple[float, str]] = []
        self._hosts = [f"host-{n}" for n in range(hosts)]

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now_s += seconds

    def carry_out(self, fault: Fault, taken: Collection[str]) -> Done | None:
        """To the first that is free."""
        possible = ["broker"] if "broker" in fault.kind else self._hosts
        free = [name for name in possible if name not in taken]
        if not free:
            return None
        self.done.append((self.now_s, f"begin {fault.number}"))

        def undo() -> str:
            self.done.append((self.now_s, f"end {fault.number}"))
            return "came back"

        return Done(free[0], frozenset({free[0]}), undo)


def in_force(sandbox: Sandbox) -> InForce:
    """With its clock."""
    return InForce(sandbox.carry_out, lambda: sandbox.now_s, sandbox.sleep)


def test_a_fault_begins_while_the_one_before_is_in_force_and_ends_in_its_own_time() -> None:
    """It was held, undone, and only then the next began."""
    sandbox = Sandbox()
    held = in_force(sandbox)
    faults = [Fault(1, "freeze host", 0, 20.0, 5.0), Fault(2, "freeze host", 0, 3.0, 1.0)]
    faults.append(Fault(3, "freeze broker", 0, 4.0))
    began: list[CarriedOut] = []
    for fault in faults:
        began.append(held.begin(fault))
        held.wait(fault.next_after_s or 0.0)
    assert [(each.victim, each.at_s, each.beside) for each in began] == [
        *(("host-0", 0.0, 0), ("host-1", 5.0, 1), ("broker", 6.0, 2))
    ]
    held.wait_for_all()
    assert sandbox.done == [
        *((0.0, "begin 1"), (5.0, "begin 2"), (6.0, "begin 3")),
        *((8.0, "end 2"), (10.0, "end 3"), (20.0, "end 1")),
    ]
    assert [each.undone_s for each in began] == [20.0, 8.0, 10.0]
    assert {each.victim.partition(": ")[2] for each in began} == {"came back"}


@given(st.integers(0, 500))
def test_every_fault_that_begins_ends_once_and_none_before_its_time(seed: int) -> None:
    """Whatever is drawn, on hosts that some of them must wait for."""
    sandbox = Sandbox()
    held = in_force(sandbox)
    faults = list(schedule(seed, 20))
    for fault in faults:
        held.begin(fault)
        if fault.next_after_s is None:
            held.wait_for_all()
        else:
            held.wait(fault.next_after_s)
    held.wait_for_all()
    at_s = {what: at for at, what in sandbox.done}
    assert len(at_s) == len(sandbox.done) == 2 * len(faults)
    for fault in faults:
        lasted_s = at_s[f"end {fault.number}"] - at_s[f"begin {fault.number}"]
        assert lasted_s == pytest.approx(fault.hold_s)
    assert all(one <= other for (one, _), (other, _) in pairwise(sandbox.done))
