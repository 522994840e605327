"""Which faults come, and that some are in force at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.__main__ import ON_YARN
from tests.chaos.clocks import SET
from tests.chaos.cut_links import HELD
from tests.chaos.in_force import CarriedOut, Done, InForce
from tests.chaos.schedule import (
    KINDS,
    NODE_EXPIRY_S,
    OF_YARN,
    Fault,
    schedule,
)

pytestmark = pytest.mark.unit


def test_a_seed_is_a_schedule_and_no_kind_is_left_out() -> None:
    """Each kind as often as the others, but for one."""
    faults = list(schedule(3, 50))
    assert faults == list(schedule(3, 50))
    assert faults != list(schedule(4, 50))
    counted = Counter(fault.kind for fault in faults)
    assert set(counted) == set(KINDS)
    assert max(counted.values()) - min(counted.values()) <= 1
    assert any(fault.next_after_s for fault in faults), "some begin beside the one before"


def test_on_yarn_each_kind_comes_once_before_any_comes_again() -> None:
    """Those of YARN's own parts by turns with the worst; a node that is lost is so for long enough."""
    faults = list(schedule(5, len(ON_YARN), ON_YARN))
    assert sorted(fault.kind for fault in faults) == sorted(ON_YARN)
    assert {fault.kind for fault in faults[: 2 * len(OF_YARN)]} >= set(OF_YARN)
    assert not set(ON_YARN) & {*HELD, *SET, "upgrade agent"}
    (lost,) = (fault for fault in faults if fault.kind == "lose node manager")
    assert lost.hold_s > NODE_EXPIRY_S


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
