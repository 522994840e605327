"""Twenty faults of a job under Samza's own AM: which come side by side, and when they count as told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.am_faults import (
    AT_ONCE_S,
    BLIND,
    FREEZE,
    HOSTS,
    KILL_JOB,
    KILL_NODE,
    KNOWS_YARN,
    RING,
    STOP_APPLYING,
    WATCHERS,
    WAVES,
    Fault,
    Told,
    is_told,
    judged_by,
    next_move,
    problems,
)

pytestmark = pytest.mark.unit


def test_there_are_twenty_and_each_container_is_frozen_once() -> None:
    """As many as the shadowed judgement asks for."""
    faults = [fault for wave in WAVES for fault in wave]
    assert sum(len(judged_by(fault)) for fault in faults) == 20
    assert sorted(f.subject for f in faults if f.kind == FREEZE) == sorted(RING)
    standbys = sorted(p for p in RING if p.endswith("-0"))
    assert sorted(f.subject for f in faults if f.kind == STOP_APPLYING) == standbys


@pytest.mark.parametrize("wave", WAVES[:2])
def test_no_host_falls_silent_and_a_standby_that_stands_has_an_active_that_writes(
    wave: tuple[Fault, ...],
) -> None:
    """Else more would be told than was done, or nothing could tell it."""
    silent = {fault.subject for fault in wave if fault.kind == FREEZE}
    assert {RING[p] for p in RING if p not in silent} == set(HOSTS)
    stopped = [fault.subject for fault in wave if fault.kind == STOP_APPLYING]
    assert not {p.partition("-")[0] for p in stopped} & silent
    assert not silent & set(stopped)
    assert {RING[p] for p in RING if "-" not in p} == set(HOSTS)


FROZEN, NODE, JOB = Fault(FREEZE, "0"), Fault(KILL_NODE), Fault(KILL_JOB)


def both(signal: str, subject: str, after_s: float) -> list[Told]:
    return [Told(watcher, signal, subject, after_s) for watcher in WATCHERS]


def test_what_is_told_in_time_by_both_is_no_problem() -> None:
    told = both("silent", "0", 150.0)
    assert problems([FROZEN], told, {}, {}) == []
    assert is_told([FROZEN], told, {})
    assert problems([NODE], both("host-sick", "host-2", 170.0), {NODE: "host-2"}, {}) == []


def test_what_is_missing_late_or_of_nothing_is_told() -> None:
    one = [Told(BLIND, "silent", "0", 200.0), Told(BLIND, "silent", "1", 20.0)]
    assert not is_told([FROZEN], one, {})
    assert problems([FROZEN], one, {}, {}) == [
        f"freeze 0, {BLIND}: told after 200 s",
        f"told {BLIND} of nothing: silent 1",
        f"freeze 0, {KNOWS_YARN}: not told",
    ]


def test_a_dead_job_is_told_at_once_where_yarn_says_it() -> None:
    late = both("job-dead", "job", AT_ONCE_S + 1)
    assert problems([JOB], late, {}, {}) == [f"kill job , {KNOWS_YARN}: told after 16 s"]
    assert problems([JOB], late, {}, {JOB: 1.5}) == []


@given(st.sampled_from("0123"), st.sampled_from(HOSTS), st.sampled_from(HOSTS))
def test_every_layout_of_a_group_comes_into_the_ring_by_legal_moves(
    group: str, active: str, standby: str
) -> None:
    """Wherever YARN has put them: never are two of a group on one host."""
    at = {group: active, f"{group}-0": standby}
    if active == standby:
        return
    for _ in range(3):
        move = next_move(at, group)
        if move is None:
            break
        at[move[0]] = move[1]
        assert at[group] != at[f"{group}-0"]
    assert at == {p: RING[p] for p in at}
