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


def test_a_change_of_rate_makes_no_jump() -> None:
    """A clock goes on from what it shows."""
    clock = Clock(0, 0, 10_000)
    before = clock.read(1_000_000)
    clock.set_rate(1_000_000, -10_000)
    assert clock.read(1_000_000) == before
    assert clock.read(2_000_000) == before + 990_000


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    """A reply that comes late shortens what is left."""
    host = HostClocks(0)
    grant = host.asked(1_000, epoch=1, lease_ms=LEASE)
    assert host.remaining(1_000 + 12_000, grant) == LEASE - 12_000
    assert host.ends_at(5_000, grant) == 1_000 + LEASE
    assert host.remaining(1_000 + LEASE, grant) == 0


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
