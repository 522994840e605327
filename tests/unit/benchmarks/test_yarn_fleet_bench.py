"""What the benchmark of a fleet on YARN calls the coordinator's own time, and too much of it."""

from __future__ import annotations

import statistics
import threading
import time
from random import Random

import pytest

from benchmarks.yarn_fleet import too_slow
from tests.rig.simulated_yarn.delays import Delays, Recorded, gaps, union
from tests.rig.simulated_yarn.fleet import shared_hosts

pytestmark = pytest.mark.unit


def test_less_than_a_tenth_alone_is_fast_enough() -> None:
    assert too_slow({"deploy": {"alone": 0.0999}, "drain": {"alone": 0.0}}) == []


def test_each_scenario_that_misses_the_bound_is_told() -> None:
    (line,) = too_slow({"deploy": {"alone": 0.1}, "drain": {"alone": 0.05}})
    assert line.startswith("deploy: for 10.0%")


def test_times_that_overlap_count_once_and_only_within_the_scenario() -> None:
    found = union([(5.0, 7.0), (0.0, 2.0), (1.0, 3.0), (6.0, 12.0), (20.0, 21.0)], 1.5, 10.0)
    assert found == [(1.5, 3.0), (5.0, 10.0)]


def test_what_no_interval_has_is_a_gap_at_both_ends_too() -> None:
    assert gaps([(2.0, 3.0), (2.5, 4.0)], 1.0, 6.0) == [(1.0, 2.0), (4.0, 6.0)]
    assert gaps([(0.0, 9.0)], 1.0, 6.0) == []
    assert gaps([], 1.0, 6.0) == [(1.0, 6.0)]


def test_a_recorded_time_is_drawn_about_its_median_and_never_above_its_most() -> None:
    chance, recorded = Random(1), Recorded(0.2, 0.6)
    drawn = [recorded.draw(chance) for _ in range(2_000)]
    assert 0.19 < statistics.median(drawn) < 0.22
    assert max(drawn) <= 0.6


def test_what_is_waited_for_is_pending_until_it_is_due_and_happens_then() -> None:
    delays, done = Delays(seed=1), threading.Event()
    began = time.monotonic()
    due = delays.later(0.05, done.set)
    assert done.wait(10)
    assert time.monotonic() >= due
    ((since, until),) = delays.pending(began, due + 60.0)
    assert since >= began
    assert until == due


def test_one_that_is_due_sooner_does_not_wait_for_one_that_was_asked_before() -> None:
    delays, done = Delays(seed=1), threading.Event()
    late = delays.later(3_600.0, done.clear)
    delays.later(0.01, done.set)
    assert done.wait(10)
    assert delays.pending(late - 1.0, late + 1.0) == [(late - 1.0, late)]


def test_two_of_one_group_on_a_host_are_found() -> None:
    running = {"a": {"1": True, "1-0": True}, "b": {"2": True, "3-0": True}}
    assert shared_hosts(running) == ["a"]
