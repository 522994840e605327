"""Twenty faults of a job under Samza's own AM: which come side by side, and when they count as told."""

from __future__ import annotations

import pytest

from tests.chaos.am_faults import (
    AT_ONCE_S,
    BLIND,
    FREEZE,
    KILL_JOB,
    KILL_NODE,
    KNOWS_YARN,
    WATCHERS,
    Fault,
    Told,
    is_told,
    problems,
)

pytestmark = pytest.mark.unit


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
