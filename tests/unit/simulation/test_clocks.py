"""Leases by clocks that drift, are set, and stand still."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.clocks import Clock, HostClocks

pytestmark = pytest.mark.unit

LEASE = 30_000
times = st.integers(0, 10_000_000)
rates = st.integers(-15_000, 15_000)


@given(since=times, base=times, ppm=rates, later=times)
def test_when_is_the_first_time_at_which_a_clock_shows_a_value(
    since: int, base: int, ppm: int, later: int
) -> None:
    """Deadlines are met neither early nor a millisecond late."""
    clock = Clock(since, base, ppm)
    at_ms = clock.when(base + later)
    assert clock.read(at_ms) >= base + later
    assert at_ms == since or clock.read(at_ms - 1) < base + later


def test_a_paused_machine_finds_its_lease_over() -> None:
    """Its boot time stood still, and the wall clock, set right, tells."""
    host = HostClocks(0)
    grant = host.asked(0, 1, LEASE)
    host.paused(35_000)
    assert host.boot.read(36_000) == 1_000
    assert host.remaining(36_000, grant) == 0


@given(ppm=rates, leader_ppm=rates)
def test_two_clocks_that_run_apart_stay_within_the_bound(ppm: int, leader_ppm: int) -> None:
    """A leader that waits for the lease and its bound waits long enough."""
    host, leader = HostClocks(0, ppm), Clock(0, 0, leader_ppm)
    grant = host.asked(0, 1, LEASE)
    assert host.ends_at(0, grant) <= leader.when(LEASE + 1_000)
